package page

import (
	"fmt"
	"strconv"

	"github.com/ndxdp/ndxdp/bench"
)

// sameWithin is the relative difference up to which two figures count as equal. Runs on a shared machine differ by as much.
const sameWithin = 0.05

// comparison is a measurement in at least two reports.
type comparison struct {
	What    string
	Unit    string
	Values  []string // one for each report; empty if not measured
	Ratio   string   // last value divided by the first
	Verdict string   // better, worse or same
}

// Verdicts of a comparison. Style sheet and texts of the page use these names.
const (
	better = "better"
	worse  = "worse"
	same   = "same"
)

// compare compares the measurements that the reports have in common, including rivals. If the rivals changed, the machine changed.
func compare(sources []Source) []comparison {
	if len(sources) < 2 {
		return nil
	}
	type key struct {
		by        string
		test      bench.Test
		size, mtu int
	}
	values := map[key][]float64{}
	var order []key
	for _, m := range measuredIn(sources) {
		k := key{m.by + m.how, m.test, m.size, m.mtu}
		if values[k] == nil {
			values[k] = make([]float64, len(sources))
			order = append(order, k)
		}
		values[k][m.file] = m.figure()
	}
	var out []comparison
	for _, k := range order {
		if c, ok := compareValues(unit(k.test), k.test.IsLatency(), values[k]); ok {
			c.What = fmt.Sprintf("%s, %s, %s, MTU %d", k.by, k.test, bench.FormatSize(k.size), k.mtu)
			out = append(out, c)
		}
	}
	return append(out, comparePrograms(sources)...)
}

// comparePrograms compares the programs that the reports have in common, by rate.
func comparePrograms(sources []Source) (out []comparison) {
	values := map[string][]float64{}
	var order []string
	add := func(source int, perSecond float64, format string, args ...any) {
		what := fmt.Sprintf(format, args...)
		if values[what] == nil {
			values[what] = make([]float64, len(sources))
			order = append(order, what)
		}
		values[what][source] = perSecond
	}
	for i, s := range sources {
		for _, x := range s.Report.Apps {
			add(i, x.PerSecond, "%s %d over %s, MTU %d", x.Test, x.Connections, x.By(), x.MTU)
		}
		for _, x := range s.Report.Real {
			if x.Idle == 0 {
				add(i, x.ND.PerSecond(), "%s over nd %s, MTU %d", x.Case, x.Datapath, x.MTU)
				add(i, x.TCP.PerSecond(), "%s over tcp, MTU %d", x.Case, x.MTU)
			}
		}
	}
	for _, what := range order {
		if c, ok := compareValues("operations a second", false, values[what]); ok {
			c.What = what
			out = append(out, c)
		}
	}
	return out
}

// compareValues compares the last value with the first. ok is false if there is only one. less means that smaller values are
// better.
func compareValues(unit string, less bool, values []float64) (c comparison, ok bool) {
	first, last, n := 0.0, 0.0, 0
	for _, v := range values {
		text := ""
		if v > 0 {
			if n++; n == 1 {
				first = v
			}
			last, text = v, number(v)
		}
		c.Values = append(c.Values, text)
	}
	if n < 2 {
		return c, false
	}
	ratio := last / first
	c.Ratio, c.Unit, c.Verdict = strconv.FormatFloat(ratio, 'f', 3, 64), unit, same
	gain := ratio
	if less {
		gain = 1 / ratio
	}
	switch {
	case gain > 1+sameWithin:
		c.Verdict = better
	case gain < 1/(1+sameWithin):
		c.Verdict = worse
	}
	return c, true
}

// figure returns the figure by which a measurement is compared.
func (m measured) figure() float64 {
	switch {
	case m.lat != nil:
		return m.lat.P50
	case m.test.IsRate():
		return m.mops
	default:
		return m.gbps
	}
}

func unit(t bench.Test) string {
	switch {
	case t.IsLatency():
		return "µs, median"
	case t.IsRate():
		return "million a second"
	default:
		return "Gb/s"
	}
}

// number formats three significant digits, and all digits before the decimal point.
func number(v float64) string {
	const threeDigits = 1000
	if v < threeDigits {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// letter returns the name of a report in plots and tables.
func letter(i int) string { return string(rune('A' + i)) }

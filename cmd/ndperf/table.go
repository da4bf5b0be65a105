package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/ndxdp/ndxdp/bench"
	"github.com/ndxdp/ndxdp/bench/page"
	"github.com/ndxdp/ndxdp/cmd/internal/cli"
)

// columns is the largest width of the output.
const columns = cli.HelpWidth

// note prints a line beside tables.
func note(w io.Writer, format string, args ...any) {
	fmt.Fprintln(w, cli.Fold(fmt.Sprintf(format, args...), columns, "  "))
}

// renderReport prints a report as tables, summary first.
func renderReport(w io.Writer, r *bench.Report) {
	fmt.Fprintln(w)
	note(w, "ndperf %s · %s · %d cores · kernel %s · %s", r.Host.Commit, r.Host.CPU, r.Host.Cores, r.Host.Kernel, r.Host.Go)
	renderSummary(w, r)
	if len(r.Results)+len(r.Baselines) > 0 {
		rates := func(l *bench.Latency) bool { return l == nil }
		times := func(l *bench.Latency) bool { return l != nil }
		if r.Any(times) {
			renderLatency(w, r)
		}
		if r.Any(rates) {
			renderBandwidth(w, r)
		}
		renderProcessors(w, r)
		renderCauses(w, r)
	}
	if len(r.Connections) > 0 {
		renderConnections(w, r)
	}
	if len(r.Registrations) > 0 {
		renderRegistrations(w, r)
	}
	if len(r.Apps) > 0 {
		renderApps(w, r)
	}
	renderRatios(w, r)
	renderDatapaths(w, r)
	for _, c := range r.Captures {
		note(w, "%s; every packet was copied, which the figures show", c)
	}
	for _, p := range r.Pairs {
		note(w, "veth pair for %s, MTU %d: %s", p.For, p.MTU, pairSettings(p))
	}
}

// renderSummary prints the main figures of a report, with the best TCP of the run beside each, and whether the bytes were verified.
func renderSummary(w io.Writer, r *bench.Report) {
	tiles := page.Tiles(r)
	if len(tiles) == 0 {
		return
	}
	fmt.Fprintln(w, "\nSummary")
	for _, t := range tiles {
		beside := t.Beside
		if beside == "" {
			beside = t.Where
		} else {
			beside += "; " + t.Where
		}
		line := fmt.Sprintf(" %-20s %7s %-9s  %s", t.Name, t.Value, t.Unit, beside)
		fmt.Fprintln(w, cli.Fold(line, columns, strings.Repeat(" ", 41)))
	}
	if len(r.Results) > 0 && !unverified(r) {
		note(w, " every operation verified")
	}
}

// renderDatapaths prints which datapaths were used, and why.
func renderDatapaths(w io.Writer, r *bench.Report) {
	var said []string
	for i := range r.Results {
		x := &r.Results[i]
		if line := fmt.Sprintf("datapath %s: %s", x.Datapath, x.Why); x.Why != "" && !slices.Contains(said, line) {
			said = append(said, line)
			note(w, "%s", line)
		}
	}
}

func pairSettings(p bench.Pair) string {
	s := "kernel offloads off"
	if p.Offloads {
		s = "kernel offloads on (TSO, GSO, GRO, checksums)"
	}
	s += fmt.Sprintf(", %d queue", p.Queues)
	if p.RPSMask != "" {
		s += ", RPS mask " + p.RPSMask
	}
	return s
}

func newTable(w io.Writer, title string, numeric int, header ...any) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	style := table.StyleLight
	style.Options = table.OptionsNoBordersAndSeparators
	style.Format.Header = text.FormatDefault
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	fmt.Fprintf(w, "\n%s\n", title)
	t.AppendHeader(header)
	var columns []table.ColumnConfig
	for i := range header {
		if i >= numeric {
			columns = append(columns, table.ColumnConfig{Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight})
		}
	}
	t.SetColumnConfigs(columns)
	return t
}

// renderLatency prints latencies. Like all tables, it fits into 80 columns.
func renderLatency(w io.Writer, r *bench.Report) {
	t := newTable(w, "Latency in µs", 4, "test", "by", "size", "MTU", "p50", "p99", "p99.9", "max", "CPU")
	whole := map[bench.Test]bool{}
	row := func(test bench.Test, by string, size, link int, l *bench.Latency, cpu float64) {
		t.AppendRow(table.Row{test, by, bench.FormatSize(size), mtu(link), micros(l.P50), number(l.P99), number(l.P999), number(l.Max), known(cpu)})
	}
	for _, x := range r.Results {
		if x.LatUS != nil {
			whole[x.Test] = whole[x.Test] || x.LatIs == bench.WholeOp
			row(x.Test, "nd "+datapath(x), x.Size, x.MTU, x.LatUS, x.CPUUS)
		}
	}
	for _, b := range r.Baselines {
		if b.LatUS != nil {
			row("ping-pong", rival(b), b.Size, b.MTU, b.LatUS, b.CPUUS)
		}
	}
	t.Render()
	note(w, "half a round trip between two applications; CPU: µs of both, for a whole one")
	for _, test := range bench.Tests() {
		if whole[test] {
			note(w, "%s: from post to completion, not halved", test)
		}
	}
}

func renderBandwidth(w io.Writer, r *bench.Report) {
	t := newTable(w, "Bandwidth and rate", 2, "test", "by", "size", "MTU", "Gb/s", "Mop/s", "CPU µs", "resent")
	for _, x := range r.Results {
		if x.LatUS == nil {
			t.AppendRow(table.Row{
				x.Test, "nd " + datapath(x), bench.FormatSize(x.Size), mtu(x.MTU), number(x.Gbps), number(x.Mops), known(x.CPUUS), x.Retransmits,
			})
		}
	}
	for _, b := range r.Baselines {
		if b.LatUS == nil {
			t.AppendRow(table.Row{"stream", rival(b), bench.FormatSize(b.Size), mtu(b.MTU), number(b.Gbps), number(b.Mops), known(b.CPUUS), ""})
		}
	}
	t.Render()
}

// unverified reports whether the operations of a test were not verified.
func unverified(r *bench.Report) bool {
	return slices.ContainsFunc(r.Results, func(x bench.Result) bool { return !x.Verified })
}

const sayUnverified = "unverified: the bytes were not checked"

// renderCauses prints whether bytes were not verified, what limited tests, why packets were retransmitted, and the best variant of
// raw.
func renderCauses(w io.Writer, r *bench.Report) {
	if unverified(r) {
		fmt.Fprintln(w, sayUnverified)
	}
	for _, x := range r.Results {
		for _, line := range []string{limitsLine(x), resentLine(x)} {
			if line != "" {
				note(w, "%s", line)
			}
		}
	}
	for _, x := range r.Results {
		if x.Streams > 0 {
			note(w, "%s %s +%d: beside streams of 1 MiB Writes, %s Gb/s together", x.Test, bench.FormatSize(x.Size), x.Streams, number(x.StreamGbps))
		}
	}
	if slices.ContainsFunc(r.Results, func(x bench.Result) bool { return x.Encrypted }) {
		note(w, "nd and tcp_tls are encrypted, everything else is not")
	}
	if slices.ContainsFunc(r.Results, func(x bench.Result) bool { return x.Unpinned }) {
		note(w, "* both processes may use every core; otherwise nd has one for each")
	}
	for _, b := range r.Baselines {
		if b.LatUS == nil && b.Kind == bench.KindRaw && b.Variant != "" {
			note(w, "raw %s, MTU %d: %s", bench.FormatSize(b.Size), b.MTU, b.Variant)
		}
	}
}

// renderProcessors prints the processor time of each process, if known.
func renderProcessors(w io.Writer, r *bench.Report) {
	none := func(x bench.Result) bool { return x.RequesterCPU+x.ResponderCPU == 0 }
	results := slices.DeleteFunc(slices.Clone(r.Results), none)
	if len(results) == 0 {
		return
	}
	t := newTable(w, "Processor time in percent of one core", 2, "test", "by", "size", "MTU", "requester", "responder")
	for _, x := range results {
		t.AppendRow(table.Row{
			x.Test, "nd " + datapath(x), bench.FormatSize(x.Size), mtu(x.MTU), fmt.Sprintf("%.0f", x.RequesterCPU), fmt.Sprintf("%.0f", x.ResponderCPU),
		})
	}
	t.Render()
}

// known returns an empty string for a figure that was not measured.
func known(v float64) string {
	if v == 0 {
		return ""
	}
	return number(v)
}

// unusualShare is the least share of time for which a limit is printed.
const unusualShare = 0.1

// limitsLine names the limits of a test other than the application and the windows, which always apply.
func limitsLine(x bench.Result) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(x.Limited)) {
		usual := name == "application" || name == "fabric" || name == "endpoint"
		if share := x.Limited[name]; !usual && share >= unusualShare {
			parts = append(parts, fmt.Sprintf("%s %.0f %%", name, 100*share))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("%s %s was limited by %s of the time", x.Test, bench.FormatSize(x.Size), strings.Join(parts, ", "))
}

// resentLine says why packets were retransmitted, if any were.
func resentLine(x bench.Result) string {
	r := x.Resent
	if r.Sum() == 0 {
		return ""
	}
	var causes []string
	for _, c := range []struct {
		n   uint64
		why string
	}{{r.Lost, "lost"}, {r.Probe, "probes"}, {r.Timeout, "time-outs"}, {r.Receive, "for lack of a receive"}} {
		if c.n > 0 {
			causes = append(causes, fmt.Sprintf("%d %s", c.n, c.why))
		}
	}
	mtu := ""
	if x.MTU > 0 { // a client does not know it
		mtu = fmt.Sprintf(", MTU %d", x.MTU)
	}
	return fmt.Sprintf("%s %s%s, resent %d: %s; the peer had %d of them", x.Test, bench.FormatSize(x.Size), mtu, r.Sum(), strings.Join(causes, ", "), r.Needless)
}

func renderRatios(w io.Writer, r *bench.Report) {
	if len(r.Ratios) == 0 {
		return
	}
	t := newTable(w, "Comparison, within this run", 1, "what", "size", "MTU", "value")
	for _, x := range r.Ratios {
		t.AppendRow(table.Row{strings.Replace(x.Name, ", unpinned", "*", 1), ratioSize(x), mtu(x.MTU), strconv.FormatFloat(x.Value, 'f', 3, 64)})
	}
	t.Render()
	fmt.Fprintln(w)
}

// renderBounds prints the ratios that have a bound in this project.
func renderBounds(w io.Writer, r *bench.Report) {
	t := newTable(w, "Bounds of this project", 1, "what", "size", "MTU", "value", "bound", "")
	for _, x := range r.Ratios {
		if x.Bound == nil {
			continue
		}
		bound, verdict := x.Want+" "+strconv.FormatFloat(*x.Bound, 'g', 4, 64), "ok"
		if !x.OK {
			verdict = "MISSED"
		}
		t.AppendRow(table.Row{strings.Replace(x.Name, ", unpinned", "*", 1), ratioSize(x), mtu(x.MTU), strconv.FormatFloat(x.Value, 'f', 3, 64), bound, verdict})
	}
	t.Render()
	fmt.Fprintln(w)
}

// ratioSize returns the size of a ratio, or an empty string if it has none.
func ratioSize(x bench.Ratio) string {
	if x.Size == 0 {
		return ""
	}
	return bench.FormatSize(x.Size)
}

func datapath(x bench.Result) string {
	s := x.Datapath
	if x.Mode == bench.ModeEvent {
		s += ", event"
	}
	if x.Bulk {
		s += ", lane"
	}
	if x.Connections > 1 {
		s += fmt.Sprintf(" x%d", x.Connections)
	}
	if x.Streams > 0 {
		s += fmt.Sprintf(" +%d", x.Streams)
	}
	if x.Direction != "" {
		s += " " + x.Direction
	}
	if x.Unpinned {
		s += "*"
	}
	return s
}

// rival returns the name of a baseline with its best variant. Variants of raw streams are on a separate line.
func rival(b bench.Baseline) string {
	if b.Variant == "" || b.Kind == bench.KindRaw && b.LatUS == nil {
		return b.Kind
	}
	return b.Kind + " " + b.Variant
}

func latencyOf(is string) string {
	return strings.ReplaceAll(strings.ReplaceAll(is, bench.HalfRoundTrip, "½ round trip"), bench.WholeOp, "operation")
}

func mtu(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func micros(v float64) string {
	if v >= 1000 {
		return number(v) // from a busy machine
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// number formats three significant digits without an exponent.
func number(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case v >= 1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	default:
		return strconv.FormatFloat(v, 'f', 4, 64)
	}
}

// resultLine returns the plain form of a finished test, for logs.
func resultLine(x bench.Result) string {
	return figures("nd", bench.Spec{Test: x.Test, Size: x.Size, MTU: x.MTU}, x.LatUS, x.LatIs, x.Gbps, x.Mops)
}

func baselineLine(b bench.Baseline) string {
	return figures(rival(b), bench.Spec{Test: b.Test, Size: b.Size, MTU: b.MTU}, b.LatUS, b.LatIs, b.Gbps, b.Mops)
}

func figures(by string, s bench.Spec, lat *bench.Latency, is string, gbps, mops float64) string {
	if lat != nil {
		return fmt.Sprintf("%s %s: p50 %s µs, p99 %s µs (%s)", by, s, micros(lat.P50), micros(lat.P99), latencyOf(is))
	}
	return fmt.Sprintf("%s %s: %s Gb/s, %s Mop/s", by, s, number(gbps), number(mops))
}

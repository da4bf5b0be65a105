package page

import (
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"io"
	"strconv"

	"github.com/ndxdp/ndxdp/bench"
)

// MaxSources bounds the reports of one page, because lines of more could not be distinguished.
const MaxSources = 4

// Source is one report and its origin.
type Source struct {
	Name   string
	Report *bench.Report
}

//go:embed page.html
var pageHTML string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"letter":    letter,
	"themes":    func() template.CSS { return template.CSS(themesCSS()) },
	"size":      bench.FormatSize,
	"num":       number,
	"bound":     func(v *float64) string { return number(*v) },
	"us":        func(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) },
	"ratio":     func(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) },
	"percent":   func(v float64) string { return strconv.FormatFloat(100*v, 'f', 1, 64) + "\u00a0%" },
	"bar":       barOf,
	"ratioBar":  ratioBar,
	"partNames": bench.PartNames,
	"byOf":      byOf,
	"image": func(svg []byte) template.URL {
		// The plots are generated here, and an image runs no scripts, whatever its text.
		return template.URL("data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString(svg))
	},
	"latIs": func(is string) string {
		if is == bench.HalfRoundTrip {
			return "½ round trip"
		}
		return is
	},
}).Parse(pageHTML))

// view is the input of the template.
type view struct {
	Sources     []Source
	Figures     []Figure
	Headlines   []headline
	Comparisons []comparison
	Verdicts    map[string]int // of the comparisons
	Met, Missed int

	Tests, Programs, Real, Connections, Registrations bool // a report contains some
}

// headline holds the tiles of one report, and the bounds of its ratios.
type headline struct {
	Source
	Tiles       []Tile
	Met, Missed int
}

// Render writes the page about one report, or about several side by side. The reports must be valid.
func Render(w io.Writer, sources []Source) error {
	if len(sources) == 0 || len(sources) > MaxSources {
		return fmt.Errorf("a page takes 1 to %d reports, not %d", MaxSources, len(sources))
	}
	v := view{Sources: sources, Comparisons: compare(sources), Verdicts: map[string]int{better: 0, worse: 0, same: 0}}
	if len(sources) > 1 && len(v.Comparisons) == 0 {
		return errors.New("the reports have no measurement in common (test, size, MTU and datapath): " +
			"measure with the same flags, or make a page of each")
	}
	for _, s := range sources {
		v.Tests = v.Tests || len(s.Report.Results)+len(s.Report.Baselines) > 0
		v.Programs = v.Programs || len(s.Report.Apps) > 0
		v.Real = v.Real || len(s.Report.Real) > 0
		v.Connections = v.Connections || len(s.Report.Connections) > 0
		v.Registrations = v.Registrations || len(s.Report.Registrations) > 0
		h := headline{Source: s, Tiles: Tiles(s.Report)}
		for _, x := range s.Report.Ratios {
			switch {
			case x.Bound == nil:
			case x.OK:
				h.Met++
			default:
				h.Missed++
			}
		}
		v.Headlines = append(v.Headlines, h)
		v.Met, v.Missed = v.Met+h.Met, v.Missed+h.Missed
	}
	for _, c := range v.Comparisons {
		v.Verdicts[c.Verdict]++
	}
	var err error
	if v.Figures, err = Figures(sources); err != nil {
		return err
	}
	return pageTemplate.Execute(w, v)
}

package page

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gonum.org/v1/plot/plotter"

	"github.com/ndxdp/ndxdp/bench"
)

// maxFigures bounds the plots of a page: more than a sweep over eight MTUs and three datapaths has.
const maxFigures = 64

// Figure is one plot.
type Figure struct {
	Name  string // of a file, without its suffix: letters, digits, dashes and underscores
	Title string
	Alt   string // what it shows, for those who cannot see it
	SVG   []byte
}

// measured is a result or a baseline, as far as plots and comparisons are concerned.
type measured struct {
	file       int
	by         string // nd generic, raw, tcp, …
	test       bench.Test
	size, mtu  int
	datapath   string
	latIs      string
	lat        *bench.Latency
	gbps, mops float64
	rival      bool
}

// measuredIn lists everything in the order of the reports.
func measuredIn(sources []Source) []measured {
	var all []measured
	for i, s := range sources {
		for _, x := range s.Report.Results {
			by := "nd " + x.Datapath
			if x.Mode == bench.ModeEvent {
				by += " event"
			}
			if x.Unpinned {
				by += " unpinned"
			}
			all = append(all, measured{i, by, x.Test, x.Size, x.MTU, x.Datapath, x.LatIs, x.LatUS, x.Gbps, x.Mops, false})
		}
		for _, b := range s.Report.Baselines {
			by, datapath := b.Kind, ""
			switch {
			case b.Variant == "": // of an older report, which has raw on each datapath
				by, datapath = strings.TrimSpace(b.Kind+" "+b.Datapath), b.Datapath
			case b.LatUS == nil && b.Kind == bench.KindTCPSpin:
				by = bench.KindTCP // the better one at this size
			}
			all = append(all, measured{i, by, b.Test, b.Size, b.MTU, datapath, b.LatIs, b.LatUS, b.Gbps, b.Mops, true})
		}
	}
	return all
}

// Figures draws latency distributions, latency against size, and bandwidth against size for every MTU and datapath.
func Figures(sources []Source) ([]Figure, error) {
	all := measuredIn(sources)
	d := drawing{many: len(sources) > 1}
	for _, t := range bench.Tests() {
		if t.IsLatency() {
			d.latency(all, t)
		}
	}
	streams := map[[2]string]bool{}
	for _, m := range all {
		if m.lat == nil && !m.test.IsRate() && !m.rival {
			streams[[2]string{fmt.Sprintf("%05d", m.mtu), m.datapath}] = true
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(streams), func(a, b [2]string) int {
		return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
	}) {
		d.bandwidth(all, k[0], k[1])
	}
	if len(d.figures) > maxFigures {
		return nil, fmt.Errorf("%d plots are more than a page takes (%d): measure fewer MTUs or datapaths", len(d.figures), maxFigures)
	}
	return d.figures, d.err
}

// drawing collects figures until the first failure.
type drawing struct {
	many    bool // several reports: lines say which one
	figures []Figure
	err     error
}

// label names the line of m.
func (d *drawing) label(m measured, what string) string {
	if d.many {
		return letter(m.file) + " " + what
	}
	return what
}

func (d *drawing) latency(all []measured, t bench.Test) {
	of := ""
	sizes := map[int]bool{}
	for _, m := range all {
		if m.test == t && !m.rival && m.lat != nil {
			of = m.latIs
			sizes[m.size] = true
		}
	}
	if len(sizes) == 0 {
		return
	}
	size := slices.Min(slices.Collect(maps.Keys(sizes)))
	if sizes[bench.DefaultLatSize] {
		size = bench.DefaultLatSize
	}
	var tails, medians lines
	for _, m := range all {
		// Rivals ping-pong: they stand beside whatever is half a round trip.
		if m.lat == nil || m.latIs != of || m.test != t && !m.rival {
			continue
		}
		label := d.label(m, m.by)
		medians.add(label, m.file, plotter.XY{X: float64(m.size), Y: m.lat.P50})
		if m.size != size {
			continue
		}
		for _, q := range m.lat.Dist {
			if q.Percent < 100 {
				tails.add(label, m.file, plotter.XY{X: 100 / (100 - q.Percent), Y: q.US})
			}
		}
	}
	what := map[string]string{bench.HalfRoundTrip: "half a round trip", bench.WholeOp: "whole operation"}[of]
	if len(tails) > 0 {
		title := fmt.Sprintf("%s, %s: distribution of latency, %s", t, bench.FormatSize(size), what)
		d.draw(fmt.Sprintf("%s-distribution", t), title, tailAxis(), latencyAxis(), tails)
	}
	if len(sizes) > 1 {
		d.draw(fmt.Sprintf("%s-size", t), fmt.Sprintf("%s: median latency against size, %s", t, what), sizeAxis(), latencyAxis(), medians)
	}
}

func (d *drawing) bandwidth(all []measured, mtu, datapath string) {
	var rates lines
	for _, m := range all {
		if m.lat != nil || m.test.IsRate() || fmt.Sprintf("%05d", m.mtu) != mtu {
			continue
		}
		own := !m.rival && m.datapath == datapath
		rival := m.rival && (m.datapath == "" || m.datapath == datapath)
		if !own && !rival {
			continue
		}
		what := string(m.test)
		if m.rival {
			what = m.by
		}
		rates.add(d.label(m, what), m.file, plotter.XY{X: float64(m.size), Y: m.gbps})
	}
	number := cmp.Or(strings.TrimLeft(mtu, "0"), "unknown")
	d.draw(fmt.Sprintf("bandwidth-%s-%s", fileSafe(datapath), number),
		fmt.Sprintf("Bandwidth against size, %s, MTU %s", datapath, number), sizeAxis(), rateAxis(), rates)
}

func (d *drawing) draw(name, title string, x, y axis, all lines) {
	if d.err != nil || len(d.figures) > maxFigures {
		return
	}
	var alt strings.Builder
	fmt.Fprintf(&alt, "%s. %s over %s, one line each:", title, y.label, x.label)
	for _, s := range all {
		slices.SortFunc(s.points, func(a, b plotter.XY) int { return cmp.Compare(a.X, b.X) })
		first, last := s.points[0], s.points[len(s.points)-1]
		fmt.Fprintf(&alt, " %s from %.3g to %.3g;", s.label, first.Y, last.Y)
	}
	alt.WriteString(" the tables have the numbers.")
	svg, err := drawSVG(title, x, y, all)
	if err != nil {
		d.err = err
		return
	}
	d.figures = append(d.figures, Figure{Name: name, Title: title, Alt: alt.String(), SVG: svg})
}

// lines are the series of a plot, in the order in which they were first met.
type lines []series

func (l *lines) add(label string, file int, at plotter.XY) {
	i := slices.IndexFunc(*l, func(s series) bool { return s.label == label })
	if i < 0 {
		*l = append(*l, series{label: label, file: file})
		i = len(*l) - 1
	}
	(*l)[i].points = append((*l)[i].points, at)
}

// fileSafe keeps what cannot lead out of a directory.
func fileSafe(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return -1
	}, s)
}

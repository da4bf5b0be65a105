package page

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ndxdp/ndxdp/bench"
)

// maxFigures bounds the plots of a page. A sweep over eight MTUs and three datapaths has fewer.
const maxFigures = 64

// Figure is one plot.
type Figure struct {
	Name  string // file name without suffix: letters, digits, dashes and underscores
	Title string
	Alt   string // description for readers who cannot see it
	SVG   []byte

	Height int // in points; all are 460 wide
}

// measured is a result or a baseline, as used by plots and comparisons.
type measured struct {
	file       int
	by         string // nd generic, raw, tcp, …
	how        string // unusual conditions, such as " event"
	test       bench.Test
	size, mtu  int
	datapath   string
	latIs      string
	lat        *bench.Latency
	gbps, mops float64
	rival      bool
}

// howOf returns the conditions that distinguish a result from others of the same test. Results under different conditions are
// neither connected by a line nor compared. The bulk path is not a condition, because auto uses it for the large sizes of a line.
func howOf(x *bench.Result) string {
	how := ""
	if x.Mode == bench.ModeEvent {
		how += " event"
	}
	if x.Unpinned {
		how += " unpinned"
	}
	if x.Connections > 1 {
		how += fmt.Sprintf(" %d connections", x.Connections)
	}
	if x.Streams > 0 {
		how += fmt.Sprintf(" beside %d streams", x.Streams)
	}
	if x.Direction != "" {
		how += " both ways, " + x.Direction
	}
	return how
}

// byOf returns the name in a table of what a result was measured with. No two rows of a test have the same name.
func byOf(x bench.Result) string {
	bulk := ""
	if x.Bulk {
		bulk = " bulk lane"
	}
	return fmt.Sprintf("nd %s, %s%s%s", x.Datapath, x.Mode, bulk, strings.TrimPrefix(howOf(&x), " event"))
}

// measuredIn lists all results and baselines in the order of the reports.
func measuredIn(sources []Source) []measured {
	var all []measured
	for i, s := range sources {
		for j := range s.Report.Results {
			x := &s.Report.Results[j]
			all = append(all, measured{i, "nd " + x.Datapath, howOf(x), x.Test, x.Size, x.MTU, x.Datapath, x.LatIs, x.LatUS, x.Gbps, x.Mops, false})
		}
		for _, b := range s.Report.Baselines {
			by, datapath := b.Kind, ""
			switch {
			case b.Variant == "": // of an older report, which has raw on each datapath
				by, datapath = strings.TrimSpace(b.Kind+" "+b.Datapath), b.Datapath
			case b.LatUS == nil && b.Kind == bench.KindTCPSpin:
				by = bench.KindTCP // the better variant at this size
			}
			all = append(all, measured{i, by, "", b.Test, b.Size, b.MTU, datapath, b.LatIs, b.LatUS, b.Gbps, b.Mops, true})
		}
	}
	return all
}

// Figures draws latency distributions and latency against size for each MTU, and bandwidth against size for each MTU and datapath.
// A single size is not plotted, because tiles and tables show it.
func Figures(sources []Source) ([]Figure, error) {
	all := measuredIn(sources)
	g := gallery{many: len(sources) > 1}
	mtus := map[int]bool{}
	for _, m := range all {
		mtus[m.mtu] = true
	}
	for _, t := range bench.Tests() {
		if !t.IsLatency() {
			continue
		}
		for _, mtu := range slices.Sorted(maps.Keys(mtus)) {
			g.latency(all, t, mtu)
		}
	}
	streams := map[stream]bool{}
	for _, m := range all {
		if m.lat == nil && !m.test.IsRate() && !m.rival {
			streams[stream{m.mtu, m.datapath}] = true
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(streams), func(a, b stream) int {
		return cmp.Or(cmp.Compare(a.mtu, b.mtu), cmp.Compare(a.datapath, b.datapath))
	}) {
		g.bandwidth(all, k)
	}
	if len(g.figures) > maxFigures {
		return nil, fmt.Errorf("%d plots are more than a page takes (%d): measure fewer MTUs or datapaths", len(g.figures), maxFigures)
	}
	return g.figures, nil
}

// stream is the subject of a plot of bandwidth.
type stream struct {
	mtu      int
	datapath string
}

// gallery collects figures.
type gallery struct {
	many    bool // there are several reports, so lines are labelled with their report
	figures []Figure
}

func (g *gallery) latency(all []measured, t bench.Test, mtu int) {
	of := ""
	sizes := map[int]bool{}
	for _, m := range all {
		if m.test == t && m.mtu == mtu && !m.rival && m.lat != nil {
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
		// Rivals run ping-pongs, so they are plotted beside figures of half a round trip.
		if m.lat == nil || m.mtu != mtu || m.latIs != of || m.test != t && !m.rival {
			continue
		}
		line := g.line(m, m.by+m.how)
		medians.add(line, point{float64(m.size), m.lat.P50})
		if m.size != size {
			continue
		}
		for _, q := range m.lat.Dist {
			if q.Percent < 100 {
				tails.add(line, point{100 / (100 - q.Percent), q.US})
			}
		}
	}
	what := map[string]string{bench.HalfRoundTrip: "half a round trip", bench.WholeOp: "whole operation"}[of]
	if len(tails) > 0 {
		title := fmt.Sprintf("%s, %s: distribution, %s, MTU %s", t, bench.FormatSize(size), what, mtuText(mtu))
		g.draw(fmt.Sprintf("%s-distribution-%s", t, mtuText(mtu)), title, tailAxis(), latencyAxis(), tails)
	}
	if len(sizes) > 1 {
		g.draw(fmt.Sprintf("%s-size-%s", t, mtuText(mtu)), fmt.Sprintf("%s: median against size, %s, MTU %s", t, what, mtuText(mtu)), sizeAxis(), latencyAxis(), medians)
	}
}

func (g *gallery) bandwidth(all []measured, k stream) {
	var rates lines
	sizes := map[int]bool{}
	for _, m := range all {
		if m.lat != nil || m.test.IsRate() || m.mtu != k.mtu {
			continue
		}
		own := !m.rival && m.datapath == k.datapath
		rival := m.rival && (m.datapath == "" || m.datapath == k.datapath)
		if !own && !rival {
			continue
		}
		what := string(m.test) + m.how
		if m.rival {
			what = m.by
		} else {
			sizes[m.size] = true
		}
		rates.add(g.line(m, what), point{float64(m.size), m.gbps})
	}
	if len(sizes) < 2 {
		return
	}
	mtu := mtuText(k.mtu)
	g.draw(fmt.Sprintf("bandwidth-%s-%s", fileSafe(k.datapath), mtu),
		fmt.Sprintf("Bandwidth against size, %s, MTU %s", k.datapath, mtu), sizeAxis(), rateAxis(), rates)
}

// mtuText returns the name of an MTU. Reports of two hosts do not know their MTU.
func mtuText(mtu int) string {
	if mtu == 0 {
		return "unknown"
	}
	return strconv.Itoa(mtu)
}

// line returns the series of m, without points.
func (g *gallery) line(m measured, what string) series {
	label := what
	if g.many {
		label = letter(m.file) + " " + what
	}
	return series{label: label, what: what, file: m.file, rival: m.rival}
}

func (g *gallery) draw(name, title string, x, y axis, all lines) {
	if len(g.figures) > maxFigures {
		return
	}
	var alt strings.Builder
	fmt.Fprintf(&alt, "%s. %s over %s, one line each:", title, y.label, x.label)
	for _, s := range all {
		slices.SortFunc(s.points, func(a, b point) int { return cmp.Compare(a.x, b.x) })
		first, last := s.points[0], s.points[len(s.points)-1]
		fmt.Fprintf(&alt, " %s from %.3g to %.3g;", s.label, first.y, last.y)
	}
	alt.WriteString(" the tables have the numbers.")
	svg, height := drawSVG(title, alt.String(), x, y, all)
	g.figures = append(g.figures, Figure{Name: name, Title: title, Alt: alt.String(), SVG: svg, Height: height})
}

// lines are the series of a plot, in the order of their first points.
type lines []series

func (l *lines) add(to series, at point) {
	i := slices.IndexFunc(*l, func(s series) bool { return s.label == to.label })
	if i < 0 {
		*l = append(*l, to)
		i = len(*l) - 1
	}
	(*l)[i].points = append((*l)[i].points, at)
}

// fileSafe removes characters that could lead out of a directory.
func fileSafe(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return -1
	}, s)
}

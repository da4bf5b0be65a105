package page

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ndxdp/ndxdp/bench"
)

// Tile is a main figure of a report.
type Tile struct {
	Name        string
	Value, Unit string
	Beside      string // kernel TCP's figure, as text
	Verdict     string // better, worse or same; empty without a rival
	Where       string // test and conditions
}

// Tiles returns the main figures of a report: latency, bandwidth and rate, each of the best datapath, and the programs. Each has
// the better kernel TCP of the same size and MTU beside it.
func Tiles(r *bench.Report) []Tile {
	all := slices.DeleteFunc(measuredIn([]Source{{Report: r}}), func(m measured) bool { return m.how != "" })
	var tiles []Tile
	for _, of := range []func([]measured) (Tile, bool){latencyTile, bandwidthTile, rateTile} {
		if t, ok := of(all); ok {
			tiles = append(tiles, t)
		}
	}
	return slices.Concat(tiles, programTiles(r), realTiles(r), connectionTiles(r), registrationTiles(r))
}

// realTiles returns a tile for each MTU of real programs: the geometric mean of all cases' rates, relative to kernel TCP.
func realTiles(r *bench.Report) (tiles []Tile) {
	for _, s := range r.RealSummaries() {
		if s.Cases == 0 {
			continue
		}
		c, _ := compareValues("", more, []float64{1, s.Rate})
		tiles = append(tiles, Tile{
			Name: "Real programs", Value: number(s.Rate), Unit: "× TCP's rate", Verdict: c.Verdict,
			Beside: fmt.Sprintf("%s × TCP's processor time; worst: %s, %s × TCP's rate", number(s.CPU), s.Worst, number(s.WorstRate)),
			Where:  fmt.Sprintf("geometric mean of %d cases over nd %s, MTU %d", s.Cases, s.Datapath, s.MTU),
		})
	}
	return tiles
}

// connectionTiles returns the figures of the requester, which waits for the connections.
func connectionTiles(r *bench.Report) (tiles []Tile) {
	for _, x := range r.Connections {
		if x.Role == bench.Requester {
			where := fmt.Sprintf("%d connections over nd %s", x.Connections, x.Datapath)
			tiles = append(tiles,
				Tile{Name: "Connections", Value: number(x.PerSecond), Unit: "a second", Where: where},
				Tile{Name: "Idle connection", Value: number(x.OtherBytes), Unit: "bytes", Where: where + ", beside its queue pair"})
		}
	}
	return tiles
}

// registrationTiles returns the figure of the largest memory that the program itself had.
func registrationTiles(r *bench.Report) []Tile {
	var most *bench.Registration
	for i := range r.Registrations {
		if x := &r.Registrations[i]; x.What == bench.RegisterMemory && (most == nil || x.Size > most.Size) {
			most = x
		}
	}
	if most == nil {
		return nil
	}
	return []Tile{{Name: "Registration, median", Value: number(most.RegisterUS.P50), Unit: "µs", Where: bench.FormatSize(most.Size) + " over nd " + most.Datapath}}
}

func latencyTile(all []measured) (Tile, bool) {
	for _, t := range []bench.Test{bench.WriteLat, bench.SendLat, bench.ReadLat} {
		best := pick(all, bench.DefaultLatSize, less, func(m measured) bool { return m.test == t && m.lat != nil })
		if best == nil {
			continue
		}
		what := map[string]string{bench.HalfRoundTrip: "half a round trip", bench.WholeOp: "whole operation"}[best.latIs]
		out := Tile{Name: "Latency, median", Value: number(best.lat.P50), Unit: "µs", Where: best.where() + ", " + what + fmt.Sprintf("; p99 %s µs", number(best.lat.P99))}
		out.beside(best, rivalOf(all, best, less, func(m measured) bool { return m.lat != nil && m.latIs == best.latIs }), less)
		return out, true
	}
	return Tile{}, false
}

func bandwidthTile(all []measured) (Tile, bool) {
	streams := func(m measured) bool { return m.lat == nil && !m.test.IsRate() }
	best := pick(all, bench.DefaultBWSize, more, streams)
	if best == nil {
		return Tile{}, false
	}
	out := Tile{Name: "Bandwidth", Value: number(best.gbps), Unit: "Gb/s", Where: best.where()}
	out.beside(best, rivalOf(all, best, more, streams), more)
	return out, true
}

// rateTile compares lists of small Writes with a TCP stream of the same message size.
func rateTile(all []measured) (Tile, bool) {
	best := pick(all, bench.DefaultRateSize, more, func(m measured) bool { return m.test.IsRate() })
	if best == nil {
		return Tile{}, false
	}
	out := Tile{Name: "Rate", Value: number(best.mops), Unit: "million/s", Where: best.where()}
	rival := rivalOf(all, best, more, func(m measured) bool { return m.lat == nil })
	if rival != nil { // compared by messages
		rival.test = best.test
	}
	out.beside(best, rival, more)
	return out, true
}

// programTiles returns a tile for each program: its run with the most connections.
func programTiles(r *bench.Report) (tiles []Tile) {
	for _, t := range bench.AppTests() {
		var own, rival *bench.AppResult
		for i := range r.Apps {
			x := &r.Apps[i]
			if x.Test != t || x.PerSecond <= 0 {
				continue
			}
			best := &own
			switch x.Over {
			case bench.OverTCP:
				best = &rival
			case bench.OverNDTLS:
				continue
			}
			if *best == nil || x.Connections > (*best).Connections || x.Connections == (*best).Connections && x.PerSecond > (*best).PerSecond {
				*best = x
			}
		}
		if own == nil {
			continue
		}
		out := Tile{Name: "Program " + string(t), Value: number(own.PerSecond), Unit: "op/s", Where: fmt.Sprintf("%d connections over %s, MTU %d", own.Connections, own.By(), own.MTU)}
		if rival != nil && rival.Connections == own.Connections && rival.MTU == own.MTU {
			out.judge(own.PerSecond, rival.PerSecond, more)
		}
		tiles = append(tiles, out)
	}
	return tiles
}

// Ways to compare two figures.
const (
	less = true
	more = false
)

// pick returns nd's best figure at the usual size, or else at the largest measured size.
func pick(all []measured, usual int, order bool, such func(measured) bool) *measured {
	size := 0
	for _, m := range all {
		if !m.rival && such(m) && size != usual && (m.size == usual || m.size > size) {
			size = m.size
		}
	}
	return bestOf(all, order, func(m measured) bool { return !m.rival && m.size == size && such(m) })
}

// rivalOf returns the best kernel TCP to compare with m, or nil.
func rivalOf(all []measured, m *measured, order bool, such func(measured) bool) *measured {
	return bestOf(all, order, func(x measured) bool {
		return x.rival && strings.HasPrefix(x.by, bench.KindTCP) && x.size == m.size && x.mtu == m.mtu && such(x)
	})
}

func bestOf(all []measured, order bool, such func(measured) bool) *measured {
	var best *measured
	for _, m := range all {
		if such(m) && (best == nil || (m.figure() < best.figure()) == order) {
			best = &m
		}
	}
	return best
}

// where returns the test and conditions of a figure.
func (m *measured) where() string {
	return fmt.Sprintf("%s, %s of %s, MTU %d", m.by, m.test, bench.FormatSize(m.size), m.mtu)
}

func (t *Tile) beside(own, rival *measured, order bool) {
	if rival == nil {
		t.Beside = "TCP was not measured beside it"
		return
	}
	t.judge(own.figure(), rival.figure(), order)
}

// judge compares a figure with TCP's. less means that smaller values are better.
func (t *Tile) judge(own, rival float64, less bool) {
	c, _ := compareValues(t.Unit, less, []float64{rival, own})
	t.Verdict = c.Verdict
	if less {
		t.Beside = fmt.Sprintf("%s × as fast as TCP, which takes %s %s", number(rival/own), number(rival), t.Unit)
		return
	}
	t.Beside = fmt.Sprintf("%s × as much as TCP, which has %s %s", number(own/rival), number(rival), t.Unit)
}

package page

import (
	"strings"
	"testing"

	"github.com/ndxdp/ndxdp/bench"
)

// TestTiles: the tiles show the best of ND beside the best TCP of the same size and MTU, and nothing else.
func TestTiles(t *testing.T) {
	lat := func(p50 float64) *bench.Latency { return &bench.Latency{P50: p50, P99: 2 * p50} }
	r := &bench.Report{
		Results: []bench.Result{
			{Test: bench.WriteLat, Size: 64, MTU: 1500, Datapath: "generic", LatIs: bench.HalfRoundTrip, LatUS: lat(4)},
			{Test: bench.WriteLat, Size: 64, MTU: 1500, Datapath: "native", LatIs: bench.HalfRoundTrip, LatUS: lat(2)},
			{Test: bench.WriteLat, Size: 64, MTU: 1500, Datapath: "native", LatIs: bench.HalfRoundTrip, LatUS: lat(1), Mode: bench.ModeEvent},
			{Test: bench.WriteLat, Size: 8, MTU: 1500, Datapath: "native", LatIs: bench.HalfRoundTrip, LatUS: lat(1)},
			{Test: bench.WriteBW, Size: 1 << 20, MTU: 9000, Datapath: "generic", Gbps: 10},
			{Test: bench.ReadBW, Size: 1 << 20, MTU: 1500, Datapath: "generic", Gbps: 9},
			{Test: bench.WriteBW, Size: 4 << 20, MTU: 9000, Datapath: "generic", Gbps: 30},
			{Test: bench.WriteRate, Size: 64, MTU: 1500, Datapath: "generic", Mops: 3},
		},
		Baselines: []bench.Baseline{
			{Kind: bench.KindTCP, Variant: "x", Test: bench.WriteLat, Size: 64, MTU: 1500, LatIs: bench.HalfRoundTrip, LatUS: lat(8)},
			{Kind: bench.KindTCPSpin, Variant: "x", Test: bench.WriteLat, Size: 64, MTU: 1500, LatIs: bench.HalfRoundTrip, LatUS: lat(6)},
			{Kind: bench.KindRaw, Variant: "x", Test: bench.WriteLat, Size: 64, MTU: 1500, LatIs: bench.HalfRoundTrip, LatUS: lat(1)},
			{Kind: bench.KindTCP, Variant: "x", Test: bench.WriteBW, Size: 1 << 20, MTU: 9000, Gbps: 20},
			{Kind: bench.KindTCP, Variant: "x", Test: bench.WriteBW, Size: 1 << 20, MTU: 1500, Gbps: 40},
		},
		Apps: []bench.AppResult{app("nd", 16, 3000), app("nd", 1, 9000), app("tcp", 16, 2000), app("tcp", 1, 1)},
	}
	want := []Tile{
		{"Latency, median", "2", "µs", "3 × as fast as TCP, which takes 6 µs", "better", "nd native, write_lat of 64 B, MTU 1500, half a round trip; p99 4 µs"},
		{"Bandwidth", "10", "Gb/s", "0.5 × as much as TCP, which has 20 Gb/s", "worse", "nd generic, write_bw of 1 MiB, MTU 9000"},
		{"Rate", "3", "million/s", "TCP was not measured beside it", "", "nd generic, write_rate of 64 B, MTU 1500"},
		{"Program echo", "3000", "op/s", "1.5 × as much as TCP, which has 2000 op/s", "better", "16 connections over nd, MTU 1500"},
	}
	got := Tiles(r)
	if len(got) != len(want) {
		t.Fatalf("%d tiles: %+v", len(got), got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("tile %d is %+v, want %+v", i, got[i], want[i])
		}
	}
}

func app(over string, connections int, perSecond float64) bench.AppResult {
	return bench.AppResult{Test: bench.AppEcho, Connections: connections, MTU: 1500, Over: over, AppRound: bench.AppRound{PerSecond: perSecond}}
}

// TestOrderOfSections: the main results come first, and reference sections are folded.
func TestOrderOfSections(t *testing.T) {
	html := render(t, Source{"a.json", sweep(t)}, Source{"b.json", sweep(t)})
	at := 0
	for _, id := range []string{"headline", "plots", "comparison", "programs", "bounds", "limits", "parts", "figures", "environment"} {
		i := strings.Index(html, `<section id="`+id+`">`)
		if i < at {
			t.Errorf("section %s is at %d, the one before it at %d", id, i, at)
		}
		at = i
		section, _, _ := strings.Cut(html[max(i, 0):], "</section>")
		folded := map[string]bool{"comparison": true, "bounds": true, "limits": true, "parts": true, "figures": true}[id]
		details := strings.Index(section, "<details><summary>")
		if table := strings.Index(section, "<table"); folded && (details < 0 || table < details || strings.LastIndex(section, "</table>") > strings.Index(section, "</details>")) {
			t.Errorf("section %s shows its tables: they are not folded", id)
		}
	}
}

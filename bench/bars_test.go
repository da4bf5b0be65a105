package bench

import (
	"fmt"
	"strings"
	"testing"
)

// TestBarsJudgeEachKindOfRun: allocations of one kind of run are not hidden by the median over other kinds, where the worst result could
// be of another test each time.
func TestBarsJudgeEachKindOfRun(t *testing.T) {
	kinds := [][]Result{
		{{Test: WriteLat, Datapath: "generic", MTU: 1500, Size: 64}, {Test: WriteBW, Datapath: "generic", MTU: 9000, Size: 1 << 20}},
		{{Test: WriteBW, Datapath: "generic", Bulk: true, MTU: 1500, Size: 1 << 20}},
		{{Test: WriteBW, Datapath: "udp", MTU: 1500, Size: 1 << 20}},
		{{Test: WriteLat, Datapath: "generic", Bulk: true, MTU: 1500, Size: 64}, {Test: WriteLat, Datapath: "generic", Bulk: true, MTU: 1500, Size: 64, Streams: 1, AllocsPerOp: 1}},
	}
	for bad := range kinds {
		var runs []*Report
		for round := range 3 {
			for kind, results := range kinds {
				r := NewReport()
				r.Results = append([]Result{}, results...)
				for i := range r.Results {
					r.Results[i].Ops = 1e6
				}
				r.Results[round%len(results)].AllocsPerOp += 0.0005 // each time, another result is the worst
				if kind == bad {
					r.Results[0].AllocsPerOp = 0.01
				}
				r.SetRatios()
				runs = append(runs, r)
			}
		}
		judged, missed := 0, []string{}
		for _, b := range Bars(runs) {
			if !strings.HasPrefix(b.Name, MostAllocations) {
				continue
			}
			if judged++; len(b.Values) != 3 {
				t.Errorf("%s has %d values of 3 runs", &b, len(b.Values))
			}
			if !b.Met() {
				missed = append(missed, b.String())
			}
		}
		want := MostAllocations + []string{" over generic", ", lane over generic", " over udp", ", with streams, lane over generic"}[bad]
		if judged != len(kinds) || fmt.Sprint(missed) != fmt.Sprint([]string{want}) {
			t.Errorf("%d judged, missed %q, want %q", judged, missed, want)
		}
	}
}

// An encrypted stream may allocate the ciphers of its key updates, and no more.
func TestKeyUpdatesMayAllocate(t *testing.T) {
	stream := Result{Test: WriteBW, MTU: 1500, Size: 1 << 20, Ops: 1e6, AllocsPerOp: 0.0025}
	if plain := stream.ofAllowed(); plain <= 1 {
		t.Errorf("a plain stream may allocate: %g", plain)
	}
	stream.Encrypted = true
	if sealed := stream.ofAllowed(); sealed > 1 {
		t.Errorf("an encrypted stream may not change its keys: %g", sealed)
	}
	if stream.AllocsPerOp *= 2; stream.ofAllowed() <= 1 {
		t.Error("an encrypted stream may allocate twice that")
	}
}

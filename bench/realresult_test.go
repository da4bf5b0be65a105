package bench

import (
	"bytes"
	"math"
	"testing"
	"time"
)

// realRound is a round in which nd has the given multiples of TCP's rate and processor time.
func realRound(rate, cpu float64) RealRound {
	side := func(rate, cpu float64) RealSide {
		ops := 1000 * rate
		return RealSide{Ops: uint64(ops), Seconds: 1, P50US: 10, P99US: 20, ClientCPU: time.Duration(ops * cpu * 1e3), ServerCPU: time.Duration(ops * cpu * 1e3)}
	}
	return RealRound{TCP: side(1, 1), ND: side(rate, cpu)}
}

// A case has the medians of the ratios of its rounds, and not the ratio of medians. The means are geometric, and leave out idle
// connections.
func TestRealPrograms(t *testing.T) {
	r := sample()
	for _, rate := range []float64{0.25, 4, 0.5} {
		r.AddReal(RealResult{Case: "a", MTU: 1500, Datapath: "tcx"}, realRound(rate, 2))
	}
	r.AddReal(RealResult{Case: "b", MTU: 1500, Datapath: "tcx"}, realRound(2, 0.5))
	r.AddReal(RealResult{Case: "b", MTU: 9000, Datapath: "tcx"}, realRound(3, 1))
	idle := RealSide{Seconds: 10, Opened: 100}
	r.AddReal(RealResult{Case: "idle", MTU: 1500, Datapath: "tcx", Idle: 7}, RealRound{TCP: idle, ND: RealSide{Seconds: 10, Opened: 10}})
	if a := r.Real[0]; len(a.Rounds) != 3 || a.Rate != 0.5 || a.ND.PerSecond() != 500 || math.Abs(a.CPU-2) > 1e-9 {
		t.Errorf("%+v", a)
	}
	if x := r.Real[3]; x.Rate != 0.1 {
		t.Errorf("idle connections: ratio %v of those opened", x.Rate)
	}
	want := []RealSummary{
		{MTU: 1500, Datapath: "tcx", Rounds: 3, Cases: 2, Rate: 1, CPU: 1, Worst: "a", WorstRate: 0.5},
		{MTU: 9000, Datapath: "tcx", Rounds: 1, Cases: 1, Rate: 3, CPU: 1, Worst: "b", WorstRate: 3},
	}
	got := r.RealSummaries()
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i := range want {
		near := math.Abs(got[i].Rate-want[i].Rate)+math.Abs(got[i].CPU-want[i].CPU) < 1e-6
		if got[i].Rate, got[i].CPU = want[i].Rate, want[i].CPU; !near || got[i] != want[i] {
			t.Errorf("%+v, want %+v", got[i], want[i])
		}
	}
	if err := r.Validate(); err != nil {
		t.Error(err)
	}
	var text bytes.Buffer
	if err := r.WriteJSON(&text); err != nil {
		t.Fatal(err)
	}
	if back, err := ReadReport(&text); err != nil || len(back.Real) != 4 || back.Real[0].ND != r.Real[0].ND {
		t.Errorf("the results do not survive a round trip: %v", err)
	}
}

// Incomplete results are refused.
func TestRealProgramsAreSane(t *testing.T) {
	for name, spoil := range map[string]func(*RealResult){
		"no name":            func(x *RealResult) { x.Case = "" },
		"no datapath":        func(x *RealResult) { x.Datapath = "" },
		"no rounds":          func(x *RealResult) { x.Rounds = nil },
		"no operations":      func(x *RealResult) { x.Rounds[0].ND.Ops = 0 },
		"no time":            func(x *RealResult) { x.Rounds[0].TCP.Seconds = 0 },
		"latency":            func(x *RealResult) { x.Rounds[0].TCP.P99US = 1 },
		"ratio":              func(x *RealResult) { x.Rate = math.NaN() },
		"idle with programs": func(x *RealResult) { x.Idle = 1 },
	} {
		r := sample()
		r.AddReal(RealResult{Case: "a", MTU: 1500, Datapath: "tcx"}, realRound(1, 1))
		if spoil(&r.Real[0]); r.Validate() == nil {
			t.Errorf("%s: the report is valid", name)
		}
	}
}

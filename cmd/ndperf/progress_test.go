package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ndxdp/ndxdp/bench"
)

// TestWhatIsLeftOutStaysOnTheTerminal: the reason why an external program has no figure is a line of its own above the progress bar,
// which counts the program.
func TestWhatIsLeftOutStaysOnTheTerminal(t *testing.T) {
	const why = "sockperf write_lat 64 B is left out: no route"
	for _, terminal := range []bool{true, false} {
		var screen bytes.Buffer
		p := &progress{w: &screen}
		if terminal {
			p.bar = newBar(&screen, 2)
		}
		sink := &reportSink{kind: bench.KindSockperf, report: newReport(), progress: p}
		sink.Started(bench.Spec{Test: bench.WriteLat, Size: 64})
		sink.Stage(why)
		if n := strings.Count(screen.String(), why+"\n"); n != 1 {
			t.Errorf("terminal %v: said %d times in %q", terminal, n, screen.String())
		}
		if terminal && p.bar.State().CurrentNum != 1 {
			t.Errorf("the bar is at %d of 2", p.bar.State().CurrentNum)
		}
	}
}

// TestProgressCountsBothDirections: with --both each test has a figure for each direction.
func TestProgressCountsBothDirections(t *testing.T) {
	specs := []bench.Spec{{Test: bench.WriteBW}, {Test: bench.WriteRate}}
	for _, both := range []bool{false, true} {
		steps := besideStreams(planSteps(specs, []string{"udp"}, []int{1500}, baselines{}, true), bench.Parallel{Both: both})
		if n, want := steps[0].figures(), map[bool]int{false: 2, true: 4}[both]; n != want {
			t.Errorf("both %v: %d figures, want %d", both, n, want)
		}
	}
}

//go:build !race

package sim

import (
	"testing"
	"time"
)

// The equal-cost paths of a flow fail for good, in one or both directions, while it moves data; others of the eight paths still
// work. The flow continues from other source ports, within three time-outs and the attempts that the hash of ports costs (PROTOCOL
// §6.1).
func TestFlowLeavesADeadPath(t *testing.T) {
	for name, dead := range map[string]struct{ there, back bool }{"there": {true, false}, "back": {false, true}, "both": {true, true}} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, Conditions{Delay: testDelay}, Bottleneck{Rate: testRate, Queue: 500e3}, writers(1)...)
			taken := map[*Host]uint8{}
			f.watch = func(from *Host, ends pathEnds) { taken[from] = pathOf(ends) }
			flow, from := f.flows[0], f.hosts[1]
			flow.Start(0)
			f.pass(t, 50*time.Millisecond)
			if dead.there {
				f.KillPaths(from, f.sink, taken[from], time.Hour)
			}
			if dead.back {
				f.KillPaths(f.sink, from, taken[f.sink], time.Hour)
			}
			f.pass(t, 100*time.Millisecond)
			flow.Forget()
			f.pass(t, 100*time.Millisecond)
			timeouts, _ := f.stats()
			got := flow.Done * flow.Size * 8 * 10
			s := [2]uint64{from.Engine.Stats().PortsChanged, f.sink.Engine.Stats().PortsChanged}
			t.Logf("%d time-outs, ports changed %d and %d times, then %d Mb/s", timeouts, s[0], s[1], got/1e6)
			if dead.there && s[0] == 0 || dead.back && s[1] == 0 || s[0] > 3 || s[1] > 3 {
				t.Errorf("ports changed %d and %d times", s[0], s[1])
			}
			if timeouts > 6 || got < testRate*8/10 {
				t.Errorf("%d time-outs, then %d Mb/s", timeouts, got/1e6)
			}
			if f.Happened[DeadPath] == 0 {
				t.Error("nothing took a dead path")
			}
		})
	}
}

// A quarter of the paths fails for good at once, and all flows continue.
func TestFlowsLeaveAQuarterOfThePaths(t *testing.T) {
	f := newFleet(t, Conditions{Delay: testDelay}, Bottleneck{Rate: testRate, Queue: 500e3}, writers(16)...)
	for i, b := range f.flows {
		b.Start(time.Duration(i) * 100 * time.Microsecond)
	}
	f.pass(t, 50*time.Millisecond)
	for _, h := range f.hosts[1:] {
		f.KillPaths(h, f.sink, 0x03, time.Hour)
		f.KillPaths(f.sink, h, 0x0c, time.Hour)
	}
	f.pass(t, 2*time.Second)
	for _, b := range f.flows {
		b.Forget()
	}
	f.pass(t, 100*time.Millisecond)
	for i, b := range f.flows {
		if b.Done == 0 {
			t.Errorf("flow %d stands still", i)
		}
	}
	changed, lost := uint64(0), uint64(0)
	for _, h := range f.hosts {
		s := h.Engine.Stats()
		changed, lost = changed+s.PortsChanged, lost+s.Lost
	}
	if lost != 0 || changed < 4 {
		t.Errorf("%d ports changed, %d connections lost", changed, lost)
	}
}

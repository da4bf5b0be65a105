//go:build !race

package sim

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider"
)

// TestBulkGoesTheFasterWay: bulk leaves by the lane where that moves more, by the ND port where the lane moves less or as much, and follows when that changes.
func TestBulkGoesTheFasterWay(t *testing.T) {
	const port = 400e6
	config := bulkConfig(testMTU)
	config.Lane = true
	for _, c := range []struct {
		rate, then int // of the lane
		way, after string
	}{{3 * port, port / 2, "lane", "port"}, {port, port, "port", "port"}, {port / 2, 3 * port, "port", "lane"}} {
		flow := &Bulk{Kind: provider.KindWrite, Size: 256 << 10, Depth: 16}
		f := newFleetOf(t, config, Conditions{Delay: testDelay, LaneDelay: testDelay}, Bottleneck{Rate: port, Queue: 500e3}, flow)
		lane := &Bottleneck{Rate: c.rate, Queue: 500e3}
		f.sink.NarrowLane(lane)
		flow.Start(0)
		// most says how most of the bytes go for a while.
		most := func() string {
			f.narrow.Forget()
			lane.Forget()
			f.pass(t, 300*time.Millisecond)
			byPort, byLane := f.narrow.Passed, lane.Passed
			rate := port
			if byLane > byPort {
				rate = float64(lane.Rate)
			}
			if used := float64(byPort+byLane) * 8 / 0.3 / rate; used < 0.85 {
				t.Errorf("lane of %d b/s: %.2f of the faster way are used", lane.Rate, used)
			}
			if byLane > byPort {
				return "lane"
			}
			return "port"
		}
		f.pass(t, 200*time.Millisecond)
		if way := most(); way != c.way {
			t.Errorf("lane of %d b/s: most goes by the %s", c.rate, way)
		}
		lane.Rate = c.then
		f.pass(t, 1200*time.Millisecond)
		if way := most(); way != c.after {
			t.Errorf("lane of %d, then %d b/s: most goes by the %s", c.rate, c.then, way)
		}
		if timeouts, _ := f.stats(); timeouts > 0 {
			t.Errorf("lane of %d b/s: %d time-outs", c.rate, timeouts)
		}
	}
}

// TestVerdictForTheLengthOfMessages: what was found out with short messages does not decide for long ones of the same adapter.
func TestVerdictForTheLengthOfMessages(t *testing.T) {
	const port = 400e6
	config := bulkConfig(testMTU)
	config.Lane = true
	short := &Bulk{Kind: provider.KindWrite, Size: 4 << 10, Depth: 16}
	long := &Bulk{Kind: provider.KindWrite, Size: 256 << 10, Depth: 16}
	f := newFleetOf(t, config, Conditions{Delay: testDelay, LaneDelay: testDelay}, Bottleneck{Rate: port, Queue: 500e3}, short)
	f.Attach(long, short.from, f.sink, 2000)
	lane := &Bottleneck{Rate: port / 2, Queue: 500e3}
	f.sink.NarrowLane(lane)
	// most says by which way most goes.
	most := func() string {
		f.narrow.Forget()
		lane.Forget()
		f.pass(t, 200*time.Millisecond)
		if lane.Passed > f.narrow.Passed {
			return "lane"
		}
		return "port"
	}
	short.Start(0)
	f.pass(t, 200*time.Millisecond)
	if way := most(); way != "port" {
		t.Errorf("short messages go by the %s", way)
	}
	short.Stop()
	f.pass(t, 10*time.Millisecond)
	lane.Rate = 3 * port
	long.Start(0)
	f.pass(t, 200*time.Millisecond)
	if way := most(); way != "lane" {
		t.Errorf("long messages go by the %s", way)
	}
}

// TestLaneAtTheOnlyPort: a host of sockets takes runs at its ND port, and sends them from there, so that its peer's lane is used both ways.
func TestLaneAtTheOnlyPort(t *testing.T) {
	const port = 400e6
	raw, sockets := bulkConfig(testMTU), bulkConfig(testMTU)
	raw.Lane, sockets.Lane, sockets.Sockets = true, true, true
	for name, c := range map[string][2]HostConfig{"from sockets": {sockets, raw}, "to sockets": {raw, sockets}} {
		flow := &Bulk{Kind: provider.KindWrite, Size: 256 << 10, Depth: 16}
		f := newFleetBetween(t, c[0], c[1], Conditions{Delay: testDelay, LaneDelay: testDelay}, Bottleneck{Rate: port, Queue: 500e3}, flow)
		lane := &Bottleneck{Rate: 3 * port, Queue: 500e3}
		f.sink.NarrowLane(lane)
		flow.Start(0)
		f.pass(t, 300*time.Millisecond)
		f.narrow.Forget()
		lane.Forget()
		f.pass(t, 200*time.Millisecond)
		if used := float64(lane.Passed) * 8 / 0.2 / float64(lane.Rate); used < 0.85 || f.narrow.Passed > lane.Passed/10 {
			t.Errorf("%s: %.2f of the lane are used, %d bytes went beside it", name, used, f.narrow.Passed)
		}
		for _, h := range f.hosts {
			if s := h.Engine.Stats(); s.Challenges != 0 || s.PathsChanged != 0 || s.Timeouts != 0 {
				t.Errorf("%s: %d challenges, %d paths changed, %d time-outs", name, s.Challenges, s.PathsChanged, s.Timeouts)
			}
		}
	}
}

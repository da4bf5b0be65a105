//go:build !race

package sim

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider"
)

// TestLaneAtTheOnlyPort: a host of sockets receives GSO batches at its ND port and sends them from there, so its peer's bulk path
// is used in both directions.
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
			t.Errorf("%s: %.2f of the bulk path are used, %d bytes went beside it", name, used, f.narrow.Passed)
		}
		for _, h := range f.hosts {
			if s := h.Engine.Stats(); s.Challenges != 0 || s.PathsChanged != 0 || s.Timeouts != 0 {
				t.Errorf("%s: %d challenges, %d paths changed, %d time-outs", name, s.Challenges, s.PathsChanged, s.Timeouts)
			}
		}
	}
}

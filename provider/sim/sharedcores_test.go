//go:build !race

package sim

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider"
)

// share takes the host's core away for 1 to 5 ms again and again, half of the time in all.
func (h *Host) share() {
	away, there := between(h.net.rng, time.Millisecond, 5*time.Millisecond), between(h.net.rng, time.Millisecond, 5*time.Millisecond)
	h.Pause(away)
	h.net.After(away+there, h.share)
}

// Two ends that have half a core each move data for as long as the sender has its own: what it sends while the receiver is away waits there. With
// windows that span a round trip only they moved data while both had theirs, a quarter of the time.
func TestEndsThatShareTheirCores(t *testing.T) {
	const rate = 10_000_000_000
	for _, size := range []int{1472, 8972} {
		b := &Bulk{Kind: provider.KindWrite, Size: 1 << 20, Depth: 16}
		f := newFleetOf(t, bulkConfig(size), Conditions{Delay: 10 * time.Microsecond}, Bottleneck{Rate: rate, Queue: 1e6}, b)
		b.Start(0)
		f.After(0, f.hosts[0].share)
		f.After(0, f.hosts[1].share)
		f.pass(t, 50*time.Millisecond)
		f.narrow.Forget()
		_, before := f.stats()
		f.pass(t, time.Second)
		_, again := f.stats()
		used, packets := f.narrow.Passed*8*100/rate, f.narrow.Passed/uint64(size)
		t.Logf("packets of %d: %d %% of the link, %d of %d sent again", size, used, again-before, packets)
		if used < 38 {
			t.Errorf("packets of %d use %d %% of the link", size, used)
		}
		if again-before > packets/100 {
			t.Errorf("%d packets of %d are sent again", again-before, packets)
		}
	}
}

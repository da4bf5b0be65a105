//go:build !race

package sim

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider"
)

// share deschedules the host again and again. Each absence lasts from a fifth of away to away, and each time on the core from a
// fifth of there to there.
func (h *Host) share(away, there time.Duration) {
	gone, back := between(h.net.rng, away/5, away), between(h.net.rng, there/5, there)
	h.Pause(gone)
	h.net.After(gone+back, func() { h.share(away, there) })
}

// If both peers share their cores with other work, data move whenever the sender runs: packets that arrive during the receiver's
// absence wait there. A window of one round trip would allow progress only while both run, a quarter of the time if each has half a
// core. With a tenth of a core each, round trips are mostly waiting time, so hosts must know the arrival times of packets.
func TestEndsThatShareTheirCores(t *testing.T) {
	const rate = 10_000_000_000
	for _, x := range []struct {
		name        string
		stamps      bool
		away, there time.Duration
		size        int
		least       uint64 // of the link's capacity, in thousandths
	}{
		{"half a core", false, 5 * time.Millisecond, 5 * time.Millisecond, 1472, 380},
		{"half a core", false, 5 * time.Millisecond, 5 * time.Millisecond, 8972, 380},
		{"half a core", true, 5 * time.Millisecond, 5 * time.Millisecond, 1472, 380},
		{"half a core", true, 5 * time.Millisecond, 5 * time.Millisecond, 8972, 380},
		{"a tenth", true, 5 * time.Millisecond, 500 * time.Microsecond, 1472, 80},
		{"a tenth", true, 5 * time.Millisecond, 500 * time.Microsecond, 8972, 60},
	} {
		config := bulkConfig(x.size)
		config.Stamps = x.stamps
		b := &Bulk{Kind: provider.KindWrite, Size: 1 << 20, Depth: 16}
		f := newFleetOf(t, config, Conditions{Delay: 10 * time.Microsecond}, Bottleneck{Rate: rate, Queue: 1e6}, b)
		b.Start(0)
		for _, h := range f.hosts {
			f.After(0, func() { h.share(x.away, x.there) })
		}
		f.pass(t, 50*time.Millisecond)
		f.narrow.Forget()
		_, before := f.stats()
		f.pass(t, time.Second)
		_, again := f.stats()
		used, packets := f.narrow.Passed*8*1000/rate, f.narrow.Passed/uint64(x.size)
		t.Logf("%s, stamps %v, packets of %d: %d/1000 of the link, %d of %d sent again", x.name, x.stamps, x.size, used, again-before, packets)
		if used < x.least {
			t.Errorf("%s, stamps %v, packets of %d use %d/1000 of the link", x.name, x.stamps, x.size, used)
		}
		if again-before > packets/100 {
			t.Errorf("%d packets of %d are retransmitted", again-before, packets)
		}
	}
}

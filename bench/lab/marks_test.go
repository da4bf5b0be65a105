//go:build !race

package lab

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// Routers' marks alone bound what a flow sends, on every datapath and over IPv6: the marking port pretends to be slower than
// the bottleneck behind it, whose queue so stays empty and loses nothing (PROTOCOL §9.4).
func TestMarks(t *testing.T) {
	const marking = 300 // Mb/s
	for name, s := range map[string]setup{
		"generic": {datapath: nd.DatapathGeneric}, "native": {datapath: nd.DatapathNative}, "udp": {datapath: nd.DatapathUDP},
		"generic, IPv6": {datapath: nd.DatapathGeneric, ipv6: true}, "udp, IPv6": {datapath: nd.DatapathUDP, ipv6: true},
	} {
		t.Run(name, func(t *testing.T) {
			s.bottleneck = megabits(rate)
			r := newRig(t, s)
			router := r.impair(t, 0)
			flows := r.newFlows(t, 1, 64<<10, 8, 0)
			must(t, router.Set(impairments{MarkAfter: 200 * time.Microsecond, MarkRate: marking * 1e6 / 8}))
			judge(t, func() *verdict {
				run := start(t, flows...)
				defer run.stop(t)
				r.watchQueue(t, settle)
				before, err := router.Counts()
				must(t, err)
				stats, lost := r.stats(), r.dropped(t)
				var waits []time.Duration
				moved, took := run.moved(func() { waits = r.watchQueue(t, 500*time.Millisecond) })
				after, err := router.Counts()
				must(t, err)
				now := r.stats()
				marked, heard := after.Marked-before.Marked, int(now.Marked-stats.Marked)
				lost = r.dropped(t) - lost
				goodput, most := mbits(moved[0], took), float64(marking)*payload/frame
				v := &verdict{}
				v.say("%.0f of %.0f Mb/s, %d of %d packets marked, %d could not be, %d marks heard of, queueing p99 %v, %d resent, %d lost",
					goodput, most, marked, after.Seen-before.Seen, after.Unmarkable-before.Unmarkable, heard, quantile(waits, 990),
					now.Retransmits-stats.Retransmits, lost)
				v.want(goodput >= 0.4*most && goodput <= 1.1*most, "%.0f Mb/s", goodput)
				v.want(marked > 0 && heard >= marked*9/10 && heard <= marked*11/10+8, "%d marks heard of", heard)
				v.want(lost == 0, "%d packets lost", lost)
				v.want(after.Unmarkable-before.Unmarkable <= marked/10, "%d packets could not be marked", after.Unmarkable-before.Unmarkable)
				return v
			})
		})
	}
}

// dropped is how many packets found the bottleneck's queue full.
func (r *rig) dropped(t *testing.T) int {
	t.Helper()
	b, err := r.star.Backlog(0)
	must(t, err)
	return b.Dropped
}

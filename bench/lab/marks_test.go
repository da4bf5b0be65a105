package lab

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab/impair"
	"github.com/ndxdp/ndxdp/nd"
)

// markingPaths are the ways on which a router's mark travels: through every datapath, in the headers of IPv4 and of IPv6.
var markingPaths = []struct {
	name  string
	setup setup
}{
	{"generic", setup{datapath: nd.DatapathGeneric}},
	{"native", setup{datapath: nd.DatapathNative}},
	{"udp", setup{datapath: nd.DatapathUDP}},
	{"generic-IPv6", setup{datapath: nd.DatapathGeneric, ipv6: true}},
	{"udp-IPv6", setup{datapath: nd.DatapathUDP, ipv6: true}},
}

// Every mark of a router on a packet that arrived as new is known to the sender, on every datapath. A packet that was sent
// again may have been marked twice, and is new once at most.
func TestMarksReachTheSender(t *testing.T) {
	const enough = 100
	for _, path := range markingPaths {
		t.Run(path.name, func(t *testing.T) {
			r := newRig(t, path.setup)
			router := r.impair(t)
			bulk := r.newFlow(t, 1, 64<<10, 8, 0)
			must(t, router.Set(impairments{MarkAfter: 20 * time.Microsecond, MarkRate: 1e6})) // slower than any machine: later packets cannot be marked (PROTOCOL §9.4)
			run := start(t, bulk)
			r.until(t, router, func(c impair.Counts, _ nd.Stats) bool { return c.Marked >= enough })
			run.stop(t)
			// All is acknowledged now, and the acknowledgement that counts the last marks is at most on its way.
			c, stats := r.until(t, router, func(c impair.Counts, s nd.Stats) bool { return int(s.Marked) >= c.Marked-int(s.Retransmits) })
			if int(stats.Marked) > c.Marked {
				t.Errorf("%d packets marked, %d marks heard of", c.Marked, stats.Marked)
			}
		})
	}
}

// until waits for what counters will say, and returns them.
func (r *rig) until(t *testing.T, router *impair.Impairment, done func(impair.Counts, nd.Stats) bool) (c impair.Counts, s nd.Stats) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		c, err := router.Counts()
		must(t, err)
		if s = r.stats(); done(c, s) {
			return c, s
		}
		if time.Since(began) > patience {
			t.Fatalf("after %v: router %+v, %d marks heard of, %d packets resent", patience, c, s.Marked, s.Retransmits)
		}
	}
}

package lab

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab/impair"
	"github.com/ndxdp/ndxdp/nd"
)

// markingPaths are the paths of a router's mark: through every datapath, in the headers of IPv4 and of IPv6.
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

// The sender learns of every router's mark on a packet that arrived for the first time, on every datapath. A retransmitted packet may
// have been marked twice, and counts at most once. Data packets can be marked, and all other packets cannot.
func TestMarksReachTheSender(t *testing.T) {
	const (
		flows  = 4        // each with one Write
		write  = 64 << 10 // so few packets that the sender does not conclude that the path marks everything (PROTOCOL §9.4)
		enough = 100
	)
	for _, path := range markingPaths {
		t.Run(path.name, func(t *testing.T) {
			r := newRig(t, path.setup)
			router := r.impair(t)
			all := r.newFlows(t, flows, write, 1, 1)
			must(t, router.Set(impairments{MarkAfter: time.Millisecond, MarkRate: 1000})) // a single packet makes a queue of more than a second
			start(t, all...).wait(t)
			// All data are acknowledged now. At most the acknowledgement that counts the last marks is still under way.
			c, stats := r.until(t, router, func(c impair.Counts, s nd.Stats) bool {
				return c.Marked >= enough && int(s.Packets.Marked) >= c.Marked-int(s.Recovery.Retransmits)
			})
			if int(stats.Packets.Marked) > c.Marked {
				t.Errorf("%d packets marked, %d marks heard of", c.Marked, stats.Packets.Marked)
			}
			if c.Unmarkable > c.Marked/2 {
				t.Errorf("%d packets marked, and %d could not be", c.Marked, c.Unmarkable)
			}
		})
	}
}

// until waits for a state of the counters, and returns them.
func (r *rig) until(t *testing.T, router *impair.Impairment, done func(impair.Counts, nd.Stats) bool) (c impair.Counts, s nd.Stats) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		c, err := router.Counts()
		must(t, err)
		if s = r.stats(); done(c, s) {
			return c, s
		}
		if time.Since(began) > patience {
			t.Fatalf("after %v: router %+v, %d marks heard of, %d packets resent", patience, c, s.Packets.Marked, s.Recovery.Retransmits)
		}
	}
}

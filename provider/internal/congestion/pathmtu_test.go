package congestion

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

// If packets become larger, the window stays the same in bytes, but is at least the initial window in packets.
func TestWindowFollowsThePacketSize(t *testing.T) {
	for _, c := range []struct{ window, packet, want int }{
		{100 * 1200, 1472, 100 * 1200},
		{100 * 1200, 65507, 2 * 65507},
		{8 * 1200, 8972, InitialWindow},
	} {
		var s State
		s.Reset(&Delay{}, wire.MinPacket)
		s.window = c.window
		s.Resize(c.packet, 0)
		if s.window != c.want || s.Window != c.want {
			t.Errorf("%d bytes became %d of packets of %d, want %d", c.window, s.window, c.packet, c.want)
		}
	}
}

// The table is in ascending order, and every size in it can be sent over both address families.
func TestLikelyMTUs(t *testing.T) {
	if !slices.IsSorted(likelyMTUs[:]) {
		t.Error("not in order")
	}
	for _, mtu := range likelyMTUs {
		if mtu-ip6Overhead < wire.MinPacket || mtu-ip4Overhead > wire.MaxPacket {
			t.Error(fmt.Sprint(mtu, " is no size for a packet"))
		}
	}
}

// For any two link MTUs and any path MTU the search confirms the largest likely size that passes, and then stops until the raise
// timer.
func TestSearchEnds(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, ip4 := range []bool{true, false} {
		for limit := wire.MinPacket; limit <= wire.MaxPacket; limit += 97 {
			now := clock.Time(time.Hour)
			var p PathMTU
			var s Search
			p.Begin(60000, ip4)
			p.Fit(&s, now, 50000)
			probes := 0
			for now >= s.At {
				if !p.Next(&s, now, random) {
					continue
				}
				if probes++; probes > MaxProbes*8 {
					t.Fatalf("limit %d: no end, %+v", limit, p)
				}
				if p.Sent(&s, now, time.Millisecond); int(s.Size) <= limit {
					p.Answered(&s, now, s.Nonce, s.Size)
				} else {
					now = s.At
				}
			}
			if int(p.Packet) > min(limit, 50000) || limit >= 50000 && p.Packet != 50000 {
				t.Errorf("limit %d: packets of %d", limit, p.Packet)
			}
			if wait := s.At.Sub(now); limit < 50000 && (wait < raiseTimer-time.Minute || wait > raiseTimer) {
				t.Errorf("limit %d: searched again after %v", limit, wait)
			}
		}
	}
}

// An idle connection keeps the result of its search. A search that was interrupted continues, and after the path MTU fell, the
// search tries the old size first.
func TestSearchOfAConnectionAtRest(t *testing.T) {
	now := clock.Time(time.Hour)
	var p PathMTU
	p.Begin(9000, true)
	p.Fit(nil, now, 9000)
	s := Search{At: p.SearchAt(now)}
	if !p.Next(&s, now, rand.New(rand.NewPCG(1, 2))) || s.Size != 9000 || !p.Answered(&s, now, s.Nonce, 9000) || p.SearchAt(now) != clock.Never {
		t.Fatalf("%+v, %+v", p, s)
	}
	if !p.Shrink(nil, now) || p.Packet != wire.MinPacket || p.Shrink(nil, now) {
		t.Errorf("%+v", p)
	}
	if s = (Search{}); !p.Next(&s, now, rand.New(rand.NewPCG(1, 2))) || s.Size != 9000 {
		t.Errorf("probes %d bytes", s.Size)
	}
	if p.Fit(&s, now, 1500); p.Ceiling != 1500 || s.Size != 0 {
		t.Errorf("%+v, %+v", p, s)
	}
}

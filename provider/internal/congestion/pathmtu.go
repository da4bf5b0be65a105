package congestion

import (
	"math/rand/v2"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

// This file finds the largest packet that reaches the peer (PROTOCOL §9.6, after RFC 8899). A connection begins with wire.MinPacket, which
// its REQ has proven. It probes larger sizes together with the first data that fills such a packet. So a connection that never sends that
// much never probes, and an idle one has no timer.

const (
	MaxProbes     = 3                     // of one size (RFC 8899 §5.1.2)
	minProbeTimer = 10 * time.Millisecond // how long the answer to a probe is waited for at least, and four time-outs
	raiseTimer    = 600 * time.Second     // when sizes that failed are tried again, to the minute (RFC 8899 §5.1.1)
	ip4Overhead   = 20 + 8                // IPv4 and UDP headers
	ip6Overhead   = 40 + 8                // IPv6 and UDP headers
)

// likelyMTUs are common path MTUs, in ascending order: the minimum of IPv6, tunnels (WireGuard, VXLAN, GRE, PPPoE), Ethernet, and the
// settings of larger networks. Sizes between two of them are not used.
var likelyMTUs = [...]int{1280, 1420, 1450, 1476, 1492, 1500, 2044, 3498, 4092, 8942, 9000, 9216, 16384, 32768, 65535}

// PathMTU is what is known about packet sizes, in bytes of ND packets. It is kept while a connection rests.
type PathMTU struct {
	Packet  uint16 // known to reach the peer
	Ceiling uint16 // what both links carry
	peer    uint16 // what the peer can receive
	raise   uint16 // the minute in which sizes that failed are tried again; zero while none did
	failed  uint16 // the smallest size that is known not to pass, or one more than Ceiling
	tries   uint8  // probes of the size under way
	whole   bool   // the size below failed is tried before the likely ones
	ip4     bool
}

// Search is what of a search is not kept over a rest. Where a method takes one, nil stands for a connection at rest.
type Search struct {
	At    clock.Time // from when on a full packet makes a probe go out beside it
	Nonce uint32     // of the probe under way
	Size  uint16     // of the probe under way; zero when there is none
}

// Begin starts anew with what the peer can receive. Fit must follow.
func (p *PathMTU) Begin(peer int, ip4 bool) {
	*p = PathMTU{peer: uint16(min(peer, wire.MaxPacket)), Packet: wire.MinPacket, ip4: ip4}
}

// Fit follows the size that the own link carries, once the peer's is known. It reports whether that is another size.
func (p *PathMTU) Fit(s *Search, now clock.Time, link int) bool {
	most := uint16(min(max(link, wire.MinPacket), int(p.peer)))
	if most == p.Ceiling {
		return false
	}
	p.Ceiling = most
	p.Packet = min(p.Packet, most)
	p.restart(s, now, most+1, 0)
	return true
}

// Later makes the search go on after a while, because the size that the own link carries is not known yet.
func (p *PathMTU) Later(s *Search, now clock.Time) { s.At = now.Add(minProbeTimer) }

// restart makes a search begin for packets of less than failed bytes, the largest first.
func (p *PathMTU) restart(s *Search, now clock.Time, failed, raise uint16) {
	p.failed, p.whole, p.tries, p.raise = failed, true, 0, raise
	if s != nil {
		*s = Search{At: p.SearchAt(now)}
	}
}

// rest ends a search that has found the largest size. The sizes that failed are tried again later: paths change.
func (p *PathMTU) rest(s *Search, now clock.Time) {
	p.restart(s, now, p.Ceiling+1, minute(now.Add(raiseTimer)))
}

// SearchAt is from when on the search goes on.
func (p *PathMTU) SearchAt(now clock.Time) clock.Time {
	if p.Packet >= p.Ceiling {
		return clock.Never
	}
	// More than the whole wait is a minute of long ago, 16 bits later.
	if wait := p.raise - minute(now); p.raise != 0 && wait > 0 && wait <= uint16(raiseTimer/time.Minute) {
		return now - now%clock.Time(time.Minute) + clock.Time(wait)*clock.Time(time.Minute)
	}
	return 0
}

// minute is a time in 16 bits, by which idle connections remember when to search again. A minute of zero occurs once in 45 days, and makes
// a search begin too early.
func minute(t clock.Time) uint16 { return uint16(t / clock.Time(time.Minute)) }

// Next turns to the probe that is due: s has its size and nonce then. It reports false when there is none. The caller has just sent
// data that fill a packet, or more than fits into one.
func (p *PathMTU) Next(s *Search, now clock.Time, random *rand.Rand) bool {
	if s.Size == 0 {
		p.nextProbe(s, random)
	}
	if p.tries == MaxProbes {
		p.failed, p.whole = s.Size, false
		p.nextProbe(s, random)
	}
	if s.Size == 0 {
		p.rest(s, now)
		return false
	}
	return true
}

// nextProbe selects the size to probe now. After an idle time it is the previous size.
func (p *PathMTU) nextProbe(s *Search, random *rand.Rand) {
	if s.Size != 0 {
		p.tries = 0
	}
	s.Size, s.Nonce = p.nextSize(), random.Uint32()
}

// nextSize chooses the size to probe between what is confirmed and what failed, or zero when none is left: first the largest,
// then the middle of the likely ones.
func (p *PathMTU) nextSize() uint16 {
	if p.whole {
		return p.failed - 1
	}
	overhead := ip6Overhead
	if p.ip4 {
		overhead = ip4Overhead
	}
	first, n := 0, 0
	for i, mtu := range likelyMTUs {
		if size := mtu - overhead; size > int(p.Packet) && size < int(p.failed) {
			if n == 0 {
				first = i
			}
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return uint16(likelyMTUs[first+n/2] - overhead)
}

// Sent notes that the probe under way went out. timeout is the retransmission time-out.
func (p *PathMTU) Sent(s *Search, now clock.Time, timeout time.Duration) {
	p.tries++
	s.At = now.Add(max(minProbeTimer, 4*timeout))
}

// Answered takes in that packets of the size under way arrive. It reports false when the answer is to another probe.
func (p *PathMTU) Answered(s *Search, now clock.Time, nonce uint32, size uint16) bool {
	if s.Size == 0 || nonce != s.Nonce || size != s.Size {
		return false
	}
	p.Packet = size
	s.Size, s.At = 0, 0
	p.tries, p.whole = 0, false
	if p.failed == size+1 { // that was the largest
		p.rest(s, now)
	}
	return true
}

// Heard handles a probe of the peer. If this side's search ended with a smaller size, it begins again: the path has probably changed, as
// when the links of both ends are set to a larger MTU one after the other.
func (p *PathMTU) Heard(s *Search, now clock.Time, size uint16) {
	if p.raise != 0 && p.Packet < min(size, p.Ceiling) {
		p.restart(s, now, p.Ceiling+1, 0)
	}
}

// Shrink goes back to packets of wire.MinPacket bytes: what larger ones need may not exist any more (a black hole). It costs a round trip when
// it was not so, because the search begins with the size that was in use. It reports false when there is nothing to go back to.
func (p *PathMTU) Shrink(s *Search, now clock.Time) bool {
	if p.Packet <= wire.MinPacket {
		return false
	}
	failed := p.Packet + 1
	p.Packet = wire.MinPacket
	p.restart(s, now, failed, 0)
	return true
}

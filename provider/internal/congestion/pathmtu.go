package congestion

import (
	"math/rand/v2"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

// This file finds the largest packet size that reaches the peer (PROTOCOL §9.6, after RFC 8899). A connection begins with
// wire.MinPacket, which its REQ has proven. It probes a larger size only when it has enough data to fill such a packet. So a
// connection that never sends this much never probes, and an idle connection has no timer.

const (
	MaxProbes     = 3                     // probes of one size (RFC 8899 §5.1.2)
	minProbeTimer = 10 * time.Millisecond // least time to wait for the answer to a probe; the usual time is four time-outs
	raiseTimer    = 600 * time.Second     // when failed sizes are tried again, to the minute (RFC 8899 §5.1.1)
	ip4Overhead   = 20 + 8                // IPv4 and UDP headers
	ip6Overhead   = 40 + 8                // IPv6 and UDP headers
)

// likelyMTUs are common path MTUs, in ascending order: the minimum of IPv6, tunnels (WireGuard, VXLAN, GRE, PPPoE), Ethernet, and
// larger networks. Sizes between them are not probed.
var likelyMTUs = [...]int{1280, 1420, 1450, 1476, 1492, 1500, 2044, 3498, 4092, 8942, 9000, 9216, 16384, 32768, 65535}

// PathMTU is the state of the search, in bytes of ND packets. An idle connection keeps it.
type PathMTU struct {
	Packet  uint16 // largest size known to reach the peer
	Ceiling uint16 // largest size that both links carry
	peer    uint16 // largest size that the peer can receive
	raise   uint16 // minute in which failed sizes are tried again; zero if none has failed
	failed  uint16 // smallest size known to fail, or Ceiling plus one
	tries   uint8  // probes of the current size
	whole   bool   // the size below failed is tried before the likely ones
	ip4     bool
}

// Search is the part of the search that an idle connection does not keep. Where a method takes a Search, nil stands for an idle
// connection.
type Search struct {
	At    clock.Time // earliest time of the next probe, which leaves together with a full packet
	Nonce uint32     // nonce of the current probe
	Size  uint16     // size of the current probe; zero if there is none
}

// Begin restarts the search. peer is the size that the peer can receive. The caller then calls Fit.
func (p *PathMTU) Begin(peer int, ip4 bool) {
	*p = PathMTU{peer: uint16(min(peer, wire.MaxPacket)), Packet: wire.MinPacket, ip4: ip4}
}

// Fit sets the size that the own link carries. It reports whether the size changed.
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

// Later delays the search, because the size that the own link carries is not known yet.
func (p *PathMTU) Later(s *Search, now clock.Time) { s.At = now.Add(minProbeTimer) }

// restart begins a search for sizes below failed, largest first.
func (p *PathMTU) restart(s *Search, now clock.Time, failed, raise uint16) {
	p.failed, p.whole, p.tries, p.raise = failed, true, 0, raise
	if s != nil {
		*s = Search{At: p.SearchAt(now)}
	}
}

// rest ends a search that has found the largest size. The failed sizes are tried again later, because paths change.
func (p *PathMTU) rest(s *Search, now clock.Time) {
	p.restart(s, now, p.Ceiling+1, minute(now.Add(raiseTimer)))
}

// SearchAt returns when the search goes on.
func (p *PathMTU) SearchAt(now clock.Time) clock.Time {
	if p.Packet >= p.Ceiling {
		return clock.Never
	}
	// A longer wait than raiseTimer means that the minute has passed and 16 bits have wrapped.
	if wait := p.raise - minute(now); p.raise != 0 && wait > 0 && wait <= uint16(raiseTimer/time.Minute) {
		return now - now%clock.Time(time.Minute) + clock.Time(wait)*clock.Time(time.Minute)
	}
	return 0
}

// minute returns a time in 16 bits, with which idle connections remember when to search again. The value zero occurs once in 45
// days and makes a search begin too early.
func minute(t clock.Time) uint16 { return uint16(t / clock.Time(time.Minute)) }

// Next selects the probe that is due, and sets its size and nonce in s. It returns false if there is none. The caller has just sent
// data that fill at least one packet.
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

// nextProbe selects the size to probe now. After an idle time, it is the previous size.
func (p *PathMTU) nextProbe(s *Search, random *rand.Rand) {
	if s.Size != 0 {
		p.tries = 0
	}
	s.Size, s.Nonce = p.nextSize(), random.Uint32()
}

// nextSize returns the next size between the largest confirmed and the smallest failed one, or zero if none is left: first the
// largest, then the middle of the likely ones.
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

// Sent records that the current probe was sent. timeout is the retransmission time-out.
func (p *PathMTU) Sent(s *Search, now clock.Time, timeout time.Duration) {
	p.tries++
	s.At = now.Add(max(minProbeTimer, 4*timeout))
}

// Answered records that packets of the probed size arrive. It returns false if the answer is to another probe.
func (p *PathMTU) Answered(s *Search, now clock.Time, nonce uint32, size uint16) bool {
	if s.Size == 0 || nonce != s.Nonce || size != s.Size {
		return false
	}
	p.Packet = size
	s.Size, s.At = 0, 0
	p.tries, p.whole = 0, false
	if p.failed == size+1 { // it was the largest
		p.rest(s, now)
	}
	return true
}

// Heard handles a probe of the peer. If this side's search ended with a smaller size, it begins again, because the path has
// probably changed: for example, the links of both ends are set to a larger MTU one after the other.
func (p *PathMTU) Heard(s *Search, now clock.Time, size uint16) {
	if p.raise != 0 && p.Packet < min(size, p.Ceiling) {
		p.restart(s, now, p.Ceiling+1, 0)
	}
}

// Regain handles the late arrival of a packet of size bytes that counted as lost. If packets are smaller now, they get this size again,
// and the result is true.
func (p *PathMTU) Regain(s *Search, now clock.Time, size int) bool {
	if size <= int(p.Packet) || size > int(p.Ceiling) {
		return false
	}
	p.Packet = uint16(size)
	p.restart(s, now, p.Ceiling+1, 0)
	return true
}

// Shrink returns to packets of wire.MinPacket bytes, because the path may have lost larger ones (a black hole). If the path still
// carries them, this costs one round trip, because the search begins with the previous size. It returns false if packets already
// have the least size.
func (p *PathMTU) Shrink(s *Search, now clock.Time) bool {
	if p.Packet <= wire.MinPacket {
		return false
	}
	failed := p.Packet + 1
	p.Packet = wire.MinPacket
	p.restart(s, now, failed, 0)
	return true
}

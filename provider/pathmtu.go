package provider

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

// This file finds the largest packet that reaches the peer (PROTOCOL §9.6, after RFC 8899). A connection begins with
// wire.MinPacket, which its REQ has proven, and probes for more beside the first data that fills such a packet: one that never
// sends as much never probes, and an idle one has no timer.

const (
	maxProbes     = 3                     // of one size (RFC 8899 §5.1.2)
	minProbeTimer = 10 * time.Millisecond // how long the answer to a probe is waited for at least, and four time-outs
	raiseTimer    = 600 * time.Second     // when sizes that failed are tried again, to the minute (RFC 8899 §5.1.1)
	maxLosses     = 3                     // of one packet that is larger than wire.MinPacket: its path has become smaller
	ip4Overhead   = 20 + 8                // IPv4 and UDP headers
	ip6Overhead   = 40 + 8                // IPv6 and UDP headers
)

// likelyMTUs are where a path usually ends, in ascending order: the least of IPv6, tunnels (WireGuard, VXLAN, GRE, PPPoE),
// Ethernet, and the sizes that larger networks are set to. What lies between two of them is given away.
var likelyMTUs = [...]int{1280, 1420, 1450, 1476, 1492, 1500, 2044, 3498, 4092, 8942, 9000, 9216, 16384, 32768, 65535}

// pathSearch is what of a search is not kept over a rest.
type pathSearch struct {
	at    clock.Time // from when on a full packet makes a probe go out beside it
	nonce uint32     // of the probe under way
	size  uint16     // of the probe under way; zero when there is none
}

// beginSearch is called when the peer has said what it can receive.
func (c *conn) beginSearch(peer uint32) {
	c.peerPacket, c.maxPacket = uint16(min(peer, wire.MaxPacket)), wire.MinPacket
	c.fitLink()
}

// setSearch makes a search begin for packets of less than failed bytes, the largest first.
func (c *conn) setSearch(failed, raiseMinute uint16) {
	c.probeFailed, c.probeWhole, c.probeTries, c.raiseMinute = failed, true, 0, raiseMinute
	if c.traffic != nil {
		c.search = pathSearch{at: c.searchAt()}
	}
}

// searchAt is from when on the search goes on.
func (c *conn) searchAt() clock.Time {
	if c.maxPacket >= c.ceiling {
		return clock.Never
	}
	now := c.engine.now
	// More than the whole wait is a minute of long ago, 16 bits later.
	if wait := c.raiseMinute - minute(now); c.raiseMinute != 0 && wait > 0 && wait <= uint16(raiseTimer/time.Minute) {
		return now - now%clock.Time(time.Minute) + clock.Time(wait)*clock.Time(time.Minute)
	}
	return 0
}

// minute is a time in 16 bits, in which connections at rest remember when to search again. The one that is zero, once in 45
// days, makes a search begin too early.
func minute(t clock.Time) uint16 { return uint16(t / clock.Time(time.Minute)) }

// searchPath sends the probe that is due. The caller has just sent data that fill a packet, or more than fits into one.
func (c *conn) searchPath() {
	s := &c.search
	if s.size == 0 {
		c.nextProbe()
	}
	if c.probeTries == maxProbes {
		c.probeFailed, c.probeWhole = s.size, false
		c.nextProbe()
	}
	if s.size == 0 {
		// None is left. The sizes that failed are tried again later: paths change.
		c.setSearch(c.ceiling+1, minute(c.engine.now.Add(raiseTimer)))
		return
	}
	if c.sendProbe() {
		c.probeTries++
		s.at = c.engine.now.Add(max(minProbeTimer, 4*c.rtt.timeout(c.engine.cfg.MinRTO)))
	}
}

// nextProbe turns to the size that is to be probed now, which after a rest is the one before.
func (c *conn) nextProbe() {
	s := &c.search
	if s.size != 0 {
		c.probeTries = 0
	}
	s.size, s.nonce = c.nextSize(), c.engine.rng.Uint32()
}

// nextSize chooses the size to probe between what is confirmed and what failed, or zero when none is left: first the largest,
// then the middle of the likely ones.
func (c *conn) nextSize() uint16 {
	if c.probeWhole {
		return c.probeFailed - 1
	}
	overhead := ip6Overhead
	if c.local.Is4() {
		overhead = ip4Overhead
	}
	first, n := 0, 0
	for i, mtu := range likelyMTUs {
		if size := mtu - overhead; size > int(c.maxPacket) && size < int(c.probeFailed) {
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

// sendProbe sends a PROBE of the size under way. It is outside the congestion window, because there is one in a probe timer at
// the most; nothing is lost with it, and its loss says nothing about congestion (RFC 8899 §3). It reports false when there
// was no frame for it.
func (c *conn) sendProbe() bool {
	e := c.engine
	size := int(c.search.size)
	if !e.begin(size) {
		return false
	}
	b := &e.build
	m := wire.Probe{Nonce: c.search.nonce, Size: c.search.size}
	head := m.Append(b.buf[b.pos:][:wire.ControlHeaderLen])
	wire.PutControl(head, wire.CtlProbe, 0, len(head)-wire.ControlHeaderLen)
	b.pos += len(head)
	b.used += len(head)
	for left := size - b.used; left > 0; left = size - b.used {
		e.payload(zeros[:min(left, len(zeros))])
	}
	e.stats.PathProbes++
	e.seal(c, 0, 0, 0)
	return true
}

// zeros is what probes are padded with.
var zeros [FrameSize]byte

// onProbe answers a PROBE.
func (c *conn) onProbe(body []byte) wire.DropReason {
	var m wire.Probe
	if d := wire.ParseProbe(body, &m); d != wire.DropNone {
		return d
	}
	if answer, ok := c.engine.control(wire.CtlProbeAck, 0, len(body)); ok {
		m.Append(answer[:0])
		c.engine.seal(c, 0, 0, 0)
	}
	return wire.DropNone
}

// onProbeAck takes the answer to the probe under way: packets of its size arrive.
func (c *conn) onProbeAck(body []byte) wire.DropReason {
	var m wire.Probe
	if d := wire.ParseProbe(body, &m); d != wire.DropNone {
		return d
	}
	s := &c.search
	if s.size == 0 || m.Nonce != s.nonce || m.Size != s.size {
		return wire.DropState // of an earlier probe
	}
	c.cc.repack(int(c.maxPacket), int(s.size))
	c.cc.settle(c.rtt.smoothed)
	c.engine.note(FlightPath, c.id, uint32(c.maxPacket), uint32(s.size))
	c.maxPacket = s.size
	c.engine.stats.PathRaised++
	s.size, s.at = 0, 0
	c.probeTries, c.probeWhole = 0, false
	if c.probeFailed == c.maxPacket+1 { // that was the largest
		c.setSearch(c.ceiling+1, minute(c.engine.now.Add(raiseTimer)))
	}
	return wire.DropNone
}

// repack makes the window follow a larger packet: it does not grow in bytes (RFC 8899 §3), but is no smaller than that of a
// connection that begins with such packets.
func (cc *congestion) repack(from, to int) {
	cc.fabric = max(cc.fabric*from/to, min(cc.fabric, initialWindow*windowUnit))
	cc.before = 0
}

// blame counts that a packet was taken for lost.
func (c *conn) blame(rec *txRecord) {
	if rec.losses < maxLosses {
		rec.losses++
	}
	if rec.losses == maxLosses && int(rec.size) > wire.MinPacket {
		c.pathShrank()
	}
}

// pathShrank is called when a packet that is larger than wire.MinPacket was lost maxLosses times: what large packets need may not exist
// any more (a black hole). The connection goes on with that, at once and without asking, because that costs a round trip when
// it was not so: the search begins with the size that was in use.
func (c *conn) pathShrank() {
	if c.maxPacket <= wire.MinPacket {
		return
	}
	c.engine.note(FlightPath, c.id, uint32(c.maxPacket), wire.MinPacket)
	failed := c.maxPacket + 1
	c.maxPacket = wire.MinPacket
	c.setSearch(failed, 0)
	c.engine.stats.BlackHoles++
}

// Resized tells the engine that its link's MaxPacket is another one. Connections that send larger packets send smaller ones
// from now on; others look whether larger ones pass. What the peers were told that they may send stands. The owner calls it.
func (e *Engine) Resized() {
	for c := range e.group.conns.all {
		if c.home.Load() == e {
			c.fitLink()
		}
	}
}

// fitLink makes the connection follow the size of its engine's link, once the peer's is known.
func (c *conn) fitLink() {
	most := uint16(min(c.engine.link.MaxPacket(), int(c.peerPacket)))
	if most == c.ceiling {
		return
	}
	c.ceiling = most
	c.maxPacket = min(c.maxPacket, most)
	c.setSearch(most+1, 0)
}

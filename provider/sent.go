package provider

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/wire"
)

// onAck takes in an ACK block whose largest number is largest. All that it names was sent.
func (c *conn) onAck(a *wire.Ack, largest uint64) {
	if a.Flags&wire.AckCE != 0 {
		c.peerCEAhead++
		c.onMarks(1)
	}
	c.recovery.ackedAt = c.engine.now
	fresh, carried := false, false
	for i := range a.N {
		low, high := largest-uint64(a.Ranges[i].Last), largest-uint64(a.Ranges[i].First)
		c.received.Confirmed(low, high)
		c.confirmTaken(low, high)
		for n := max(low, c.sent.Floor()); n <= high; n++ {
			p := c.sent.Acknowledge(n)
			if p == nil {
				continue
			}
			fresh = true
			if n == largest {
				c.measureTrip(p.At, a)
			}
			if c.arrived(n, p) {
				carried = true
			}
		}
	}
	c.received.Missed(largest)
	if c.takenIn < largest {
		c.takenIn = 0
	}
	switch {
	case carried:
		c.advance()
	case fresh:
		c.forgetSent()
		c.detectLoss()
	}
}

// measureTrip takes the round trip of the packet with the largest number in an ACK block, without the time that the peer held it.
func (c *conn) measureTrip(at clock.Time, a *wire.Ack) {
	if a.Delay == wire.AckDelayUnknown {
		return
	}
	d := c.engine.now.Sub(at) - time.Duration(a.Delay)*wire.AckDelayUnit
	c.rtt.sample(d)
	c.noteDelay(d, a.Flags&wire.AckAway != 0)
	c.sample.Trip(d)
}

// arrived takes in that a transmission arrived. It reports whether the peer has something by it that it was not known to have.
func (c *conn) arrived(number uint64, p *recovery.Packet) (carried bool) {
	if p.State&(recovery.Lost|recovery.Again) != 0 {
		c.recovery.inVain(c, number, p.State)
	}
	if p.Kind == recovery.Nothing {
		return false
	}
	sp := &c.tx[p.Kind]
	if !p.PSN.InWindow(sp.una, sp.outstanding()) {
		return false
	}
	rec := sp.record(p.PSN)
	if rec.state&recSacked != 0 {
		return false
	}
	sp.acknowledge(rec)
	c.delivered(1)
	return true
}

// acknowledge marks an outstanding packet as arrived.
func (s *sendSpace) acknowledge(rec *txRecord) {
	if rec.state&recLost != 0 {
		s.lost--
	} else {
		s.inFlight--
	}
	rec.state = rec.state&^(recLost|recRefused) | recSacked
	s.sacked++
}

// acknowledgeBelow takes in that everything of a space below end arrived, which the peer said otherwise than by packet numbers.
func (c *conn) acknowledgeBelow(space wire.Space, end wire.PSN) {
	sp := &c.tx[space]
	if end.Sub(sp.una) <= 0 {
		return
	}
	for psn := sp.una; psn != end; psn++ {
		if rec := sp.record(psn); rec.state&recSacked == 0 {
			sp.acknowledge(rec)
			c.delivered(1)
		}
	}
	c.advance()
}

// advance moves the oldest packet that is not acknowledged in each space, and draws conclusions for the others.
func (c *conn) advance() {
	progress := false
	for space := range c.tx {
		sp := &c.tx[space]
		from := sp.una
		for sp.una != sp.next && sp.record(sp.una).state&recSacked != 0 {
			sp.una++
			sp.sacked--
		}
		if sp.una != from {
			progress = true
			c.ackedTo(wire.Space(space), sp.una)
		}
	}
	if c.phase != phaseOpen {
		return // that was its end
	}
	c.forgetSent()
	if progress {
		c.recovery.progress(c)
		if c.hasWork() {
			c.activate()
		}
		return
	}
	c.detectLoss()
	c.activate() // a packet less in flight is room for another one
}

// ackedTo does what follows from the acknowledgement of every packet of the space below next.
func (c *conn) ackedTo(space wire.Space, next wire.PSN) {
	if space == wire.RequestSpace {
		c.paused = false // the peer took what it had dropped
		if c.blockedAt != 0 {
			c.blockedAt = c.engine.now // what went before was still under way: no fault of the peer's
			c.faultAhead(c.qp.sq.next)
		}
		c.completeRequests()
		return
	}
	for r := &c.served; r.head != r.next.seq && r.slots[r.head%maxReadLimit].lastPSN.Sub(next) < 0; r.head++ {
	}
	if c.termSent && c.termPSN.Sub(next) < 0 {
		c.termAcknowledged()
	}
}

// learntAfter is how many round trips a packet that was taken for lost is remembered, to see that it was only late.
const learntAfter = 16

// learnt says whether all is known of a transmission: it arrived, it carried nothing, or what it carried went under another number. With
// patience, one that was taken for lost is remembered for a while.
func (c *conn) learnt(number uint64, patience bool) bool {
	p := c.sent.Packet(number)
	if p.State&recovery.Acked != 0 || p.Kind == recovery.Nothing {
		return true
	}
	if p.State&(recovery.Lost|recovery.Again) != 0 {
		return !patience || c.engine.now.Sub(p.At) > learntAfter*c.rtt.smoothed
	}
	sp := &c.tx[p.Kind]
	return !p.PSN.InWindow(sp.una, sp.outstanding()) || sp.record(p.PSN).number != number
}

// forgetSent forgets the oldest transmissions of which all is known.
func (c *conn) forgetSent() {
	for n := c.sent.Floor(); n < c.sent.Passed() && c.learnt(n, true); n++ {
		c.sent.Drop()
	}
}

// makeRoom sees to it that another transmission can be remembered. When so many others followed the oldest one that nothing was learnt
// of, it counts as lost.
func (c *conn) makeRoom() {
	for c.sent.Full() {
		n := c.sent.Floor()
		if !c.learnt(n, false) {
			if len(c.sent.Ring()) == shortNumbers {
				c.sent.Grow(c.engine.pools.numbers.get()[:])
				return
			}
			p := c.sent.Packet(n)
			if rec := c.tx[p.Kind].record(p.PSN); rec.state&(recSacked|recLost) == 0 {
				c.markLost(wire.Space(p.Kind), rec)
			}
		}
		c.sent.Drop()
	}
}

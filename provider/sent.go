package provider

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"

	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// onAck takes in an ACK block whose largest number is largest. All that it names was sent.
func (c *conn) onAck(a *wire.Ack, largest uint64) {
	if a.Flags&wire.AckCE != 0 {
		c.marks.Echoed()
		c.onMarks(1)
	}
	una := c.una()
	fresh, carried := false, false
	for i := range a.N {
		low, high := largest-uint64(a.Ranges[i].Last), largest-uint64(a.Ranges[i].First)
		c.received.Confirmed(low, high)
		c.confirmTaken(low, high)
		for n := max(low, c.sent.Floor()); n <= high; n++ {
			p, was := c.sent.Acknowledge(n)
			if p == nil {
				continue
			}
			fresh = true
			if n == largest {
				c.measureTrip(p, a)
			}
			if c.arrived(n, p, was) {
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
		c.advance(una)
	case fresh:
		c.settleCopies()
		c.sent.Forget(&c.rtt, c.engine.now)
		c.detectLoss()
		if c.hasWork(c.qp.queue()) {
			c.activate() // a packet less in flight, although the peer had what was in it
		}
	}
}

// una returns the oldest place of each space that is not known to have arrived.
func (t *traffic) una() (una [wire.NumSpaces]space.Place) {
	for sp := range t.tx {
		una[sp] = t.tx[sp].Una()
	}
	return una
}

// measureTrip takes the round trip of the packet with the largest number in an ACK block, without the time that the peer held it.
func (c *conn) measureTrip(p *recovery.Packet, a *wire.Ack) {
	if a.Delay == wire.AckDelayUnknown {
		return
	}
	held := time.Duration(a.Delay) * wire.AckDelayUnit
	d := c.engine.now.Sub(p.At) - held
	c.cc.HeldByPeer(held)
	c.rtt.Sample(d)
	c.noteDelay(d, int(p.Size), a.Flags&wire.AckAway != 0)
	c.sample.Trip(d)
}

// arrived takes in that a transmission arrived, of which was had become before. It reports whether the peer has something by it that it
// was not known to have.
func (c *conn) arrived(number uint64, p *recovery.Packet, was recovery.State) (carried bool) {
	if was != 0 {
		c.arrivedInVain(number, p.At, was)
		if was&recovery.Lost != 0 {
			c.cc.Found(p.At)
		}
	}
	if p.Kind == recovery.Nothing || !c.tx[p.Kind].Arrived(p.From, p.To, int(p.Size)) {
		return false
	}
	c.delivered(int(p.Size))
	return true
}

// arrivedInVain takes in that a packet arrived whose contents were sent again. It may show that time-outs were none.
func (c *conn) arrivedInVain(number uint64, sent clock.Time, was recovery.State) {
	e := c.engine
	e.stats.Duplicates++
	if !c.loss.InVain(e.now, &c.rtt, number, sent, was) {
		return
	}
	c.runs.InTime(e.now)
	if c.cc.Undo() {
		e.stats.SpuriousTimeouts++
		e.flight.Note(e.now, FlightSpurious, c.id, 0, 0)
	}
}

// acknowledgeBelow takes in that everything of a space below end arrived, which the peer said otherwise than by packet numbers.
func (c *conn) acknowledgeBelow(kind wire.Space, end space.Place) {
	una := c.una()
	if c.tx[kind].Arrived(una[kind], end, 0) {
		c.advance(una)
	}
}

// advance draws conclusions from what arrived since the oldest places that had not were una.
func (c *conn) advance(una [wire.NumSpaces]space.Place) {
	progress := false
	for sp := range c.tx {
		if c.tx[sp].Una() != una[sp] {
			progress = true
			c.ackedTo(wire.Space(sp))
		}
	}
	if c.phase != phaseOpen {
		return // that was its end
	}
	c.settleCopies()
	c.sent.Forget(&c.rtt, c.engine.now)
	if progress {
		c.loss.Progress(c.engine.now)
		c.rtt.Progress()
		c.armTimer()
		c.detectLoss()
		if c.hasWork(c.qp.queue()) {
			c.activate()
		}
		return
	}
	c.detectLoss()
	c.activate() // a packet less in flight is room for another one
}

// settleCopies ends the wait for packets in flight when the peer has everything: what they carried arrived in others, and no timer runs for
// them.
func (t *traffic) settleCopies() {
	if t.sent.PacketsInFlight() == 0 || t.tx[0].Outstanding() || t.tx[1].Outstanding() {
		return
	}
	for n := t.sent.Oldest(); n < t.sent.Next(); n++ {
		if p := t.sent.Packet(n); p.InFlight() {
			t.sent.Mark(p, recovery.Again)
		}
	}
}

// ackedTo does what follows when more of a space has arrived.
func (c *conn) ackedTo(kind wire.Space) {
	if kind == wire.RequestSpace {
		c.paused = false // the peer took what it had dropped
		if c.ask.Waiting() {
			c.ask.Restart(c.engine.now) // what went before was still under way: no fault of the peer's
			c.faultAhead(&c.qp.sq, c.access(), c.engine.now)
		}
		c.completeRequests()
		return
	}
	c.served.acknowledge(c.tx[kind].Una())
	if c.served.termSent && !c.tx[kind].Outstanding() {
		c.termAcknowledged()
	}
}

// makeRoom sees to it that another transmission can be remembered. When so many others followed the oldest one that nothing was learnt
// of, it counts as lost.
func (c *conn) makeRoom() {
	for c.sent.Full() {
		if p := c.sent.Packet(c.sent.Floor()); p.InFlight() {
			if size := 4 * len(c.sent.Ring()); size <= maxNumbers {
				c.engine.pools.putNumbers(c.sent.Grow(c.engine.pools.getNumbers(size)))
				return
			}
			c.markLost(p)
		}
		c.sent.Drop()
	}
}

package provider

import (
	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/credit"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/wire"
)

// This file is about a SEND that finds no receive although its number was allowed (PROTOCOL §9.4): the limit of a shared
// receive queue is told to many peers, and that of an ordinary one may have been flushed meanwhile. The receiver drops the
// packet and all behind it and says RNR; the sender pauses its request space until an ACK comes without RNR.

// takeReceive finds a receive for the SEND that begins with op, because the queue pair's own queue is empty. False means
// that there is none, or that the peer had no reason to expect one.
func (c *conn) takeReceive(op *wire.Op) bool {
	srq := c.qp.srq
	if srq == nil && !c.receives.Allowed(op.Number) {
		return c.refuse(op, wire.TermProtocol)
	}
	if srq != nil && srq.dequeue(c.qp) {
		c.receives.Wait = credit.Wait{}
		return true
	}
	c.starve()
	return false
}

// starve drops the packet that is next in the request space, and all behind it: a connection that waits long must not keep receive
// frames from others.
func (c *conn) starve() {
	c.engine.stats.Drop(wire.DropNoReceive)
	if c.receives.Wait.Starve(c.engine.now) {
		c.touch()
	}
	c.receives.Withdraw()
	c.takeBack()
	c.forgetAhead()
	c.ackNow()
	if qp := c.qp; qp.srq == nil {
		// As in checkReceiveLimit: here starved is stored and then posted is read, a poster does it the other way round.
		qp.rq.starved.Store(true)
		if qp.rq.waiting() > 0 {
			qp.ring()
		}
	}
}

// forgetAhead gives up the packets that wait behind the gap in the request space. RNR tells the peer.
func (c *conn) forgetAhead() {
	n := c.rx[wire.RequestSpace].gaps.Drop(&c.engine.store)
	c.engine.stats.Drops[wire.DropNoReceive] += uint64(n)
	c.noteGaps()
}

// receivePosted tells a peer that waits when there is a receive for it now.
func (c *conn) receivePosted() {
	qp := c.qp
	if !c.receives.Wait.Unpromised() {
		return
	}
	if qp.srq == nil && qp.rq.waiting() == 0 || qp.srq != nil && !qp.srq.hasPromised(qp) {
		return
	}
	c.receives.Wait.Promise()
	c.tellReceive()
}

// tellReceive sends an ACK without RNR, and plans to do so again: it may be lost. What was told often enough goes to somebody else.
func (c *conn) tellReceive() {
	if !c.receives.Wait.Tell(c.engine.now, c.rtt.Smoothed) {
		c.endWait()
		return
	}
	c.ackNow()
	c.touch()
}

// waitDeadline is when the wait wants attention; zero is never. Only an ordinary queue has a clock (ND specification
// 11.3): with a shared one the peer waits for as long as it lives.
func (c *conn) waitDeadline() clock.Time {
	if c.receives.Wait.State() == credit.Starved && c.qp.srq != nil {
		return 0
	}
	return c.receives.Wait.Due(c.engine.cfg.NoReceive)
}

// onWaitDeadline does what is due then.
func (c *conn) onWaitDeadline() {
	if c.receives.Wait.State() == credit.Starved {
		c.terminate(wire.TermNoReceive, wire.OpSend, c.rx[wire.RequestSpace].next.Message())
		return
	}
	c.tellReceive()
}

// endWait ends the waiting. The peer's packet is looked at anew if it comes.
func (c *conn) endWait() {
	if c.receives.Wait.State() == credit.None {
		return
	}
	c.receives.Wait = credit.Wait{}
	if c.qp.srq != nil {
		c.qp.srq.leave(c.qp)
	}
}

// pause takes in RNR: nothing of the request space from the report's place on is at the peer, nothing of it was lost, all before it is
// done, and the limit counts even if more was promised before. It goes out again when a report comes without RNR. No timer runs but the
// one that asks whether the peer lives.
func (c *conn) pause(r *wire.Report) {
	sp := &c.tx[wire.RequestSpace]
	place, ok := c.place(c.qp.queue(), sp, r.Message, r.Offset)
	if !ok || place.Before(sp.Una()) || !sp.Outstanding() {
		return
	}
	c.acknowledgeBelow(wire.RequestSpace, place)
	if c.phase != phaseOpen || !sp.Outstanding() {
		return
	}
	if !c.paused {
		c.engine.stats.Pauses++
		c.engine.flight.Note(c.engine.now, FlightPause, c.id, 0, 0)
	}
	c.paused, c.hasPaused = true, true
	c.limitedBy(LimitReceive)
	for n := c.sent.Oldest(); n < c.sent.Next(); n++ {
		if p := c.sent.Packet(n); p.InFlight() && p.Kind == recovery.Requests {
			c.refused(p)
			c.sent.Mark(p, recovery.Again) // it may have come after the report
		}
	}
	if int32(r.ReceiveLimit-c.sendLimit) < 0 {
		c.sendLimit = r.ReceiveLimit
	}
	c.ask.End()
	c.rtt.Calm()
	c.loss.Forgive(c.engine.now)
	c.armTimer()
	c.detectLoss()
	c.touch()
}

// resume sends what RNR held back.
func (c *conn) resume() {
	c.paused = false
	c.loss.Restart(c.engine.now)
	c.armTimer()
	c.activate()
}

// holds says whether packets of the space have to wait although they have to be sent again.
func (r *requester) holds(space wire.Space) bool { return r.paused && space == wire.RequestSpace }

package provider

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/wire"
)

// This file is about a SEND that finds no receive although its number was allowed (PROTOCOL §9.4): the limit of a shared
// receive queue is told to many peers, and that of an ordinary one may have been flushed meanwhile. The receiver drops the
// packet and all behind it and says RNR; the sender pauses its request space until an ACK comes without RNR.

// waitState is what the receiving side does about a SEND without a receive.
type waitState uint8

const (
	waitNone     waitState = iota
	waitAsked              // the peer has used up its limit and asked for more
	waitStarved            // no receive; the peer is told RNR
	waitPromised           // there is one; the peer is told until its packet comes
)

// receiveWait is the receiving side's state.
type receiveWait struct {
	state waitState
	tries uint8      // how often the peer was told that there is a receive
	at    clock.Time // starved: since when; promised: when to tell again
}

// maxTold is how often a peer is told that there is a receive for it before that goes to somebody else: at least 100 ms in all, which a
// peer that is off its core outlasts. After that the peer asks for itself.
const maxTold = 10

// minTold is the least time until a receive is told again, and until a sender that waits for one asks: a peer that is at work answers sooner.
const minTold = 100 * time.Microsecond

// takeReceive finds a receive for the SEND that begins with op, because the queue pair's own queue is empty. False means
// that there is none, or that the peer had no reason to expect one.
func (c *conn) takeReceive(op *wire.Op) bool {
	srq := c.qp.srq
	if srq == nil && op.Number >= c.promised {
		return c.refuse(op, wire.TermProtocol)
	}
	if srq != nil && srq.dequeue(c.qp) {
		c.wait = receiveWait{}
		return true
	}
	c.starve()
	return false
}

// starve drops the packet that is next in the request space, and all behind it: a connection that waits long must not keep receive
// frames from others.
func (c *conn) starve() {
	c.engine.drop(wire.DropNoReceive)
	if c.wait.state != waitStarved {
		c.wait.state, c.wait.at = waitStarved, c.engine.now
		c.touch()
	}
	c.advertised = c.recvSend
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
	if c.wait.state != waitAsked && c.wait.state != waitStarved {
		return
	}
	if qp.srq == nil && qp.rq.waiting() == 0 || qp.srq != nil && !qp.srq.hasPromised(qp) {
		return
	}
	c.wait.state, c.wait.tries = waitPromised, 0
	c.tellReceive()
}

// peerAsked takes in a PING. A peer that has used up the limit it was told waits for the next one, which is told until it has arrived.
func (c *conn) peerAsked() {
	if c.wait.state == waitNone && c.qp != nil && c.qp.srq == nil && int32(c.advertised-c.recvSend) <= 0 {
		c.wait.state = waitAsked
	}
}

// tellReceive sends an ACK without RNR, and plans to do so again: it may be lost.
func (c *conn) tellReceive() {
	gap := max(c.rtt.smoothed+c.rtt.smoothed/2, minTold) << c.wait.tries
	c.wait.tries++
	c.wait.at = c.engine.now.Add(min(gap, maxRTO))
	c.ackNow()
	c.touch()
}

// waitDeadline is when the wait wants attention; zero is never. Only an ordinary queue has a clock (ND specification
// 11.3): with a shared one the peer waits for as long as it lives.
func (c *conn) waitDeadline() clock.Time {
	switch {
	case c.wait.state == waitPromised:
		return c.wait.at
	case c.wait.state == waitStarved && c.qp.srq == nil:
		return c.wait.at.Add(c.engine.cfg.NoReceive)
	}
	return 0
}

// onWaitDeadline does what is due then.
func (c *conn) onWaitDeadline() {
	switch {
	case c.wait.state == waitStarved:
		c.terminate(wire.TermNoReceive, wire.OpSend, c.rx[wire.RequestSpace].next.Message())
	case c.wait.tries < maxTold:
		c.tellReceive()
	default:
		c.endWait()
	}
}

// endWait ends the waiting. The peer's packet is looked at anew if it comes.
func (c *conn) endWait() {
	if c.wait.state == waitNone {
		return
	}
	c.wait = receiveWait{}
	if c.qp.srq != nil {
		c.qp.srq.leave(c.qp)
	}
}

// pause takes in RNR: nothing of the request space from the report's place on is at the peer, nothing of it was lost, all before it is
// done, and the limit counts even if more was promised before. It goes out again when a report comes without RNR. No timer runs but the
// one that asks whether the peer lives.
func (c *conn) pause(r *wire.Report) {
	sp := &c.tx[wire.RequestSpace]
	place, ok := c.requestPlace(r.Message, r.Offset)
	if !ok || place.Before(sp.Una()) || !sp.Outstanding() {
		return
	}
	c.acknowledgeBelow(wire.RequestSpace, place)
	if c.phase != phaseOpen || !sp.Outstanding() {
		return
	}
	if !c.paused {
		c.engine.stats.Pauses++
		c.engine.note(FlightPause, c.id, 0, 0)
	}
	c.paused, c.hasPaused = true, true
	c.limitedBy(LimitReceive)
	for n := c.sent.Oldest(); n < c.sent.Next(); n++ {
		if p := c.sent.Packet(n); p.State == 0 && p.Kind == recovery.Requests {
			c.refused(p)
			c.sent.Mark(p, recovery.Again) // it may have come after the report
		}
	}
	if int32(r.ReceiveLimit-c.sendLimit) < 0 {
		c.sendLimit = r.ReceiveLimit
	}
	c.blockedAt = 0
	c.rtt.backoff = 0
	l := &c.recovery
	l.timedOut, l.progressAt = 0, c.engine.now
	l.probed, l.expiries = false, 0
	l.arm(c)
	c.detectLoss()
	c.touch()
}

// resume sends what RNR held back.
func (c *conn) resume() {
	c.paused = false
	c.recovery.progressAt = c.engine.now
	c.recovery.arm(c)
	c.activate()
}

// holds says whether packets of the space have to wait although they have to be sent again.
func (c *conn) holds(space wire.Space) bool { return c.paused && space == wire.RequestSpace }

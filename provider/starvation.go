package provider

import (
	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/credit"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/wire"
)

// This file handles a SEND that finds no receive although its number was allowed (PROTOCOL §9.4). The limit of a shared receive queue
// is told to many peers, and the receives of an ordinary queue may have been flushed meanwhile. The receiver drops the packet and all
// later ones and sends RNR; the sender pauses its request space until an ACK arrives without RNR.

// takeReceive finds a receive for the SEND that begins with op, because the queue pair's own queue is empty. False means
// that there is none, or that the peer had no reason to expect one.
func (t *traffic) takeReceive(op *wire.Op) bool {
	srq := t.conn.qp.srq
	if srq == nil && !t.conn.receives.Allowed(op.Number) {
		return t.refuse(op, wire.TermProtocol)
	}
	if srq != nil && srq.dequeue(t.conn.qp) {
		t.conn.receives.Wait = credit.Wait{}
		return true
	}
	t.received.starve()
	return false
}

// starve drops the packet that is next in the request space, and all behind it: a connection that waits long must not keep receive
// frames from others.
func (r *receivedState) starve() {
	r.engine.stats.Drop(wire.DropNoReceive)
	if r.conn.receives.Wait.Starve(r.engine.now) {
		r.conn.want(wantLook)
	}
	r.conn.receives.Withdraw()
	r.takeBack()
	r.forgetAhead()
	r.ackNow()
	if qp := r.conn.qp; qp.srq == nil {
		// As in checkReceiveLimit: here starved is stored and then posted is read. A poster stores posted and then reads starved.
		qp.rq.starved.Store(true)
		if qp.rq.waiting() > 0 {
			qp.Push()
		}
	}
}

// forgetAhead gives up the packets that wait behind the gap in the request space. RNR tells the peer.
func (r *receivedState) forgetAhead() {
	n := r.spaces[wire.RequestSpace].gaps.Drop(&r.engine.store)
	r.engine.stats.Drops[wire.DropNoReceive] += uint64(n)
	r.spaces[wire.RequestSpace].noteGaps(r.engine.now)
}

// promise reports whether a peer that waits is to be told that there is a receive for it now.
func (c *conn) promise() bool {
	qp := c.qp
	if !c.receives.Wait.Unpromised() {
		return false
	}
	if qp.srq == nil && qp.rq.waiting() == 0 || qp.srq != nil && !qp.srq.hasPromised(qp) {
		return false
	}
	c.receives.Wait.Promise()
	return true
}

// tellReceive sends an ACK without RNR, and schedules it again, because it may be lost. A receive that was offered often enough goes to
// another queue pair. If the ACK may not be sent, it counts as lost.
func (r *receivedState) tellReceive(may bool) {
	if !r.conn.receives.Wait.Tell(r.engine.now, r.conn.rtt.Smoothed) {
		r.conn.endWait()
		return
	}
	if may {
		r.ackNow()
	}
	r.conn.want(wantLook)
}

// waitDeadline returns when the wait wants attention; zero is never. Only an ordinary queue has a clock (ND specification
// 11.3): with a shared one the peer waits for as long as it lives.
func (r *receivedState) waitDeadline() clock.Time {
	if r.conn.receives.Wait.State() == credit.Starved && r.conn.qp.srq != nil {
		return 0
	}
	return r.conn.receives.Wait.Due(noReceive)
}

// onWaitDeadline does what is due then. may says that the source of the peer may be told of a receive again now.
func (t *traffic) onWaitDeadline(may bool) {
	if t.conn.receives.Wait.State() == credit.Starved {
		t.terminate(wire.TermNoReceive, wire.OpSend, t.received.spaces[wire.RequestSpace].next.Message())
		return
	}
	t.received.tellReceive(may)
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

// pause handles RNR. Nothing of the request space from the report's offset on is at the peer, but nothing was lost. Everything before
// the offset is done. The limit is valid even if a higher one was promised before. The contents are sent again when a report arrives
// without RNR. Until then only the liveness timer runs.
func (t *traffic) pause(m *wire.Report) {
	sp := &t.sent.spaces[wire.RequestSpace]
	place, ok := t.requests.place(t.conn.qp.queue(), sp, m.Message, m.Offset)
	if !ok || place.Before(sp.Una()) || !sp.Outstanding() {
		return
	}
	t.acknowledgeBelow(wire.RequestSpace, place)
	if t.conn.faulted != faultNone || !sp.Outstanding() {
		return
	}
	if !t.sent.paused {
		t.engine.stats.Pauses++
		t.engine.flight.Note(t.engine.now, FlightPause, t.conn.identity.id, 0, 0)
	}
	t.sent.paused, t.requests.hasPaused = true, true
	t.limitedBy(LimitReceive)
	for n := t.sent.packets.Oldest(); n < t.sent.packets.Next(); n++ {
		if p := t.sent.packets.Packet(n); p.InFlight() && p.Kind == recovery.Requests {
			t.sent.refused(p)
			t.sent.packets.Mark(p, recovery.Again) // it may have come after the report
		}
	}
	t.requests.numbers.sendLimit = credit.Lower(t.requests.numbers.sendLimit, t.requests.numbers.nextSend, m.ReceiveLimit)
	t.requests.ask.End()
	t.conn.rtt.Calm()
	t.sent.loss.Forgive(t.engine.now)
	t.sent.armTimer()
	t.sent.detectLoss()
	t.conn.want(wantLook)
}

// resume sends what RNR held back.
func (t *traffic) resume() {
	t.sent.paused = false
	t.sent.loss.Restart(t.engine.now)
	t.sent.armTimer()
	t.conn.want(wantTurn)
}

// holds reports whether packets of the space have to wait although they have to be sent again.
func (s *sentState) holds(space wire.Space) bool { return s.paused && space == wire.RequestSpace }

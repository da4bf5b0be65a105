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
	srq := t.qp.srq
	if srq == nil && !t.receives.Allowed(op.Number) {
		return t.refuse(op, wire.TermProtocol)
	}
	if srq != nil && srq.dequeue(t.qp) {
		t.receives.Wait = credit.Wait{}
		return true
	}
	t.starve()
	return false
}

// starve drops the packet that is next in the request space, and all behind it: a connection that waits long must not keep receive
// frames from others.
func (r *receiving) starve() {
	r.stats.Drop(wire.DropNoReceive)
	if r.receives.Wait.Starve(r.now) {
		r.want(wantLook)
	}
	r.receives.Withdraw()
	r.takeBack()
	r.forgetAhead()
	r.ackNow()
	if qp := r.qp; qp.srq == nil {
		// As in checkReceiveLimit: here starved is stored and then posted is read. A poster stores posted and then reads starved.
		qp.rq.starved.Store(true)
		if qp.rq.waiting() > 0 {
			qp.Push()
		}
	}
}

// forgetAhead gives up the packets that wait behind the gap in the request space. RNR tells the peer.
func (r *receiving) forgetAhead() {
	n := r.rx[wire.RequestSpace].gaps.Drop(&r.store)
	r.stats.Drops[wire.DropNoReceive] += uint64(n)
	r.rx[wire.RequestSpace].noteGaps(r.now)
}

// promise reports whether a peer that waits is to be told that there is a receive for it now.
func (l *lasting) promise() bool {
	qp := l.qp
	if !l.receives.Wait.Unpromised() {
		return false
	}
	if qp.srq == nil && qp.rq.waiting() == 0 || qp.srq != nil && !qp.srq.hasPromised(qp) {
		return false
	}
	l.receives.Wait.Promise()
	return true
}

// tellReceive sends an ACK without RNR, and schedules it again, because it may be lost. A receive that was offered often enough goes to
// another queue pair. If the ACK may not be sent, it counts as lost.
func (r *receiving) tellReceive(may bool) {
	if !r.receives.Wait.Tell(r.now, r.rtt.Smoothed) {
		r.endWait()
		return
	}
	if may {
		r.ackNow()
	}
	r.want(wantLook)
}

// waitDeadline returns when the wait wants attention; zero is never. Only an ordinary queue has a clock (ND specification
// 11.3): with a shared one the peer waits for as long as it lives.
func (r *receiving) waitDeadline() clock.Time {
	if r.receives.Wait.State() == credit.Starved && r.qp.srq != nil {
		return 0
	}
	return r.receives.Wait.Due(noReceive)
}

// onWaitDeadline does what is due then. may says that the source of the peer may be told of a receive again now.
func (t *traffic) onWaitDeadline(may bool) {
	if t.receives.Wait.State() == credit.Starved {
		t.terminate(wire.TermNoReceive, wire.OpSend, t.rx[wire.RequestSpace].next.Message())
		return
	}
	t.tellReceive(may)
}

// endWait ends the waiting. The peer's packet is looked at anew if it comes.
func (l *lasting) endWait() {
	if l.receives.Wait.State() == credit.None {
		return
	}
	l.receives.Wait = credit.Wait{}
	if l.qp.srq != nil {
		l.qp.srq.leave(l.qp)
	}
}

// pause handles RNR. Nothing of the request space from the report's offset on is at the peer, but nothing was lost. Everything before
// the offset is done. The limit is valid even if a higher one was promised before. The contents are sent again when a report arrives
// without RNR. Until then only the liveness timer runs.
func (r *repeater) pause(m *wire.Report) {
	sp := &r.tx[wire.RequestSpace]
	place, ok := r.place(r.qp.queue(), sp, m.Message, m.Offset)
	if !ok || place.Before(sp.Una()) || !sp.Outstanding() {
		return
	}
	r.acknowledgeBelow(wire.RequestSpace, place)
	if r.faulted != faultNone || !sp.Outstanding() {
		return
	}
	if !r.paused {
		r.stats.Pauses++
		r.flight.Note(r.now, FlightPause, r.identity.id, 0, 0)
	}
	r.paused, r.hasPaused = true, true
	r.limitedBy(LimitReceive)
	for n := r.sent.Oldest(); n < r.sent.Next(); n++ {
		if p := r.sent.Packet(n); p.InFlight() && p.Kind == recovery.Requests {
			r.refused(p)
			r.sent.Mark(p, recovery.Again) // it may have come after the report
		}
	}
	r.requestNumbers.sendLimit = credit.Lower(r.requestNumbers.sendLimit, r.requestNumbers.nextSend, m.ReceiveLimit)
	r.ask.End()
	r.rtt.Calm()
	r.loss.Forgive(r.now)
	r.armTimer()
	r.detectLoss()
	r.want(wantLook)
}

// resume sends what RNR held back.
func (r *repeater) resume() {
	r.paused = false
	r.loss.Restart(r.now)
	r.armTimer()
	r.want(wantTurn)
}

// holds reports whether packets of the space have to wait although they have to be sent again.
func (t *transmitted) holds(space wire.Space) bool { return t.paused && space == wire.RequestSpace }

package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/congestion"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/wire"
)

// This file is when connections acknowledge, and what they tell of their receives. The decisions are in packages recovery and credit.

// noteAccepted is called for every packet accepted in order, and decides when it is acknowledged (PROTOCOL §9.2). asked is the ACKREQ flag, gap that a gap closed.
func (r *receiving) noteAccepted(asked, gap bool) {
	e := r.environment
	at := e.now.Add(ackDelay)
	if r.woke {
		at, r.woke = e.now.Add(max(ackDelay, recovery.AnswerTime)), false
	}
	switch r.ack.Accepted(asked, gap, e.received.Load() > congestion.LoadHigh, e.cfg.AckEvery, at) {
	case recovery.AckDelayed:
		r.want(wantLook)
	case recovery.AckSoon, recovery.AckAtOnce:
		r.want(wantAck)
	case recovery.AckNone:
	}
}

// noteMark takes in whether a new packet was marked by a router. The peer hears of a change at once, so that it counts
// right (RFC 8257 §3.2).
func (r *receiving) noteMark(marked bool) {
	several, changed := r.marks.Came(marked)
	if several {
		r.ack.ExplainLater()
	}
	if changed {
		r.ackNow()
	}
}

// ackNow makes a whole ACK go out at the end of this turn.
func (r *receiving) ackNow() {
	r.ack.Explain()
	r.want(wantAck)
}

// raise makes an acknowledgement go out no later than so.
func (r *receiving) raise(u recovery.Urgency) {
	r.ack.Raise(u)
	r.want(wantAck)
}

// sendAck sends a packet of blocks alone (PROTOCOL §9.2).
func (o *outbound) sendAck() bool {
	e := o.environment
	if !o.beginControl(wire.BaseHeaderLen+wire.MaxBlocksLen, true) {
		e.out.Starve()
		return false
	}
	o.ack.Said()
	e.stats.AcksOut++
	o.sealControl()
	return true
}

// receiveLimit is the first SEND number the peer may not use yet.
func (l *lasting) receiveLimit() uint32 {
	switch qp := l.qp; {
	case qp == nil:
		return l.receives.Told()
	case qp.srq == nil:
		return l.receives.Limit(qp.rq.waiting())
	default:
		return l.receives.SharedLimit(qp.rq.waiting(), qp.srq.free.Load())
	}
}

// runsShort says whether the peer is to hear of a new limit without being asked. A poster sees that the peer has none left.
func (l *lasting) runsShort() bool {
	l.qp.rq.starved.Store(l.receives.Left() <= 0)
	return l.receives.Short(l.receiveLimit())
}

// checkReceiveLimit tells the peer about new receives when it is running short.
func (r *receiving) checkReceiveLimit() {
	if r.runsShort() {
		r.ackNow()
	}
}

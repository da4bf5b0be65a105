package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/congestion"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/wire"
)

// This file is when connections acknowledge, and what they tell of their receives. The decisions are in packages recovery and credit.

// noteAccepted is called for every packet accepted in order, and decides when it is acknowledged (PROTOCOL §9.2). asked is the ACKREQ flag, gap that a gap closed.
func (r *receivedState) noteAccepted(asked, gap bool) {
	e := r.engine
	at := e.now.Add(ackDelay)
	if r.woke {
		at, r.woke = e.now.Add(max(ackDelay, recovery.AnswerTime)), false
	}
	switch r.ack.Accepted(asked, gap, e.received.Load() > congestion.LoadHigh, e.cfg.AckEvery, at) {
	case recovery.AckDelayed:
		r.conn.want(wantLook)
	case recovery.AckSoon, recovery.AckAtOnce:
		r.conn.want(wantAck)
	case recovery.AckNone:
	}
}

// noteMark takes in whether a new packet was marked by a router. The peer hears of a change at once, so that it counts
// right (RFC 8257 §3.2).
func (r *receivedState) noteMark(marked bool) {
	several, changed := r.conn.marks.Came(marked)
	if several {
		r.ack.ExplainLater()
	}
	if changed {
		r.ackNow()
	}
}

// ackNow makes a whole ACK go out at the end of this turn.
func (r *receivedState) ackNow() {
	r.ack.Explain()
	r.conn.want(wantAck)
}

// raise makes an acknowledgement go out no later than so.
func (r *receivedState) raise(u recovery.Urgency) {
	r.ack.Raise(u)
	r.conn.want(wantAck)
}

// sendAck sends a packet of blocks alone (PROTOCOL §9.2).
func (t *traffic) sendAck() bool {
	e := t.engine
	if !t.beginControl(wire.BaseHeaderLen+wire.MaxBlocksLen, true) {
		e.out.Starve()
		return false
	}
	t.received.ack.Said()
	e.stats.AcksOut++
	t.sealControl()
	return true
}

// receiveLimit is the first SEND number the peer may not use yet.
func (c *conn) receiveLimit() uint32 {
	switch qp := c.qp; {
	case qp == nil:
		return c.receives.Told()
	case qp.srq == nil:
		return c.receives.Limit(qp.rq.waiting())
	default:
		return c.receives.SharedLimit(qp.rq.waiting(), qp.srq.free.Load())
	}
}

// runsShort says whether the peer is to hear of a new limit without being asked. A poster sees that the peer has none left.
func (c *conn) runsShort() bool {
	c.qp.rq.starved.Store(c.receives.Left() <= 0)
	return c.receives.Short(c.receiveLimit())
}

// checkReceiveLimit tells the peer about new receives when it is running short.
func (r *receivedState) checkReceiveLimit() {
	if r.conn.runsShort() {
		r.ackNow()
	}
}

package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/congestion"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/wire"
)

// This file is when connections acknowledge, and what they tell of their receives. The decisions are in packages recovery and credit.

// noteAccepted is called for every packet accepted in order, and decides when it is acknowledged (PROTOCOL §9.2). asked is the ACKREQ flag, gap that a gap closed.
func (c *conn) noteAccepted(asked, gap bool) {
	e := c.engine
	switch c.ack.Accepted(asked, gap, e.received.Load() > congestion.LoadHigh, e.cfg.AckEvery, e.now.Add(e.cfg.AckDelay)) {
	case recovery.AckDelayed:
		c.touch()
	case recovery.AckSoon, recovery.AckAtOnce:
		c.engine.acks.join(c)
	case recovery.AckNone:
	}
}

// noteMark takes in whether a new packet was marked by a router. The peer hears of a change at once, so that it counts
// right (RFC 8257 §3.2).
func (c *conn) noteMark(marked bool) {
	several, changed := c.marks.Came(marked)
	if several {
		c.ack.ExplainLater()
	}
	if changed {
		c.ackNow()
	}
}

// ackNow makes a whole ACK go out at the end of this turn.
func (c *conn) ackNow() {
	c.leaveIdle()
	c.ack.Explain()
	c.engine.acks.join(c)
}

// raise makes an acknowledgement go out no later than so.
func (c *conn) raise(u recovery.Urgency) {
	c.ack.Raise(u)
	c.engine.acks.join(c)
}

// sendAck sends a packet of blocks alone (PROTOCOL §9.2).
func (c *conn) sendAck() bool {
	e := c.engine
	if !c.beginControl(wire.BaseHeaderLen+wire.MaxBlocksLen, true) {
		e.out.Starve()
		return false
	}
	c.ack.Said()
	e.stats.AcksOut++
	c.sealControl()
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

// checkReceiveLimit tells the peer about new receives when it is running short.
func (c *conn) checkReceiveLimit() {
	c.qp.rq.starved.Store(c.receives.Left() <= 0)
	if c.receives.Short(c.receiveLimit()) {
		c.ackNow()
	}
}

package provider

import "github.com/ndxdp/ndxdp/wire"

// This file answers why a connection does not send more. The answer is looked for when the scheduler has served the
// connection, which is the only place where it stops sending, and time is charged when the answer changes: nothing is done
// for a packet, and no clock is read.

// limitedBy notes what holds the connection back from now on.
func (c *conn) limitedBy(by Limit) {
	if c.phase == phaseOpen {
		c.limitTimes.Note(c.engine.now, by, &c.engine.limitTotals)
	}
}

// limit is what holds the connection back. Nothing is under way on an idle one, whose traffic is nil.
func (t *traffic) limit() Limit {
	if t == nil {
		return LimitApplication
	}
	return t.limitTimes.By()
}

// noteLimit finds out what holds the connection back, after it was served. again says that it could send more at once.
func (c *conn) noteLimit(again bool) {
	by := LimitApplication
	switch {
	case again && c.engine.out.Starved():
		by = LimitRing
	case again:
		by = LimitCPU
	case c.paused:
		by = LimitReceive
	case c.tx[0].HasAgain() || c.tx[1].HasAgain() || c.served.unsent(c.tx[wire.ResponseSpace].Next()):
		by = c.packetLimit()
	case c.requesting() && c.qp.sq.next != c.qp.sq.posted.Load():
		by = c.requestLimit()
	}
	c.limitedBy(by)
}

// requestLimit is what the next request waits for.
func (c *conn) requestLimit() Limit {
	q := &c.qp.sq
	wr := q.wr(q.next)
	if q.off == 0 && wr.kind.Local() {
		return LimitApplication
	}
	switch c.hold(q, q.at(), c.cc.Window) {
	case holdFence, holdReads:
		return LimitRead
	case holdWindow:
		return c.windowLimit()
	case holdReceive:
		return LimitReceive
	case holdNone, holdNothing, holdEarlier:
	}
	return c.packetLimit()
}

// packetLimit is what the next packet waits for.
func (c *conn) packetLimit() Limit {
	cc := &c.cc
	switch {
	case cc.Full(c.sent.InFlight(), c.engine.now):
		return c.windowLimit()
	case c.sent.InFlight()+max(c.tx[0].Beyond(), c.tx[1].Beyond()) >= int(c.peerWindow):
		return LimitEndpoint
	case c.hasPaused && c.tx[wire.RequestSpace].HasAgain():
		return LimitReceive // what RNR took back is not allowed yet
	}
	return LimitApplication // posted since we looked
}

// windowLimit is whose window is the least.
func (c *conn) windowLimit() Limit {
	if c.cc.LimitedByEndpoint() {
		return LimitEndpoint
	}
	return LimitFabric
}

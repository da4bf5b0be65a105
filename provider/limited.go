package provider

import (
	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

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
		by = c.packetLimit(c.peerWindow, c.engine.now)
	case c.requesting() && c.qp.sq.next != c.qp.sq.posted.Load():
		by = c.requestLimit(&c.qp.sq, c.peerWindow, c.engine.now)
	}
	c.limitedBy(by)
}

// requestLimit is what the next request of a queue waits for, when the peer holds so many bytes behind a gap.
func (t *traffic) requestLimit(q *initiatorQueue, peer uint32, now clock.Time) Limit {
	wr := q.wr(q.next)
	if q.off == 0 && wr.kind.Local() {
		return LimitApplication
	}
	switch t.hold(q, q.at(), t.cc.Window) {
	case holdFence, holdReads:
		return LimitRead
	case holdWindow:
		return t.windowLimit()
	case holdReceive:
		return LimitReceive
	case holdNone, holdNothing, holdEarlier:
	}
	return t.packetLimit(peer, now)
}

// packetLimit is what the next packet waits for.
func (t *traffic) packetLimit(peer uint32, now clock.Time) Limit {
	switch {
	case t.cc.Full(t.sent.InFlight(), now):
		return t.windowLimit()
	case t.sent.InFlight()+max(t.tx[0].Beyond(), t.tx[1].Beyond()) >= int(peer):
		return LimitEndpoint
	case t.hasPaused && t.tx[wire.RequestSpace].HasAgain():
		return LimitReceive // what RNR took back is not allowed yet
	}
	return LimitApplication // posted since we looked
}

// windowLimit is whose window is the least.
func (t *traffic) windowLimit() Limit {
	if t.cc.LimitedByEndpoint() {
		return LimitEndpoint
	}
	return LimitFabric
}

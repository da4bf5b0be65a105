package provider

import (
	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

// This file records why a connection does not send more. The reason is determined after the scheduler has served the
// connection, which is the only place where it stops sending. Time is charged when the reason changes. Nothing happens for
// each packet, and no clock is read.

// limitedBy notes what holds the connection back from now on.
func (t *traffic) limitedBy(by Limit) {
	if t.conn.phase == phaseOpen {
		t.limitTimes.Note(t.engine.now, by, &t.engine.limitTotals)
	}
}

// limit returns what holds the connection back. Nothing is under way on an idle one, whose traffic is nil.
func (t *traffic) limit() Limit {
	if t == nil {
		return LimitApplication
	}
	return t.limitTimes.By()
}

// noteLimit finds out what holds the connection back, after it was served. again says that it could send more at once.
func (t *traffic) noteLimit(again bool) {
	by := LimitApplication
	switch {
	case again && t.engine.out.Starved():
		by = LimitRing
	case again:
		by = LimitCPU
	case t.sent.paused:
		by = LimitReceive
	case t.sent.spaces[0].HasAgain() || t.sent.spaces[1].HasAgain() || t.served.Unsent(t.sent.spaces[wire.ResponseSpace].Next()):
		by = t.packetLimit(t.conn.peerWindow, t.engine.now)
	case t.requesting() && t.conn.qp.sq.next != t.conn.qp.sq.posted.Load():
		by = t.requestLimit(&t.conn.qp.sq, t.conn.peerWindow, t.engine.now)
	}
	t.limitedBy(by)
}

// requestLimit returns what the next request of a queue waits for, when the peer holds so many bytes behind a gap.
func (t *traffic) requestLimit(q *initiatorQueue, peer uint32, now clock.Time) Limit {
	wr := q.wr(q.next)
	if q.off == 0 && wr.kind.Local() {
		return LimitApplication
	}
	switch t.requests.hold(q, q.at(), t.sent.cc.Window) {
	case holdFence, holdReads:
		return LimitRead
	case holdWindow:
		return t.sent.windowLimit()
	case holdReceive:
		return LimitReceive
	case holdNone, holdNothing, holdEarlier:
	}
	return t.packetLimit(peer, now)
}

// packetLimit returns what the next packet waits for.
func (t *traffic) packetLimit(peer uint32, now clock.Time) Limit {
	switch {
	case t.sent.cc.Full(t.sent.packets.InFlight(), now):
		return t.sent.windowLimit()
	case t.sent.packets.InFlight()+max(t.sent.spaces[0].Beyond(), t.sent.spaces[1].Beyond()) >= int(peer):
		return LimitEndpoint
	case t.requests.hasPaused && t.sent.spaces[wire.RequestSpace].HasAgain():
		return LimitReceive // what RNR took back is not allowed yet
	}
	return LimitApplication // posted since we looked
}

// windowLimit is whose window is the least.
func (s *sentState) windowLimit() Limit {
	if s.cc.LimitedByEndpoint() {
		return LimitEndpoint
	}
	return LimitFabric
}

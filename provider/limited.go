package provider

import (
	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

// This file records why a connection does not send more. The reason is determined after the scheduler has served the
// connection, which is the only place where it stops sending. Time is charged when the reason changes. Nothing happens for
// each packet, and no clock is read.

// limitedBy notes what holds the connection back from now on.
func (s *sender) limitedBy(by Limit) {
	if s.phase == phaseOpen {
		s.limitTimes.Note(s.now, by, &s.limitTotals)
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
func (s *sender) noteLimit(again bool) {
	by := LimitApplication
	switch {
	case again && s.out.Starved():
		by = LimitRing
	case again:
		by = LimitCPU
	case s.paused:
		by = LimitReceive
	case s.tx[0].HasAgain() || s.tx[1].HasAgain() || s.served.Unsent(s.tx[wire.ResponseSpace].Next()):
		by = s.packetLimit(s.peerWindow, s.now)
	case s.requesting() && s.qp.sq.next != s.qp.sq.posted.Load():
		by = s.requestLimit(&s.qp.sq, s.peerWindow, s.now)
	}
	s.limitedBy(by)
}

// requestLimit returns what the next request of a queue waits for, when the peer holds so many bytes behind a gap.
func (s *sender) requestLimit(q *initiatorQueue, peer uint32, now clock.Time) Limit {
	wr := q.wr(q.next)
	if q.off == 0 && wr.kind.Local() {
		return LimitApplication
	}
	switch s.hold(q, q.at(), s.cc.Window) {
	case holdFence, holdReads:
		return LimitRead
	case holdWindow:
		return s.windowLimit()
	case holdReceive:
		return LimitReceive
	case holdNone, holdNothing, holdEarlier:
	}
	return s.packetLimit(peer, now)
}

// packetLimit returns what the next packet waits for.
func (s *sender) packetLimit(peer uint32, now clock.Time) Limit {
	switch {
	case s.cc.Full(s.sent.InFlight(), now):
		return s.windowLimit()
	case s.sent.InFlight()+max(s.tx[0].Beyond(), s.tx[1].Beyond()) >= int(peer):
		return LimitEndpoint
	case s.hasPaused && s.tx[wire.RequestSpace].HasAgain():
		return LimitReceive // what RNR took back is not allowed yet
	}
	return LimitApplication // posted since we looked
}

// windowLimit is whose window is the least.
func (t *transmitted) windowLimit() Limit {
	if t.cc.LimitedByEndpoint() {
		return LimitEndpoint
	}
	return LimitFabric
}

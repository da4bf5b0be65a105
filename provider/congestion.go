package provider

import (
	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/congestion"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/provider/internal/turn"
	"github.com/ndxdp/ndxdp/wire"
)

// This file is where connections meet congestion control: what they tell it, and what it lets them do.

// Control names a congestion controller.
type Control uint8

// The controllers.
const (
	// ControlDelay keeps the round trip near a target and reacts to loss and marks.
	ControlDelay Control = iota
	// ControlFixed keeps Config.FixedWindow packets in flight whatever happens: for finding out what the controller costs.
	ControlFixed
)

// newController makes the controller that the configuration names.
func newController(cfg *Config) congestion.Control {
	if cfg.Control == ControlFixed {
		return &congestion.Fixed{Packets: cfg.FixedWindow}
	}
	return &congestion.Delay{DataCenter: cfg.DataCenter}
}

// noteFull notes that a packet has to wait if no window of either space has room beside the packets in flight and a packet of leaving bytes
// that is about to leave. It then sets the timer of pacing or of a silence.
func (s *sentState) noteFull(leaving int) {
	now, inFlight := s.engine.now, s.packets.InFlight()+leaving
	if !s.cc.Full(inFlight, now) {
		return
	}
	s.cc.Held(now)
	at := s.cc.PacedUntil(now)
	if inFlight > 0 {
		at = s.cc.GrantAt(now)
	}
	if at != 0 && s.pacedUntil != at {
		s.pacedUntil = at
		s.conn.want(wantLook)
	}
}

// delivered notes that packets of n bytes reached the peer, or that it answered with n bytes.
func (s *sentState) delivered(n int) {
	s.cc.Delivered(n)
	s.conn.want(wantVerdict)
}

// noteDelay handles the round trip of a packet of so many bytes. If one of the peers was descheduled during the round trip, the measurement
// is ignored.
func (s *sentState) noteDelay(trip turn.Trip, bytes int, away bool) {
	if took := trip.Took(); took <= 0 || took > recovery.MaxSample || away {
		return
	}
	if d, ok := s.engine.turns.Network(trip, s.conn.rtt.Min, s.engine.now); ok {
		s.cc.Sample(d, bytes, trip.Left)
		s.conn.want(wantVerdict)
	}
}

// noteECN records that the connection ceased or began to send packets that can be marked.
func (s *sentState) noteECN() {
	if change := s.conn.ecn.Tell(); change != recovery.ECNSame {
		s.engine.flight.Note(s.engine.now, FlightECN, s.conn.identity.id, uint32(change), 0)
	}
}

// onMarks records that n of our packets were marked by a router.
func (s *sentState) onMarks(n int) {
	s.engine.stats.Marked += uint64(n)
	if s.conn.ecn.Marked(n) {
		s.cc.Marked(n)
		s.conn.want(wantVerdict)
	}
}

// The functions below record why a connection does not send more. The reason is determined after the scheduler has served the
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

package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/congestion"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/provider/internal/turn"
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

package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// armTimer sets the timer for what the peer owes us.
func (t *transmitted) armTimer() {
	owed := t.unacknowledged()
	t.loss.Arm(t.now, &t.rtt, t.cfg.MinRTO, owed)
	if owed {
		t.want(wantLook)
	}
}

// unacknowledged says whether the peer has something left to acknowledge.
func (t *transmitted) unacknowledged() bool {
	return t.tx[0].Outstanding() && !t.paused || t.tx[1].Outstanding()
}

// detectLoss marks lost what has to count as that by now, and sets the timer for what is suspected.
func (t *transmitted) detectLoss() {
	for p := t.loss.Lost(&t.sent, &t.rtt, t.now); p != nil; p = t.loss.Lost(&t.sent, &t.rtt, t.now) {
		t.markLost(p)
	}
	if t.loss.ReorderAt() != 0 {
		t.want(wantLook)
	}
}

// markLost takes a transmission in flight for lost: what it carried goes again.
func (t *transmitted) markLost(p *recovery.Packet) {
	e := t.environment
	t.sent.Mark(p, recovery.Lost)
	t.countLoss(p)
	t.tx[p.Kind].Missing(space.Piece{From: p.From, To: p.To, Losses: p.Losses})
	e.stats.PacketsLost++
	e.flight.Note(e.now, FlightLoss, t.id, 0, uint32(p.Kind))
	t.cc.Lost(int(p.Size), p.At)
	t.want(wantVerdict)
	t.want(wantTurn)
}

// expire handles the probe or retransmission timer. It returns what that means; after a time-out repeatOldest follows, perhaps on another path.
func (s *sender) expire() recovery.Verdict {
	e := s.environment
	verdict := s.loss.Expire(e.now, s.sent.Next(), e.cfg.DeadPeer)
	if verdict == recovery.SendProbe {
		e.stats.Probes++
		e.flight.Note(e.now, FlightProbe, s.id, 0, 0)
		for kind := range s.tx {
			s.resendNewest(wire.Space(kind))
		}
		s.armTimer()
		return verdict
	}
	times := s.loss.Expiries()
	e.stats.Timeouts++
	e.flight.Note(e.now, FlightTimeout, s.id, uint32(times), 0)
	if verdict == recovery.PeerDead {
		return verdict
	}
	if times == maxMarkable && s.rtt.Fresh() {
		s.ecn = wire.NotECT
	}
	if times == 1 && s.joins && s.runs.TimedOut(e.now) {
		e.stats.RunsPaused++
	}
	s.cc.TimedOut(e.controller, s.rtt.Smoothed)
	s.rtt.Expired()
	return verdict
}

// repeatOldest sends the oldest of each space again, after a time-out.
func (s *sender) repeatOldest() {
	for kind := range s.tx {
		if s.tx[kind].Outstanding() && !s.holds(wire.Space(kind)) {
			s.resendOldest(wire.Space(kind))
		}
	}
	s.armTimer()
}

// maxMarkable time-outs in a row, before any data arrived, mean that the path may lose packets that can be marked
// (RFC 9000 §13.4.2.1): they go on as others.
const maxMarkable = 3

// resendNewest sends the newest packet of a space that is in flight again, asking for an acknowledgement.
func (s *sender) resendNewest(kind wire.Space) {
	for n := s.sent.Next(); n > s.sent.Oldest(); {
		n--
		if p := s.sent.Packet(n); p.InFlight() && p.Kind == recovery.Kind(kind) {
			if s.resendInFlight(n, &s.stats.ResentProbe) {
				return
			}
		}
	}
}

// resendOldest sends the oldest that is missing of a space again, asking for an acknowledgement.
func (s *sender) resendOldest(kind wire.Space) {
	cause := &s.stats.ResentTimeout
	una := s.tx[kind].Una() // by place: a repetition has a larger number than what was sent behind it
	for n := s.sent.Oldest(); n < s.sent.Next(); n++ {
		p := s.sent.Packet(n)
		if !p.InFlight() || p.Kind != recovery.Kind(kind) || una.Before(p.From) || !una.Before(p.To) {
			continue
		}
		s.countLoss(p)
		if s.resendInFlight(n, cause) {
			return
		}
	}
	if again, ok := s.tx[kind].Again(); ok {
		s.resend(kind, again, true, cause)
	}
}

// resendInFlight sends what a packet in flight carries again, because a timer says so. It reports false when all of that arrived in other
// packets.
func (s *sender) resendInFlight(number uint64, cause *uint64) bool {
	p := s.sent.Packet(number)
	kind := wire.Space(p.Kind)
	s.sent.Mark(p, recovery.Again)
	sp := &s.tx[kind]
	sp.Missing(space.Piece{From: p.From, To: p.To, Losses: p.Losses})
	missing, ok := sp.MissingIn(p.From, p.To)
	if !ok {
		return false
	}
	if !s.resend(kind, missing, true, cause) {
		s.sendPing() // its answer tells whether that arrived
	}
	s.want(wantTurn) // for the rest, if the path shrank
	return true
}

// resendLost sends lost packets again while the window allows. It reports whether more remain.
func (s *sender) resendLost(kind wire.Space) (again bool) {
	sp := &s.tx[kind]
	for {
		p, ok := sp.Again()
		if !ok {
			return false
		}
		if s.cc.Full(s.sent.InFlight(), s.now) {
			s.noteFull(0)
			return false
		}
		cause := &s.stats.ResentLost
		if p.Refused {
			cause = &s.stats.ResentReceive
		}
		if !s.resend(kind, p, sp.LastAgain(), cause) {
			return s.out.Starved()
		}
	}
}

// resend sends a piece again, or as much of it as a packet takes, under a new packet number (I7, PROTOCOL §9.3). It reports false when
// nothing was sent: there was no frame for it, a limit forbids it, or the memory behind it is gone, and perhaps the connection with it. It
// counts in cause, one of the engine's counters.
func (s *sender) resend(kind wire.Space, p space.Piece, ackReq bool, cause *uint64) bool {
	e := s.environment
	if kind == wire.ResponseSpace && s.mayHaveArrived(p, s.access(), &s.rtt) || !s.beginAgain() {
		return false
	}
	to, ok := s.packSpace(kind, p.From, p.To, false)
	if !ok {
		return false
	}
	if to == p.From {
		e.out.Abandon()
		return false
	}
	s.tx[kind].SentAgain(p.From, to)
	e.stats.Retransmits++
	*cause++
	s.retransmits++
	s.cc.Left(e.now)
	s.sealContents(kind, recovery.Packet{From: p.From, To: to, Losses: p.Losses}, ackReq)
	return true
}

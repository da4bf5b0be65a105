package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// armTimer sets the timer for what the peer owes us.
func (s *sentState) armTimer() {
	owed := s.unacknowledged()
	s.loss.Arm(s.engine.now, &s.conn.rtt, minRTO, owed)
	if owed {
		s.conn.want(wantLook)
	}
}

// unacknowledged says whether the peer has something left to acknowledge.
func (s *sentState) unacknowledged() bool {
	return s.spaces[0].Outstanding() && !s.paused || s.spaces[1].Outstanding()
}

// detectLoss declares packets lost, and sets the timer for packets that may be lost.
func (s *sentState) detectLoss() {
	for {
		p, silent := s.loss.Lost(&s.packets, &s.conn.rtt, minRTO, s.engine.now)
		if p == nil {
			break
		}
		s.markLost(p)
		if silent && p.Path.Bulk() {
			s.leaveBulk()
		}
	}
	if s.loss.ReorderAt() != 0 {
		s.conn.want(wantLook)
	}
}

// markLost takes a transmission in flight for lost: what it carried goes again.
func (s *sentState) markLost(p *recovery.Packet) {
	e := s.engine
	s.packets.Mark(p, recovery.Lost)
	s.countLoss(p)
	s.spaces[p.Kind].Missing(space.Piece{From: p.From, To: p.To, Losses: p.Losses})
	e.stats.PacketsLost++
	e.flight.Note(e.now, FlightLoss, s.conn.identity.id, 0, uint32(p.Kind))
	s.longLost(p.Path)
	if p.Path.Bulk() && s.bulk.Lost(e.now) {
		s.noteLeft(recovery.PathBulk)
	}
	s.cc.Lost(int(p.Size), p.At)
	s.conn.want(wantVerdict)
	s.conn.want(wantTurn)
}

// expire handles the probe or retransmission timer. It returns what that means; after a time-out repeatOldest follows, perhaps on another path.
func (t *traffic) expire() recovery.Verdict {
	e := t.engine
	verdict := t.sent.loss.Expire(e.now, t.sent.packets.Next(), e.cfg.Stalled)
	if verdict == recovery.SendProbe {
		e.stats.Probes++
		e.flight.Note(e.now, FlightProbe, t.conn.identity.id, 0, 0)
		for kind := range t.sent.spaces {
			t.resendNewest(wire.Space(kind))
		}
		t.sent.armTimer()
		return verdict
	}
	times := t.sent.loss.Expiries()
	e.stats.Timeouts++
	e.flight.Note(e.now, FlightTimeout, t.conn.identity.id, uint32(times), 0)
	if verdict == recovery.PeerDead {
		return verdict
	}
	t.conn.ecn.TimedOut(times, t.sent.packets.Next(), e.now)
	t.sent.noteECN()
	if times == 1 && t.conn.joins && t.sent.runs.TimedOut(e.now) {
		e.stats.RunsPaused++
	}
	t.sent.cc.TimedOut(e.controller, t.conn.rtt.Smoothed)
	t.conn.rtt.Expired()
	return verdict
}

// repeatOldest sends the oldest of each space again, after a time-out.
func (t *traffic) repeatOldest() {
	for kind := range t.sent.spaces {
		if t.sent.spaces[kind].Outstanding() && !t.sent.holds(wire.Space(kind)) {
			t.resendOldest(wire.Space(kind))
		}
	}
	t.sent.armTimer()
}

// resendNewest sends the newest packet of a space that is in flight again, asking for an acknowledgement.
func (t *traffic) resendNewest(kind wire.Space) {
	for n := t.sent.packets.Next(); n > t.sent.packets.Oldest(); {
		n--
		if p := t.sent.packets.Packet(n); p.InFlight() && p.Kind == recovery.Kind(kind) {
			if t.resendInFlight(n, &t.engine.stats.ResentProbe) {
				return
			}
		}
	}
}

// resendOldest sends the oldest that is missing of a space again, asking for an acknowledgement.
func (t *traffic) resendOldest(kind wire.Space) {
	cause := &t.engine.stats.ResentTimeout
	una := t.sent.spaces[kind].Una() // by place: a repetition has a larger number than what was sent behind it
	for n := t.sent.packets.Oldest(); n < t.sent.packets.Next(); n++ {
		p := t.sent.packets.Packet(n)
		if !p.InFlight() || p.Kind != recovery.Kind(kind) || una.Before(p.From) || !una.Before(p.To) {
			continue
		}
		t.sent.countLoss(p)
		if t.resendInFlight(n, cause) {
			return
		}
	}
	if again, ok := t.sent.spaces[kind].Again(); ok {
		t.resend(kind, again, true, cause)
	}
}

// resendInFlight sends what a packet in flight carries again, because a timer says so. It reports false when all of that arrived in other
// packets.
func (t *traffic) resendInFlight(number uint64, cause *uint64) bool {
	p := t.sent.packets.Packet(number)
	kind := wire.Space(p.Kind)
	t.sent.longLost(p.Path)
	t.sent.packets.Mark(p, recovery.Again)
	sp := &t.sent.spaces[kind]
	sp.Missing(space.Piece{From: p.From, To: p.To, Losses: p.Losses})
	missing, ok := sp.MissingIn(p.From, p.To)
	if !ok {
		return false
	}
	if !t.resend(kind, missing, true, cause) {
		t.sendPing() // its answer tells whether that arrived
	}
	t.conn.want(wantTurn) // for the rest, if the path shrank
	return true
}

// resendLost sends lost packets again while the window allows. It reports whether more remain.
func (t *traffic) resendLost(kind wire.Space) (again bool) {
	sp := &t.sent.spaces[kind]
	for {
		p, ok := sp.Again()
		if !ok {
			return false
		}
		if t.sent.cc.Full(t.sent.packets.InFlight(), t.engine.now) {
			t.sent.noteFull(0)
			return false
		}
		cause := &t.engine.stats.ResentLost
		if p.Refused {
			cause = &t.engine.stats.ResentReceive
		}
		if !t.resend(kind, p, sp.LastAgain(), cause) {
			return t.engine.out.Starved()
		}
	}
}

// resend sends a piece again, or as much of it as a packet takes, under a new packet number (I7, PROTOCOL §9.3). It reports false when
// nothing was sent: there was no frame for it, a limit forbids it, or the memory behind it is gone, and perhaps the connection with it. It
// counts in cause, one of the engine's counters.
func (t *traffic) resend(kind wire.Space, p space.Piece, ackReq bool, cause *uint64) bool {
	e := t.engine
	if !t.beginPacket(int(t.conn.mtu.Packet)) {
		return false
	}
	to, ok := t.packSpace(kind, p.From, p.To, false)
	if !ok {
		return false
	}
	if to == p.From {
		e.out.Abandon()
		return false
	}
	t.sent.spaces[kind].SentAgain(p.From, to)
	e.stats.Retransmits++
	*cause++
	t.conn.counters.retransmits++
	t.sent.cc.Left(e.now)
	t.sealContents(kind, recovery.Packet{From: p.From, To: to, Losses: p.Losses}, ackReq)
	return true
}

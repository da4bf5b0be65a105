package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// armTimer sets the timer for what the peer owes us.
func (t *transmitted) armTimer() {
	owed := t.unacknowledged()
	t.loss.Arm(t.now, &t.rtt, minRTO, owed)
	if owed {
		t.want(wantLook)
	}
}

// unacknowledged says whether the peer has something left to acknowledge.
func (t *transmitted) unacknowledged() bool {
	return t.tx[0].Outstanding() && !t.paused || t.tx[1].Outstanding()
}

// detectLoss declares packets lost, and sets the timer for packets that may be lost.
func (t *transmitted) detectLoss() {
	for {
		p, silent := t.loss.Lost(&t.sent, &t.rtt, minRTO, t.now)
		if p == nil {
			break
		}
		t.markLost(p)
		if silent && p.Bulk {
			t.leaveBulk()
		}
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
	e.flight.Note(e.now, FlightLoss, t.identity.id, 0, uint32(p.Kind))
	if p.Bulk && t.bulk.Lost(e.now) {
		t.noteBulkLeft()
	}
	t.cc.Lost(int(p.Size), p.At)
	t.want(wantVerdict)
	t.want(wantTurn)
}

// expire handles the probe or retransmission timer. It returns what that means; after a time-out repeatOldest follows, perhaps on another path.
func (r *repeater) expire() recovery.Verdict {
	e := r.environment
	verdict := r.loss.Expire(e.now, r.sent.Next(), e.cfg.Stalled)
	if verdict == recovery.SendProbe {
		e.stats.Probes++
		e.flight.Note(e.now, FlightProbe, r.identity.id, 0, 0)
		for kind := range r.tx {
			r.resendNewest(wire.Space(kind))
		}
		r.armTimer()
		return verdict
	}
	times := r.loss.Expiries()
	e.stats.Timeouts++
	e.flight.Note(e.now, FlightTimeout, r.identity.id, uint32(times), 0)
	if verdict == recovery.PeerDead {
		return verdict
	}
	r.ecn.TimedOut(times, r.sent.Next(), e.now)
	r.noteECN()
	if times == 1 && r.joins && r.runs.TimedOut(e.now) {
		e.stats.RunsPaused++
	}
	if r.sent.BulkIsSilent() {
		r.leaveBulk()
	}
	r.cc.TimedOut(e.controller, r.rtt.Smoothed)
	r.rtt.Expired()
	return verdict
}

// repeatOldest sends the oldest of each space again, after a time-out.
func (r *repeater) repeatOldest() {
	for kind := range r.tx {
		if r.tx[kind].Outstanding() && !r.holds(wire.Space(kind)) {
			r.resendOldest(wire.Space(kind))
		}
	}
	r.armTimer()
}

// resendNewest sends the newest packet of a space that is in flight again, asking for an acknowledgement.
func (r *repeater) resendNewest(kind wire.Space) {
	for n := r.sent.Next(); n > r.sent.Oldest(); {
		n--
		if p := r.sent.Packet(n); p.InFlight() && p.Kind == recovery.Kind(kind) {
			if r.resendInFlight(n, &r.stats.ResentProbe) {
				return
			}
		}
	}
}

// resendOldest sends the oldest that is missing of a space again, asking for an acknowledgement.
func (r *repeater) resendOldest(kind wire.Space) {
	cause := &r.stats.ResentTimeout
	una := r.tx[kind].Una() // by place: a repetition has a larger number than what was sent behind it
	for n := r.sent.Oldest(); n < r.sent.Next(); n++ {
		p := r.sent.Packet(n)
		if !p.InFlight() || p.Kind != recovery.Kind(kind) || una.Before(p.From) || !una.Before(p.To) {
			continue
		}
		r.countLoss(p)
		if r.resendInFlight(n, cause) {
			return
		}
	}
	if again, ok := r.tx[kind].Again(); ok {
		r.resend(kind, again, true, cause)
	}
}

// resendInFlight sends what a packet in flight carries again, because a timer says so. It reports false when all of that arrived in other
// packets.
func (r *repeater) resendInFlight(number uint64, cause *uint64) bool {
	p := r.sent.Packet(number)
	kind := wire.Space(p.Kind)
	r.sent.Mark(p, recovery.Again)
	sp := &r.tx[kind]
	sp.Missing(space.Piece{From: p.From, To: p.To, Losses: p.Losses})
	missing, ok := sp.MissingIn(p.From, p.To)
	if !ok {
		return false
	}
	if !r.resend(kind, missing, true, cause) {
		r.sendPing() // its answer tells whether that arrived
	}
	r.want(wantTurn) // for the rest, if the path shrank
	return true
}

// resendLost sends lost packets again while the window allows. It reports whether more remain.
func (r *repeater) resendLost(kind wire.Space) (again bool) {
	sp := &r.tx[kind]
	for {
		p, ok := sp.Again()
		if !ok {
			return false
		}
		if r.cc.Full(r.sent.InFlight(), r.now) {
			r.noteFull(0)
			return false
		}
		cause := &r.stats.ResentLost
		if p.Refused {
			cause = &r.stats.ResentReceive
		}
		if !r.resend(kind, p, sp.LastAgain(), cause) {
			return r.out.Starved()
		}
	}
}

// resend sends a piece again, or as much of it as a packet takes, under a new packet number (I7, PROTOCOL §9.3). It reports false when
// nothing was sent: there was no frame for it, a limit forbids it, or the memory behind it is gone, and perhaps the connection with it. It
// counts in cause, one of the engine's counters.
func (r *repeater) resend(kind wire.Space, p space.Piece, ackReq bool, cause *uint64) bool {
	e := r.environment
	if !r.beginPacket(int(r.mtu.Packet)) {
		return false
	}
	to, ok := r.packSpace(kind, p.From, p.To, false)
	if !ok {
		return false
	}
	if to == p.From {
		e.out.Abandon()
		return false
	}
	r.tx[kind].SentAgain(p.From, to)
	e.stats.Retransmits++
	*cause++
	r.counters.retransmits++
	r.cc.Left(e.now)
	r.sealContents(kind, recovery.Packet{From: p.From, To: to, Losses: p.Losses}, ackReq)
	return true
}

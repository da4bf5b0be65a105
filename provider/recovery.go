package provider

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// lossRecovery decides what was lost (RACK-TLP, RFC 8985) and when to ask.
type lossRecovery struct {
	timerAt    clock.Time // probe or retransmission time-out; zero when nothing is in flight
	reorderAt  clock.Time // when a suspected packet becomes a lost one; zero when none is suspected
	progressAt clock.Time // last time that the oldest packet was acknowledged, or first packet after an idle time
	ackedAt    clock.Time // when the newest ACK block came
	timedOut   uint64     // packets below this number left before the newest row of time-outs; zero once that was undone
	probed     bool       // the tail-loss probe of this flight was sent
	expiries   int        // time-outs since the last progress

	slack     int        // what the reordering window is larger, in quarters of the smallest round trip
	slackenAt clock.Time // when what was only late last made it larger
}

// sent starts the timer when the first packet goes into an idle connection.
func (r *lossRecovery) sent(c *conn) {
	if r.timerAt != 0 {
		return
	}
	r.progressAt = c.engine.now
	r.arm(c)
}

// arm sets the timer: first a probe, then time-outs.
func (r *lossRecovery) arm(c *conn) {
	now := c.engine.now
	if !c.unacknowledged() {
		r.timerAt, r.probed = 0, false
		return
	}
	if r.probed {
		r.timerAt = now.Add(c.rtt.timeout(c.engine.cfg.MinRTO))
	} else {
		r.timerAt = now.Add(min(c.rtt.probe(), c.rtt.timeout(c.engine.cfg.MinRTO)))
	}
	c.touch()
}

// unacknowledged says whether the peer has something left to acknowledge.
func (c *conn) unacknowledged() bool {
	return c.tx[0].Outstanding() && !c.paused || c.tx[1].Outstanding()
}

// progress is called when the oldest packet of a space was acknowledged.
func (r *lossRecovery) progress(c *conn) {
	r.progressAt = c.engine.now
	r.probed, r.expiries = false, 0
	c.rtt.backoff, c.rtt.moves = 0, min(c.rtt.moves+1, stableMoves)
	r.arm(c)
	c.detectLoss()
}

// inVain takes in that a packet arrived whose contents were sent again. What was taken for lost was only late: the reordering window
// grows. What left before the first of a row of time-outs arrived after all: nothing had been lost, and the time-outs are undone.
func (r *lossRecovery) inVain(c *conn, number uint64, state recovery.State) {
	e := c.engine
	e.stats.Duplicates++
	if state&recovery.Lost != 0 && e.now.Sub(r.slackenAt) > c.rtt.smoothed {
		r.slack, r.slackenAt = min(r.slack+1, maxSlack), e.now
	}
	if state&recovery.Again != 0 && number < r.timedOut {
		r.timedOut = 0
		c.runs.InTime(e.now)
		if c.cc.Undo() {
			e.stats.SpuriousTimeouts++
			e.note(FlightSpurious, c.id, 0, 0)
		}
	}
}

// detectLoss marks packets lost that were sent a reordering window before one that arrived, and sets the timer for the oldest one
// that is suspected. Packet numbers are in the order of sending, so that packets of one turn, which share a time, are too.
func (c *conn) detectLoss() {
	r := &c.recovery
	r.reorderAt = 0
	if c.sent.PacketsInFlight() == 0 {
		return
	}
	wait := c.rtt.smoothed + r.window(&c.rtt, c.engine.now)
	for n := c.sent.Oldest(); n < c.sent.Passed(); n = c.sent.Oldest() {
		p := c.sent.Packet(n)
		if due := p.At.Add(wait); due > c.engine.now {
			r.reorderAt = due
			c.touch()
			return
		}
		c.markLost(p)
	}
}

// window is the reordering window. It grows with every round trip in which what was taken for lost arrives, because it had only
// been overtaken, up to a round trip, and falls back after 16 round trips without (RFC 8985 §6.2 step 4).
func (r *lossRecovery) window(t *rtt, now clock.Time) time.Duration {
	if r.slack > 0 && now.Sub(r.slackenAt) > 16*t.smoothed {
		r.slack = 0
	}
	return max(t.reorder(), min(t.reorder()+time.Duration(r.slack)*t.min/4, t.smoothed))
}

// markLost takes a transmission in flight for lost: what it carried goes again.
func (c *conn) markLost(p *recovery.Packet) {
	e := c.engine
	c.sent.Mark(p, recovery.Lost)
	c.countLoss(p)
	c.tx[p.Kind].Missing(space.Piece{From: p.From, To: p.To, Losses: p.Losses})
	e.stats.PacketsLost++
	e.note(FlightLoss, c.id, 0, uint32(p.Kind))
	c.cc.Lost(int(p.Size))
	c.heardBatch()
	c.activate()
}

// expire handles the probe or retransmission timer.
func (r *lossRecovery) expire(c *conn) {
	e := c.engine
	if !r.probed {
		r.probed = true
		e.stats.Probes++
		e.note(FlightProbe, c.id, 0, 0)
		for kind := range c.tx {
			c.resendNewest(wire.Space(kind))
		}
		r.arm(c)
		return
	}
	if r.expiries++; r.expiries == 1 {
		r.timedOut = c.sent.Next()
	}
	e.stats.Timeouts++
	e.note(FlightTimeout, c.id, uint32(r.expiries), 0)
	if e.now.Sub(r.progressAt) >= e.cfg.DeadPeer && r.expiries >= minExpiries {
		c.lose()
		return
	}
	if r.expiries == maxMarkable && c.rtt.moves == 0 {
		c.ecn = wire.NotECT
	}
	if r.expiries == 1 && c.joins && c.runs.TimedOut(e.now) {
		e.stats.RunsPaused++
	}
	changePort(c, r.expiries)
	c.timeOut()
	if c.rtt.backoff < maxBackoff {
		c.rtt.backoff++
	}
	for kind := range c.tx {
		if c.tx[kind].Outstanding() && !c.holds(wire.Space(kind)) {
			c.resendOldest(wire.Space(kind))
		}
	}
	r.arm(c)
}

const (
	minExpiries = 6  // a peer is not dead before this many time-outs
	maxBackoff  = 12 // doublings of the time-out
	maxSlack    = 16 // beyond that a round trip bounds the reordering window
	// maxMarkable time-outs in a row, before any data arrived, mean that the path may lose packets that can be marked
	// (RFC 9000 §13.4.2.1): they go on as others.
	maxMarkable = 3
)

// resendNewest sends the newest packet of a space that is in flight again, asking for an acknowledgement.
func (c *conn) resendNewest(kind wire.Space) {
	for n := c.sent.Next(); n > c.sent.Oldest(); {
		n--
		if p := c.sent.Packet(n); p.State == 0 && p.Kind == recovery.Kind(kind) {
			if c.resendInFlight(n, &c.engine.stats.ResentProbe) {
				return
			}
		}
	}
}

// resendOldest sends the oldest that is missing of a space again, asking for an acknowledgement.
func (c *conn) resendOldest(kind wire.Space) {
	cause := &c.engine.stats.ResentTimeout
	una := c.tx[kind].Una() // by place: a repetition has a larger number than what was sent behind it
	for n := c.sent.Oldest(); n < c.sent.Next(); n++ {
		p := c.sent.Packet(n)
		if p.State != 0 || p.Kind != recovery.Kind(kind) || una.Before(p.From) || !una.Before(p.To) {
			continue
		}
		c.countLoss(p)
		if c.resendInFlight(n, cause) {
			return
		}
	}
	if again, ok := c.tx[kind].Again(); ok {
		c.resend(kind, again, true, cause)
	}
}

// resendInFlight sends what a packet in flight carries again, because a timer says so. It reports false when all of that arrived in other
// packets.
func (c *conn) resendInFlight(number uint64, cause *uint64) bool {
	p := c.sent.Packet(number)
	kind := wire.Space(p.Kind)
	c.sent.Mark(p, recovery.Again)
	sp := &c.tx[kind]
	sp.Missing(space.Piece{From: p.From, To: p.To, Losses: p.Losses})
	missing, ok := sp.MissingIn(p.From, p.To)
	if !ok {
		return false
	}
	if !c.resend(kind, missing, true, cause) && c.phase == phaseOpen {
		c.sendPing() // its answer tells whether that arrived
	}
	c.activate() // for the rest, if the path shrank
	return true
}

// resendLost sends lost packets again while the window allows. It reports whether more remain.
func (c *conn) resendLost(kind wire.Space) (again bool) {
	sp := &c.tx[kind]
	for {
		p, ok := sp.Again()
		if !ok {
			return false
		}
		if c.cc.Full(c.sent.InFlight(), c.engine.now) {
			c.noteFull(0)
			return false
		}
		cause := &c.engine.stats.ResentLost
		if p.Refused {
			cause = &c.engine.stats.ResentReceive
		}
		if !c.resend(kind, p, sp.LastAgain(), cause) {
			return c.phase == phaseOpen && c.engine.out.Starved()
		}
	}
}

// resend sends a piece again, or as much of it as a packet takes, under a new packet number (I7, PROTOCOL §9.3). It reports false when
// nothing was sent: there was no frame for it, a limit forbids it, or the memory behind it is gone, and perhaps the connection with it. It
// counts in cause, one of the engine's counters.
func (c *conn) resend(kind wire.Space, p space.Piece, ackReq bool, cause *uint64) bool {
	e := c.engine
	if kind == wire.ResponseSpace && c.mayHaveArrived(p) || !c.beginAgain() {
		return false
	}
	to, ok := c.packSpace(kind, p.From, p.To, false)
	if !ok {
		return false
	}
	if to == p.From {
		e.out.Abandon()
		return false
	}
	c.tx[kind].SentAgain(p.From, to)
	e.stats.Retransmits++
	*cause++
	c.retransmits++
	c.cc.Left(e.now)
	c.sealContents(kind, recovery.Packet{From: p.From, To: to, Losses: p.Losses}, ackReq)
	return true
}

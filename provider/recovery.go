package provider

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
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
	return c.tx[0].outstanding() > 0 && !c.paused || c.tx[1].outstanding() > 0
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
	if c.tx[0].inFlight+c.tx[1].inFlight == 0 {
		return
	}
	window := r.window(&c.rtt, c.engine.now)
	for n, end := c.sent.Floor(), c.sent.Passed(); n < end; n++ {
		p := c.sent.Packet(n)
		if p.State != 0 || c.learnt(n, false) {
			continue
		}
		rec := c.tx[p.Kind].record(p.PSN)
		if rec.state&(recSacked|recLost) != 0 {
			continue
		}
		if due := p.At.Add(c.rtt.smoothed + window); due > c.engine.now {
			r.reorderAt = due
			c.touch()
			return
		}
		p.State |= recovery.Lost
		c.markLost(wire.Space(p.Kind), rec)
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

// setLost takes an outstanding packet for lost.
func (sp *sendSpace) setLost(rec *txRecord) {
	rec.state |= recLost
	sp.inFlight--
	sp.lost++
}

func (c *conn) markLost(space wire.Space, rec *txRecord) {
	e := c.engine
	c.tx[space].setLost(rec)
	c.countLoss(rec)
	e.stats.PacketsLost++
	e.note(FlightLoss, c.id, 0, uint32(space))
	c.noteLoss()
	c.activate()
}

// expire handles the probe or retransmission timer.
func (r *lossRecovery) expire(c *conn) {
	e := c.engine
	if !r.probed {
		r.probed = true
		e.stats.Probes++
		e.note(FlightProbe, c.id, 0, 0)
		c.resendNewest()
		r.arm(c)
		return
	}
	if r.expiries++; r.expiries == 1 {
		r.timedOut = c.sent.Next()
	}
	e.stats.Timeouts++
	e.note(FlightTimeout, c.id, uint32(r.expiries), 0)
	if e.now.Sub(r.progressAt) >= e.cfg.DeadPeer && r.expiries >= minExpiries {
		c.lose(OutcomeIOTimeout)
		return
	}
	if r.expiries == maxMarkable && c.rtt.moves == 0 {
		c.ecn = wire.NotECT
	}
	changePort(c, r.expiries)
	c.timeOut()
	if c.rtt.backoff < maxBackoff {
		c.rtt.backoff++
	}
	for space := range c.tx {
		if sp := &c.tx[space]; sp.outstanding() > 0 && !c.holds(wire.Space(space)) {
			c.countLoss(sp.record(sp.una))
			c.resend(wire.Space(space), sp.una, true, &e.stats.ResentTimeout)
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

// resendNewest sends the newest unacknowledged packet of each space again, asking for an acknowledgement.
func (c *conn) resendNewest() {
	for space := range c.tx {
		sp := &c.tx[space]
		for psn := sp.next; psn != sp.una; {
			psn--
			if sp.record(psn).state&(recSacked|recLost) == 0 {
				c.resend(wire.Space(space), psn, true, &c.engine.stats.ResentProbe)
				break
			}
		}
	}
}

// resendLost sends lost packets again while the window allows. It reports whether more remain.
func (c *conn) resendLost(space wire.Space) (again bool) {
	sp := &c.tx[space]
	for psn := sp.una; sp.lost > 0 && psn != sp.next; psn++ {
		if sp.record(psn).state&recLost == 0 {
			continue
		}
		if !c.room() || c.hasPaused && space == wire.RequestSpace && !c.allowed(sp.record(psn)) {
			return false
		}
		cause := &c.engine.stats.ResentLost
		if sp.record(psn).state&recRefused != 0 {
			cause = &c.engine.stats.ResentReceive
		}
		if !c.resend(space, psn, sp.lost == 1, cause) {
			return c.phase == phaseOpen
		}
	}
	return false
}

// resend sends the operations with this PSN again, under a new packet number (I7, PROTOCOL §9.3); in parts when their path
// has become too small for them. It reports false when there was no frame for it, or when the memory behind it is gone and the
// connection with it. It counts in cause, one of the engine's counters.
func (c *conn) resend(space wire.Space, psn wire.PSN, ackReq bool, cause *uint64) bool {
	e := c.engine
	sp := &c.tx[space]
	rec := sp.record(psn)
	var flags wire.Flags
	if space == wire.ResponseSpace {
		if c.memoryGone(rec) {
			c.sendPing() // its answer tells
			return false
		}
		flags |= wire.FlagSpace
	}
	if ackReq {
		flags |= wire.FlagAckReq
	}
	before := rec.number
	parts := wire.BaseHeaderLen+int(rec.size) > int(c.mtu.Packet) && (space == wire.RequestSpace || !c.termQueued)
	switch {
	case parts:
		if !c.resendParts(space, psn, rec, flags) {
			return false
		}
	case !c.beginAgain(int(rec.size)), !c.pack(space, rec):
		return false
	}
	if before >= c.sent.Floor() && rec.state&recLost == 0 {
		c.sent.Packet(before).State |= recovery.Again
	}
	if rec.state&recLost != 0 {
		rec.state &^= recLost | recRefused
		sp.lost--
		sp.inFlight++
	}
	rec.at = e.now
	e.stats.Retransmits++
	*cause++
	c.retransmits++
	c.cc.Left(e.now)
	if !parts {
		c.ackSent()
		rec.number = c.sent.Next()
		c.seal(e.build.ops, flags, psn)
	} else if e.now >= c.search.At {
		c.searchPath()
	}
	return true
}

// pack fills the packet begun, of the size it had, with what the record says.
func (c *conn) pack(space wire.Space, rec *txRecord) (ok bool) {
	e := c.engine
	e.build.again = true
	switch {
	case space == wire.ResponseSpace:
		_, ok = c.packResponses(rec.from, rec.to, false)
	case c.qp != nil:
		_, ok = c.packRequests(rec.from, rec.to, false)
	default:
		ok = true // nobody waits for it any more: empty
	}
	if ok && e.build.ops == 0 {
		e.abandon()
		ok = false
	}
	return ok
}

package provider

import (
	"math/bits"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

func trailingZeros(v uint64) int { return bits.TrailingZeros64(v) }

// recovery decides what was lost (RACK-TLP, RFC 8985) and when to ask.
type recovery struct {
	newest     clock.Time // transmit time of the most recently sent packet known to have arrived
	arrived    [wire.NumSpaces]sentMark
	timerAt    clock.Time // probe or retransmission time-out; zero when nothing is in flight
	reorderAt  clock.Time // when a suspected packet becomes a lost one; zero when none is suspected
	progressAt clock.Time // last cumulative acknowledgement, or first packet after an idle time
	timedOutAt clock.Time // when the last time-out sent something; zero once it was judged
	probed     bool       // the tail-loss probe of this flight was sent
	expiries   int        // time-outs since the last progress

	duplicates uint32 // that the peer reported last
	before     uint32 // of those, when the probe of this flight was sent
	repeats    uint32 // packets sent again since then by probe and time-out; zero once it was judged

	slack     int        // what the reordering window is larger, in quarters of the smallest round trip
	slackenAt clock.Time // when duplicates last made it larger
}

// sentMark is the packet of a space that was sent last among those known to have arrived. Packets of a turn have one transmit time: of
// these the one with the greater PSN was sent later (RFC 8985 §6.2).
type sentMark struct {
	at  clock.Time
	psn wire.PSN
}

// sent starts the timer when the first packet goes into an idle connection.
func (r *recovery) sent(c *conn) {
	if r.timerAt != 0 {
		return
	}
	r.progressAt = c.engine.now
	r.arm(c)
}

// arm sets the timer: first a probe, then time-outs.
func (r *recovery) arm(c *conn) {
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

// delivered notes that a packet arrived. echo is that of the packet which says so (echoed).
func (r *recovery) delivered(space wire.Space, psn wire.PSN, rec *txRecord, echo clock.Time) {
	// Of a packet that was sent twice the first copy arrived when the peer echoes an earlier time than that of the second
	// (RFC 8985 §6.2 step 2). Otherwise the second one counts: after a burst of losses it is all there is to show that what
	// was sent before it is lost.
	if rec.state&recResent != 0 && echo < rec.at {
		return
	}
	if rec.at > r.newest {
		r.newest = rec.at
	}
	if m := &r.arrived[space]; rec.at > m.at || rec.at == m.at && psn.Sub(m.psn) > 0 {
		m.at, m.psn = rec.at, psn
	}
}

// passed says that a packet is known to have arrived which was sent after this one.
func (r *recovery) passed(space wire.Space, psn wire.PSN, rec *txRecord) bool {
	m := &r.arrived[space]
	return rec.at < r.newest || rec.at == m.at && psn.Sub(m.psn) < 0
}

// progress is called when a cumulative acknowledgement moved. echo is that of the packet which moved it (echoed).
func (r *recovery) progress(c *conn, echo clock.Time) {
	if r.timedOutAt != 0 {
		// Eifel (RFC 3522): what the peer echoes was sent before the time-out resent anything, so nothing had been lost.
		if echo != 0 && echo < r.timedOutAt && c.cc.Undo() {
			c.engine.stats.SpuriousTimeouts++
			c.engine.note(FlightSpurious, c.id, 0, 0)
		}
		r.timedOutAt = 0
	}
	r.progressAt = c.engine.now
	r.probed, r.expiries = false, 0
	c.rtt.backoff, c.rtt.moves = 0, min(c.rtt.moves+1, stableMoves)
	r.arm(c)
	c.detectLoss()
}

// detectLoss marks packets lost that were sent a reordering window before one that arrived, and sets the timer for those
// that are suspected.
func (c *conn) detectLoss() {
	c.recovery.reorderAt = 0
	for space := range c.tx {
		c.detectLossIn(wire.Space(space))
	}
	if c.recovery.reorderAt != 0 {
		c.touch()
	}
}

// window is the reordering window. It grows with every round trip in which the peer reports duplicates, because what was taken for
// lost had only been overtaken, up to a round trip, and falls back after 16 round trips without (RFC 8985 §6.2 step 4).
func (r *recovery) window(t *rtt, now clock.Time) time.Duration {
	if r.slack > 0 && now.Sub(r.slackenAt) > 16*t.smoothed {
		r.slack = 0
	}
	return max(t.reorder(), min(t.reorder()+time.Duration(r.slack)*t.min/4, t.smoothed))
}

func (c *conn) detectLossIn(space wire.Space) {
	sp := &c.tx[space]
	if sp.inFlight == 0 || sp.outstanding() == 0 {
		return
	}
	r := &c.recovery
	window := r.window(&c.rtt, c.engine.now)
	if oldest := sp.record(sp.una); !r.passed(space, sp.una, oldest) && oldest.state&recResent == 0 {
		return // nothing was lost: all were sent after what arrived last
	}
	for psn := sp.una; psn != sp.next; psn++ {
		rec := sp.record(psn)
		if !r.passed(space, psn, rec) {
			if rec.state&recResent == 0 {
				break // sent in order from here on
			}
			continue
		}
		if rec.state&(recSacked|recLost) != 0 {
			continue
		}
		due := rec.at.Add(c.rtt.smoothed + window)
		if due > c.engine.now {
			if r.reorderAt == 0 || due < r.reorderAt {
				r.reorderAt = due
			}
			continue
		}
		c.markLost(space, rec)
	}
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
func (r *recovery) expire(c *conn) {
	e := c.engine
	if !r.probed {
		r.probed = true
		r.before, r.repeats = r.duplicates, 0
		e.stats.Probes++
		e.note(FlightProbe, c.id, 0, 0)
		r.repeats += c.resendNewest()
		r.arm(c)
		return
	}
	r.expiries++
	e.stats.Timeouts++
	e.note(FlightTimeout, c.id, uint32(r.expiries), 0)
	if e.now.Sub(r.progressAt) >= e.cfg.DeadPeer && r.expiries >= minExpiries {
		c.lose(OutcomeIOTimeout)
		return
	}
	if r.expiries == maxMarkable && c.rtt.moves == 0 {
		c.ecn = wire.NotECT
	}
	c.timeOut()
	r.timedOutAt = e.now
	if c.rtt.backoff < maxBackoff {
		c.rtt.backoff++
	}
	for space := range c.tx {
		if sp := &c.tx[space]; sp.outstanding() > 0 && !c.holds(wire.Space(space)) {
			c.countLoss(sp.record(sp.una))
			if c.resend(wire.Space(space), sp.una, true, &e.stats.ResentTimeout) {
				r.repeats++
			}
		}
	}
	r.arm(c)
}

// judge takes in the peer's count of duplicates. When it had everything that probe and time-outs sent again, nothing had
// been lost (RFC 3708): the peer was off its core, took all copies in one turn and echoes the newest, so that the echo
// alone does not show it.
func (r *recovery) judge(c *conn, duplicates uint32) {
	if int32(duplicates-r.duplicates) <= 0 {
		return // no more than before, or an overtaken ACK
	}
	c.engine.stats.Duplicates += uint64(duplicates - r.duplicates)
	r.duplicates = duplicates
	if now := c.engine.now; now.Sub(r.slackenAt) > c.rtt.smoothed {
		r.slack, r.slackenAt = min(r.slack+1, maxSlack), now
	}
	if r.repeats > 0 && !r.probed && duplicates-r.before >= r.repeats {
		r.repeats = 0
		if c.cc.Undo() {
			c.engine.stats.SpuriousTimeouts++
			c.engine.note(FlightSpurious, c.id, 0, 0)
		}
	}
}

const (
	minExpiries = 6  // a peer is not dead before this many time-outs
	maxBackoff  = 12 // doublings of the time-out
	maxSlack    = 16 // beyond that a round trip bounds the reordering window
	// maxMarkable time-outs in a row, before any data arrived, mean that the path may lose packets that can be marked
	// (RFC 9000 §13.4.2.1): they go on as others.
	maxMarkable = 3
)

// resendNewest sends the newest unacknowledged packet of each space again, asking for an acknowledgement, and returns how
// many it sent.
func (c *conn) resendNewest() (sent uint32) {
	for space := range c.tx {
		sp := &c.tx[space]
		for psn := sp.next; psn != sp.una; {
			psn--
			if sp.record(psn).state&(recSacked|recLost) == 0 {
				if c.resend(wire.Space(space), psn, true, &c.engine.stats.ResentProbe) {
					sent++
				}
				break
			}
		}
	}
	return sent
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

// resend builds the packet with this PSN again: same PSN, same operations, same bytes (I7, PROTOCOL §9.3); in parts when its path
// has become too small for it. It reports false when there was no frame for it, or when the memory behind it is gone and the
// connection with it. It counts in cause, one of the engine's counters.
func (c *conn) resend(space wire.Space, psn wire.PSN, ackReq bool, cause *uint64) bool {
	e := c.engine
	sp := &c.tx[space]
	rec := sp.record(psn)
	flags := wire.FlagRTX
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
	parts := rec.size > c.mtu.Packet && (space == wire.RequestSpace || !c.termQueued)
	switch {
	case parts:
		if !c.resendParts(space, psn, rec, flags) {
			return false
		}
	case !e.begin(int(rec.size)):
		e.starved = true
		return false
	case !c.pack(space, rec):
		return false
	}
	if rec.state&recLost != 0 {
		rec.state &^= recLost | recRefused
		sp.lost--
		sp.inFlight++
	}
	rec.state |= recResent
	rec.at = e.now
	e.stats.Retransmits++
	*cause++
	c.retransmits++
	c.cc.Left(e.now)
	c.ackSent()
	if !parts {
		e.seal(c, e.build.ops, flags, psn)
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

package provider

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

// This file answers the one deadline each connection has: the earliest of what handshake, recovery, acknowledgement,
// receive limit, liveness and ending wait for.

// deadline is the earliest time at which the connection wants attention: every state that waits for somebody has one (I9).
func (c *conn) deadline() clock.Time {
	at := earlier(c.halfOpenDeadline(), c.handshake.retryAt)
	if c.phase == phaseOpen {
		at = earlier(at, c.keepAliveAt())
		at = earlier(at, c.end.proof.due())
		if c.traffic != nil {
			at = c.trafficDeadline(at)
		}
	}
	at = earlier(at, c.end.noticeAt)
	at = earlier(at, c.end.giveUpAt)
	return earlier(at, c.end.freeAt)
}

// trafficDeadline is the part of deadline that an idle connection does not have.
func (c *conn) trafficDeadline(at clock.Time) clock.Time {
	at = earlier(at, c.recovery.timerAt)
	at = earlier(at, c.recovery.reorderAt)
	at = earlier(at, c.pacedUntil)
	if c.ack.urgency == ackDelayed {
		at = earlier(at, c.ack.at)
	}
	if c.blockedAt != 0 {
		at = earlier(at, c.blockedAt.Add(c.engine.cfg.NoReceive))
		at = earlier(at, c.askAt)
	}
	at = earlier(at, c.waitDeadline())
	return earlier(at, c.idleAt)
}

// earlier is at, or t if that is set and comes before it.
func earlier(at, t clock.Time) clock.Time {
	if t != 0 && t < at {
		return t
	}
	return at
}

// keepAliveAt is when a silent peer is asked for a sign of life (PROTOCOL §9.5). A READ that was acknowledged and waits for its answer has
// no other timer here: the answer is the peer's to repeat, and a dead peer is to be noticed as soon as by a WRITE.
func (c *conn) keepAliveAt() clock.Time {
	if c.pings > 0 {
		return c.pingAt
	}
	if c.traffic != nil && (c.reads.count > 0 || c.paused || c.blockedAt != 0) {
		return max(c.lastHeard, c.recovery.progressAt).Add(min(pingInterval, c.engine.cfg.KeepAlive))
	}
	return c.lastHeard.Add(c.engine.keepAliveGap())
}

// keepAliveGap is how long an idle connection is left alone. With many connections it grows, so that asking all of them costs
// no more than asking maxKeepAlives of them every second.
func (e *Engine) keepAliveGap() time.Duration {
	return max(e.cfg.KeepAlive, time.Duration(e.stats.Connections)*(time.Second/maxKeepAlives))
}

// onDeadline does what is due.
func (c *conn) onDeadline() {
	e := c.engine
	now := e.now
	due := func(at clock.Time) bool { return at != 0 && at <= now }
	c.touch()
	if due(c.end.freeAt) {
		c.free()
		return
	}
	c.leaveIdle()
	if due(c.end.noticeAt) {
		c.repeatNotice()
	}
	if due(c.end.giveUpAt) {
		c.giveUp()
		return
	}
	if due(c.handshake.retryAt) {
		c.retryHandshake()
	}
	if c.halfOpenDeadline() <= now {
		c.attemptFailed(OutcomeIOTimeout)
		return
	}
	if c.phase != phaseOpen {
		return
	}
	if c.ack.urgency == ackDelayed && due(c.ack.at) {
		c.raise(ackAtOnce)
	}
	if due(c.pacedUntil) {
		c.pacedUntil = 0
		c.activate()
	}
	if due(c.recovery.reorderAt) {
		c.detectLoss()
	}
	if due(c.waitDeadline()) {
		c.onWaitDeadline()
	}
	if c.blockedAt != 0 && c.onBlocked() {
		return
	}
	if due(c.recovery.timerAt) {
		c.recovery.expire(c)
		if c.phase == phaseOpen && c.recovery.expiries > 0 {
			c.sendPing() // what is repeated may be too short to be answered with RST (PROTOCOL §7.4)
		}
	}
	if c.phase == phaseOpen && due(c.end.proof.due()) {
		c.onProof()
	}
	if c.phase == phaseOpen && c.keepAliveAt() <= now {
		c.ping()
	}
	if c.phase == phaseOpen && c.idleAt <= now {
		c.enterIdleIfQuiet()
	}
}

// blockOnReceive starts the clock of the SEND at seq that waits for the peer to post a receive.
func (c *conn) blockOnReceive(seq uint32) {
	if c.blockedAt == 0 {
		c.blockedAt = c.engine.now
		c.askAt = c.engine.now.Add(askInterval)
		c.faultAhead(seq)
		c.touch()
	}
}

// faultAhead lets onBlocked look at once at a SEND that waits in vain, because it names memory that it may not use.
func (c *conn) faultAhead(seq uint32) {
	if !c.mayUse(seq) {
		c.askAt = c.engine.now
	}
}

// onBlocked asks for the limit that holds a SEND up, and ends the connection when the wait took too long. That is known
// only of a peer that answers: one that is silent has not said that it has no receive. Memory that the SEND may not use, or no
// longer, ends it without waiting for a receive (ND specification 11.1), but not before those ahead of it are done.
func (c *conn) onBlocked() (ended bool) {
	e := c.engine
	now := e.now
	if q := &c.qp.sq; c.askAt <= now && q.head.Load() == q.next && !c.mayUse(q.next) {
		c.blockedAt = 0
		c.localFault(q.next, OutcomeAccessViolation)
		return true
	}
	if c.blockedAt.Add(e.cfg.NoReceive) <= now {
		if c.tx[wire.RequestSpace].outstanding() == 0 && now.Sub(c.lastHeard) <= 4*askInterval {
			c.blockedAt = 0
			c.completeRequests()
			c.failRequest(c.qp.sq.next, OutcomeIOTimeout)
			c.terminate(wire.TermNoReceive, 0, 0, 0)
			return true
		}
		c.blockedAt = now.Add(askInterval - e.cfg.NoReceive)
	}
	if c.askAt <= now {
		c.askAt = now.Add(askInterval)
		c.sendPing()
	}
	return false
}

// ping asks an idle peer for a sign of life, and gives it up after maxPings.
func (c *conn) ping() {
	e := c.engine
	if c.pings == maxPings {
		c.lose(OutcomeIOTimeout)
		return
	}
	c.pings++
	c.pingAt = e.now.Add(pingInterval)
	c.sendPing()
}

func (c *conn) sendPing() {
	if _, ok := c.control(wire.CtlPing, 0, 4); ok {
		c.seal(0, 0, 0)
	}
}

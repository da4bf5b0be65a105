package provider

import (
	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/credit"
	"github.com/ndxdp/ndxdp/provider/internal/guard"
	"github.com/ndxdp/ndxdp/provider/internal/lifetime"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/provider/internal/turn"
	"github.com/ndxdp/ndxdp/wire"
)

// timers are the deadlines of all connections, one for each, and the connections whose deadline may have changed in this poll.
type timers struct {
	deadlines clock.Deadlines
	touched   []*conn
	absences  absences
}

// absences say how long hosts may be descheduled, by their addresses. A new connection to a busy host thus begins with what others learned,
// and does not send again what the host has not looked at yet. Hosts may share an entry: it only makes timers wait longer.
type absences [64]turn.Absence

func (a *absences) of(ip [16]byte) *turn.Absence {
	sum := 0
	for _, b := range ip {
		sum = 31*sum + int(b)
	}
	return &a[uint(sum)%uint(len(a))]
}

// expire does what has come due.
func (t *timers) expire(conns *connTable, now clock.Time) {
	for slot, due := t.deadlines.PopDue(now); due; slot, due = t.deadlines.PopDue(now) {
		c := conns.at(slot)
		c.onDeadline()
	}
}

// This file handles the single deadline of each connection: the earliest deadline of handshake, recovery, acknowledgement, receive limit,
// liveness and ending.

// deadline returns the earliest time at which the connection wants attention: every state that waits for somebody has one (I9).
func (c *conn) deadline() clock.Time {
	at := earlier(c.handshake.SilentAt(c.phase, c.engine.cfg.DeadPeer), c.handshake.Due())
	at = earlier(at, c.handshake.SpeakAt())
	at = earlier(at, c.end.proof.Due())
	at = earlier(at, shakeUntil(c))
	at = earlier(at, c.end.doubt.Due())
	if c.phase == phaseOpen {
		at = earlier(at, c.keepAliveAt())
		if c.traffic != nil {
			at = earlier(c.traffic.trafficDeadline(at), c.idleAt)
		}
	}
	return c.end.Due(at)
}

// trafficDeadline returns the part of deadline that an idle connection does not have.
func (t *traffic) trafficDeadline(at clock.Time) clock.Time {
	at = earlier(at, t.sent.loss.TimerAt())
	at = earlier(at, t.sent.loss.ReorderAt())
	at = earlier(at, t.sent.pacedUntil)
	at = earlier(at, t.received.ack.Due())
	if t.requests.ask.Waiting() {
		at = earlier(at, t.requests.ask.Since().Add(noReceive))
		at = earlier(at, t.requests.ask.At())
	}
	at = earlier(at, t.received.waitDeadline())
	return earlier(at, t.received.gapDeadline(t.engine.cfg.Stalled))
}

// earlier is at, or t if that is set and comes before it.
func earlier(at, t clock.Time) clock.Time {
	if t != 0 && t < at {
		return t
	}
	return at
}

// keepAliveAt returns when a silent peer is sent a keep-alive (PROTOCOL §9.5). A READ that was acknowledged and waits for its answer has no
// other timer here, because the peer retransmits the answer. A dead peer is then noticed as soon as with a WRITE.
func (c *conn) keepAliveAt() clock.Time {
	e := c.engine
	if c.traffic != nil && (c.traffic.requests.reads.Waiting() > 0 || c.traffic.sent.paused || c.traffic.requests.ask.Waiting()) {
		return c.alive.AskAt(max(c.alive.HeardAt(), c.traffic.sent.loss.ProgressAt()).Add(min(lifetime.PingInterval, e.cfg.KeepAlive)))
	}
	quiet := lifetime.QuietFor(e.cfg.KeepAlive, e.stats.Connections, maxKeepAlives, c.identity.active)
	return c.alive.AskAt(lifetime.Together(c.alive.HeardAt().Add(quiet), quiet, e.stats.Connections))
}

// onDeadline does what is due, and then lets a connection become idle.
func (c *conn) onDeadline() {
	c.touch()
	if at := c.end.FreeAt; at != 0 && at <= c.engine.now {
		c.free()
		return
	}
	c.withTraffic(c.doDue)
	if c.phase == phaseOpen && c.idleAt <= c.engine.now {
		c.enterIdleIfQuiet()
	}
}

// doDue does what is due for the connection's end, its handshake, and then its traffic.
func (c *conn) doDue(t *traffic) {
	e := c.engine
	now := e.now
	due := func(at clock.Time) bool { return at != 0 && at <= now }
	if due(c.end.NoticeAt) {
		c.ending().NotifyAgain(now) // until it is acknowledged, Disconnect gives up or the connection is forgotten
		t.say(wire.CtlDREQ, c.end.NoticeFlags(), nil)
	}
	if due(c.end.GiveUpAt) {
		c.giveUp()
		return
	}
	if due(c.handshake.SpeakAt()) {
		sayAlive(c, t)
	}
	if due(c.handshake.Due()) {
		c.retryHandshake()
	}
	if shakeUntil(c) <= now {
		shakeTimedOut(c)
		return
	}
	if c.handshake.SilentAt(c.phase, e.cfg.DeadPeer) <= now {
		c.attemptFailed(OutcomeIOTimeout)
		return
	}
	if due(c.end.proof.Due()) {
		c.onProof()
	}
	if due(c.end.doubt.Due()) {
		c.onDoubt()
	}
	if c.phase != phaseOpen {
		return
	}
	if due(t.received.ack.Due()) {
		t.received.raise(recovery.AckAtOnce)
	}
	if due(t.sent.pacedUntil) {
		t.sent.pacedUntil = 0
		t.sent.cc.Grant(now)
		c.want(wantTurn)
	}
	if due(t.sent.loss.ReorderAt()) {
		t.sent.detectLoss()
	}
	if due(t.received.gapDeadline(e.cfg.Stalled)) {
		c.lose()
		return
	}
	if due(t.received.waitDeadline()) {
		t.onWaitDeadline(c.receives.Wait.State() != credit.Promised || e.guard.TakeRepeat(guard.SourceOf(c.identity.remote.IP), now))
	}
	if t.requests.ask.Waiting() && t.onBlocked() {
		return
	}
	if due(t.sent.loss.TimerAt()) {
		c.onTimer(t)
	}
	if c.phase == phaseOpen && c.keepAliveAt() <= now {
		c.ping(t)
	}
}

// onTimer does what follows when the peer has not acknowledged what it owes in time.
func (c *conn) onTimer(t *traffic) {
	switch t.expire() {
	case recovery.PeerDead:
		c.lose()
		return
	case recovery.SendAgain:
		changePort(c, t.sent.loss.Expiries())
		t.repeatOldest()
	case recovery.SendProbe:
	}
	if t.sent.loss.Expiries() > 0 {
		t.sendPing() // what is repeated may be too short to be answered with RST (PROTOCOL §7.4)
	}
}

// blockOnReceive starts the clock of the SEND that is next and waits for the peer to post a receive.
func (t *traffic) blockOnReceive() {
	if !t.requests.ask.Waiting() {
		t.requests.ask.Begin(t.engine.now, t.conn.rtt.Smoothed)
		t.requests.faultAhead(&t.conn.qp.sq, t.access(), t.engine.now)
		t.conn.want(wantLook)
	}
}

// onBlocked asks for the receive limit that blocks a SEND, and ends the connection if the wait took too long. This time-out applies only
// if the peer answers: a silent peer has not said that it has no receive. If the SEND must not use its memory, it ends without waiting for
// a receive (ND specification 11.1), but only after the requests before it are done.
func (t *traffic) onBlocked() (ended bool) {
	e := t.engine
	now := e.now
	if q := &t.conn.qp.sq; t.requests.ask.At() <= now && q.head.Load() == q.next && !q.mayUse(t.access(), q.next) {
		t.requests.ask.End()
		t.localFault(q.next, OutcomeAccessViolation)
		return true
	}
	silent := now.Sub(t.conn.alive.HeardAt()) > 4*credit.AskInterval
	if t.requests.ask.Since().Add(noReceive) <= now {
		if !t.sent.spaces[wire.RequestSpace].Outstanding() && !silent {
			t.requests.ask.End()
			t.completeRequests()
			t.conn.qp.failAt(&e.results, t.conn.qp.sq.next, OutcomeIOTimeout)
			t.terminate(wire.TermNoReceive, 0, 0)
			return true
		}
		t.requests.ask.Restart(now.Add(credit.AskInterval - noReceive))
	}
	if t.requests.ask.At() <= now {
		t.requests.ask.Next(now, t.conn.rtt.Smoothed, silent)
		t.sendPing()
	}
	return false
}

// ping asks an idle peer for a sign of life, and gives it up when it was asked often enough.
func (c *conn) ping(t *traffic) {
	if !c.alive.Ask(c.engine.now, c.engine.cfg.Stalled) {
		c.lose()
		return
	}
	changePort(c, c.alive.Asked())
	t.sendPing()
}

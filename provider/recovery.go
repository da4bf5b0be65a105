package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// armTimer sets the timer for what the peer owes us.
func (c *conn) armTimer() {
	owed := c.unacknowledged()
	c.loss.Arm(c.engine.now, &c.rtt, c.engine.cfg.MinRTO, owed)
	if owed {
		c.touch()
	}
}

// unacknowledged says whether the peer has something left to acknowledge.
func (t *traffic) unacknowledged() bool {
	return t.tx[0].Outstanding() && !t.paused || t.tx[1].Outstanding()
}

// detectLoss marks lost what has to count as that by now, and sets the timer for what is suspected.
func (c *conn) detectLoss() {
	for p := c.loss.Lost(&c.sent, &c.rtt, c.engine.now); p != nil; p = c.loss.Lost(&c.sent, &c.rtt, c.engine.now) {
		c.markLost(p)
	}
	if c.loss.ReorderAt() != 0 {
		c.touch()
	}
}

// markLost takes a transmission in flight for lost: what it carried goes again.
func (c *conn) markLost(p *recovery.Packet) {
	e := c.engine
	c.sent.Mark(p, recovery.Lost)
	c.countLoss(p)
	c.tx[p.Kind].Missing(space.Piece{From: p.From, To: p.To, Losses: p.Losses})
	e.stats.PacketsLost++
	e.flight.Note(e.now, FlightLoss, c.id, 0, uint32(p.Kind))
	c.cc.Lost(int(p.Size), p.At)
	c.engine.heard.join(c)
	c.activate()
}

// expire handles the probe or retransmission timer.
func (c *conn) expire() {
	e := c.engine
	verdict := c.loss.Expire(e.now, c.sent.Next(), e.cfg.DeadPeer)
	if verdict == recovery.SendProbe {
		e.stats.Probes++
		e.flight.Note(e.now, FlightProbe, c.id, 0, 0)
		for kind := range c.tx {
			c.resendNewest(wire.Space(kind))
		}
		c.armTimer()
		return
	}
	times := c.loss.Expiries()
	e.stats.Timeouts++
	e.flight.Note(e.now, FlightTimeout, c.id, uint32(times), 0)
	if verdict == recovery.PeerDead {
		c.lose()
		return
	}
	if times == maxMarkable && c.rtt.Fresh() {
		c.ecn = wire.NotECT
	}
	if times == 1 && c.joins && c.runs.TimedOut(e.now) {
		e.stats.RunsPaused++
	}
	changePort(c, times)
	c.cc.TimedOut(e.controller, c.rtt.Smoothed)
	c.rtt.Expired()
	for kind := range c.tx {
		if c.tx[kind].Outstanding() && !c.holds(wire.Space(kind)) {
			c.resendOldest(wire.Space(kind))
		}
	}
	c.armTimer()
}

// maxMarkable time-outs in a row, before any data arrived, mean that the path may lose packets that can be marked
// (RFC 9000 §13.4.2.1): they go on as others.
const maxMarkable = 3

// resendNewest sends the newest packet of a space that is in flight again, asking for an acknowledgement.
func (c *conn) resendNewest(kind wire.Space) {
	for n := c.sent.Next(); n > c.sent.Oldest(); {
		n--
		if p := c.sent.Packet(n); p.InFlight() && p.Kind == recovery.Kind(kind) {
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
		if !p.InFlight() || p.Kind != recovery.Kind(kind) || una.Before(p.From) || !una.Before(p.To) {
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
	if kind == wire.ResponseSpace && c.mayHaveArrived(p, c.access(), &c.rtt) || !c.beginAgain() {
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

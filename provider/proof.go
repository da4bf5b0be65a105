package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/lifetime"
	"github.com/ndxdp/ndxdp/wire"
)

// This file lets a peer that has lost its state come back (PROTOCOL §7.3): a REQ that wants the ND endpoints of an open connection, or of an
// attempt of the peer's, makes that one prove itself alive. RST shows that its peer is dead. Silence shows nothing: the peer's process may be stopped, and
// whoever shares its address could then end its connections.

// contest takes a REQ for the ND endpoints of a connection that there is. Only its sender's own address may make that one prove
// itself: the REQ needs a cookie. Until it is known which of the two is right, the REQ is dropped; it comes again.
func (e *Engine) contest(c *conn, p *RxPacket, body []byte, hello *wire.Hello) wire.DropReason {
	if c.home.Load() == e && !c.mayBeContested() {
		return e.reply(p, e.guard.reject(p, hello, wire.RejectExists, e.now))
	}
	if !e.guard.proves(p, body, hello, e.now) {
		return e.reply(p, e.guard.challenge(p, body, hello, e.now))
	}
	if d := e.onHomeOf(c, (*conn).contested); d != wire.DropNone {
		return d
	}
	if e.group.isAlive(c) {
		return e.reply(p, e.guard.reject(p, hello, wire.RejectExists, e.now))
	}
	return wire.DropState
}

// mayBeContested says whether the peer may have forgotten the connection and want its ND endpoints for another one. An attempt that this side
// made is nothing that a peer could have forgotten.
func (l *lasting) mayBeContested() bool {
	return l.phase == phaseOpen || l.phase.Attempt() && !l.active
}

// contested demands that the connection prove itself alive.
func (c *conn) contested() wire.DropReason {
	if !c.mayBeContested() {
		return wire.DropState
	}
	switch p := c.end.proof; {
	case p == nil:
		c.engine.stats.Contested++
		c.ending().proof = lifetime.NewProof(c.engine.now, c.rtt.Smoothed)
		c.touch()
	case p.Given(c.alive.HeardAt()):
		c.engine.group.setAlive(c, true)
	}
	return wire.DropNone
}

// onProof asks for the sign of life that is due, or ends the demand. The connection stays as it is without one.
func (c *conn) onProof() {
	p := c.end.proof
	given := p.Given(c.alive.HeardAt())
	if !p.Step(c.engine.now, uint32(c.sent.Next())) {
		c.endProof()
	} else if !given {
		c.engine.stats.ProofPings++
		c.sendPing()
	}
}

// denied takes an RST whose token is not that of the connection, as of a host that lost its key too.
func denied(number uint32) func(*conn) wire.DropReason {
	return func(c *conn) wire.DropReason {
		if !c.end.proof.Denied(number, c.alive.HeardAt()) {
			return wire.DropRSTToken
		}
		return c.reset()
	}
}

// endProof ends the demand; the next REQ may make a new one.
func (c *conn) endProof() {
	if c.end.proof != nil {
		c.ending().proof = nil
		c.engine.group.setAlive(c, false)
	}
}

// isAlive says whether a connection, which may be on any engine, has given the proof that was demanded of it.
func (g *group) isAlive(c *conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, ok := g.alive[c.id]
	return ok
}

// setAlive notes it for the leader.
func (g *group) setAlive(c *conn, alive bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if alive {
		g.alive[c.id] = struct{}{}
	} else {
		delete(g.alive, c.id)
	}
}

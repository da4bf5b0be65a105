package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/lifetime"
	"github.com/ndxdp/ndxdp/wire"
)

// This file lets a peer that has lost its state connect again (PROTOCOL §7.3). A REQ for the ND endpoints of an open connection, or
// of an attempt of the peer, makes the old connection prove that it is alive. An RST shows that its peer is dead. Silence shows
// nothing, because the peer's process may be stopped, and another host behind its address could end its connections.

// contest handles a REQ for the ND endpoints of an existing connection. The REQ needs a cookie, so only the owner of its source
// address can demand a proof. The REQ is dropped until the proof is decided, because its sender repeats it.
func (e *Engine) contest(c *conn, p *RxPacket, body []byte, hello *wire.Hello) wire.DropReason {
	if c.home.Load() == e && !c.mayBeContested() || c.identity.sealed != 0 { // a plain REQ shows nothing to an encrypted connection
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

// mayBeContested reports whether the peer may have lost the connection and request its ND endpoints again. A peer cannot have lost
// an attempt that this side made.
func (c *conn) mayBeContested() bool {
	return c.phase == phaseOpen || c.phase.Attempt() && !c.identity.active
}

// contested demands a proof that the connection is alive.
func (c *conn) contested() wire.DropReason {
	if !c.mayBeContested() {
		return wire.DropState
	}
	switch p := c.end.proof; {
	case p == nil:
		c.engine.stats.Contested++
		c.ending().proof = lifetime.NewProof(c.engine.now, c.rtt.Smoothed)
	case p.Given(c.alive.HeardAt()):
		c.engine.group.setAlive(c, true)
	}
	return wire.DropNone
}

// onProof sends the PING that is due, or ends the demand. Without an answer, the connection does not change.
func (c *conn) onProof() {
	p := c.end.proof
	given := p.Given(c.alive.HeardAt())
	if !p.Step(c.engine.now, uint32(c.traffic.sent.packets.Next())) {
		c.endProof()
	} else if !given {
		c.engine.stats.ProofPings++
		c.traffic.sendPing()
	}
}

// denied handles an RST without the connection's token, as sent by a host that has also lost its key.
func denied(number uint32) func(*conn) wire.DropReason {
	return func(c *conn) wire.DropReason {
		if !c.end.proof.Denied(number, c.alive.HeardAt()) {
			return wire.DropRSTToken
		}
		return c.reset()
	}
}

// endProof ends the demand. The next REQ may make a new one.
func (c *conn) endProof() {
	if c.end.proof != nil {
		c.ending().proof = nil
		c.engine.group.setAlive(c, false)
	}
}

// isAlive reports whether a connection, which may be on any engine, has given the demanded proof.
func (g *group) isAlive(c *conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, ok := g.alive[c.identity.id]
	return ok
}

// setAlive stores the result for the leader.
func (g *group) setAlive(c *conn, alive bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if alive {
		g.alive[c.identity.id] = struct{}{}
	} else {
		delete(g.alive, c.identity.id)
	}
}

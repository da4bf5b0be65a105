package provider

import (
	"cmp"
	"encoding/binary"

	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/provider/internal/sourceport"
	"github.com/ndxdp/ndxdp/wire"
)

// This file maintains the UDP source ports of a connection's two ends (PROTOCOL §6.1). The peer's port may change and is then validated.
// This side's port changes when the path of the old port is silent.

// fromElsewhere takes an intact packet of the connection from a source port that is not known to be the peer's. It reports whether the packet is
// to be used: its number takes the place of the port. The peer is asked for a sign that it is its own, and what the answer comes from is its port
// from then on.
func (c *conn) fromElsewhere(p *RxPacket, h wire.BaseHeader, number uint64) (use bool) {
	e := c.engine
	c.leaveIdle()
	c.touch()
	if use = near(c, number); c.phase == phaseLingering {
		return use
	}
	ch := &c.ending().challenge
	if msg, d := p.Control(h); d == wire.DropNone && msg.Opcode == wire.CtlResponse && ch.Answered(binary.BigEndian.Uint64(msg.Body)) {
		c.remote.Port = p.From.Port
		e.stats.PathsChanged++
		return true
	}
	if ch.Due(e.now, cmp.Or(c.rtt.Smoothed, recovery.InitialRTO)) {
		if ch.InVain(e.now, c.rtt.Silence(e.cfg.MinRTO)) {
			changePort(c, 0)
		}
		if body, ok := c.control(wire.CtlChallenge, 0, wire.ChallengeLen); ok {
			binary.BigEndian.PutUint64(body, ch.Send(e.now, e.rng.Uint64()))
			c.sealControl()
			e.stats.Challenges++
		}
	}
	return use
}

// near reports whether a packet's number takes the place of its source port (PROTOCOL §6.1).
func near(c *conn, number uint64) bool {
	c.leaveIdle()
	return c.received.Near(number, sourceport.Reach)
}

// changePort sends the following packets of a connection from another source port. If the network hashes ports, they take another path. It
// does so when sent packets stayed unanswered for an even number of times in a row. If the link does not give the port, nothing changes
// until the next time.
func changePort(c *conn, times int) {
	e := c.engine
	if times%2 != 0 {
		return
	}
	local := wire.Endpoint{IP: c.local.IP, Port: wire.SourcePort(e.rng.Uint64())}
	asks, ok := c.phase == phaseReqSent, false
	var path Path
	if asks {
		asked, err := e.link.Connect(local, c.destination())
		path, ok = asked, err == nil
	} else {
		path, ok = replyPath(e, c, e.link.Hop(c.path), local.Port, c.peerPort)
	}
	if !ok {
		return
	}
	if asks {
		c.handshake.Leave(c.path, e.forget)
	} else {
		e.forget(c.path)
	}
	e.directory.answered(c) // if it is asking
	c.path, c.local = path, local
	e.stats.PortsChanged++
	if asks {
		e.directory.ask(c)
	}
}

// replyPath makes a path from a local source port, on the link of an engine, to a UDP port of a connection's peer with link-layer address
// mac.
func replyPath(e *Engine, c *conn, mac [6]byte, from, to uint16) (Path, bool) {
	return e.link.Reply(&RxPacket{From: c.remote, To: wire.Endpoint{IP: c.local.IP, Port: e.cfg.ReceivePort}, MAC: mac}, from, to)
}

// redirect sends what follows to the UDP port that the peer said it receives on (PROTOCOL §7.1). When the link gives no path, nothing
// has changed.
func redirect(c *conn, port uint16) bool {
	if port == c.peerPort {
		return true
	}
	e := c.engine
	path, ok := replyPath(e, c, e.link.Hop(c.path), c.local.Port, port)
	if ok {
		e.forget(c.path)
		c.path, c.peerPort = path, port
	}
	return ok
}

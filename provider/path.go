package provider

import (
	"cmp"
	"encoding/binary"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/wire"
)

// This file handles the UDP source ports of a connection's two ends (PROTOCOL §6.1). The peer's port may change and is then
// validated. This side changes its port if the path of the old port is silent.

// fromElsewhere handles an intact packet of the connection from a source port that is not validated for the peer. It reports
// whether to use the packet, because its number is close enough. The peer is sent a CHALLENGE. The port from which it answers
// becomes its port.
func (c *conn) fromElsewhere(p *RxPacket, h wire.BaseHeader, number uint64) (use bool) {
	e := c.engine
	if use = near(c, number); c.phase == phaseLingering {
		return use
	}
	ch := &c.ending().challenge
	if msg, d := p.Control(h); d == wire.DropNone && msg.Opcode == wire.CtlResponse && ch.Answered(binary.BigEndian.Uint64(msg.Body)) {
		c.identity.remote.Port = p.From.Port
		e.stats.PathsChanged++
		return true
	}
	if ch.Due(e.now, cmp.Or(c.rtt.Smoothed, recovery.InitialRTO)) {
		if ch.InVain(e.now, c.rtt.Silence(minRTO)) {
			changePort(c, 0)
		}
		c.withTraffic(func(t *traffic) {
			if body, ok := t.control(wire.CtlChallenge, 0, wire.ChallengeLen); ok {
				binary.BigEndian.PutUint64(body, ch.Send(e.now, e.rng.Uint64()))
				t.sealControl()
				e.stats.Challenges++
			}
		})
	}
	return use
}

// near reports whether a packet from an unvalidated port has a number close enough to be used (PROTOCOL §6.1).
func near(c *conn, number uint64) (is bool) {
	c.withTraffic(func(t *traffic) { is = t.received.numbers.Near(number, portReach) })
	return is
}

// changePort changes the source port of a connection, so that a network that hashes ports sends its packets by another path. It
// does so when sent packets were not answered an even number of times in a row. If the link does not provide the port, nothing
// changes until the next time.
func changePort(c *conn, times int) {
	e := c.engine
	if times%2 != 0 {
		return
	}
	local := wire.Endpoint{IP: c.identity.local.IP, Port: wire.SourcePort(e.rng.Uint64())}
	asks, ok := c.identity.unanswered(), false
	var path Path
	if asks {
		asked, err := e.link.Connect(local, c.identity.destination())
		path, ok = asked, err == nil
	} else {
		path, ok = replyPath(e, c, e.link.Hop(c.identity.path), local.Port, c.identity.peerPort)
	}
	if !ok {
		return
	}
	if asks {
		c.handshake.Leave(c.identity.path, e.forget)
	} else {
		e.forget(c.identity.path)
	}
	e.directory.answered(c) // if its request is unanswered
	c.identity.path, c.identity.local = path, local
	e.stats.PortsChanged++
	if asks {
		e.directory.ask(c)
	}
}

// replyPath makes a path from a local source port to a UDP port of the connection's peer, on an engine's link. mac is the
// link-layer address of the next hop.
func replyPath(e *Engine, c *conn, mac [6]byte, from, to uint16) (Path, bool) {
	return e.link.Reply(&RxPacket{From: c.identity.remote, To: wire.Endpoint{IP: c.identity.local.IP, Port: e.cfg.ReceivePort}, MAC: mac}, from, to)
}

// redirect sends following packets to the UDP port on which the peer receives (PROTOCOL §7.1). It returns false, without a change,
// if the link provides no path.
func redirect(c *conn, port uint16) bool {
	if port == c.identity.peerPort {
		return true
	}
	e := c.engine
	path, ok := replyPath(e, c, e.link.Hop(c.identity.path), c.identity.local.Port, port)
	if ok {
		e.forget(c.identity.path)
		c.identity.path, c.identity.peerPort = path, port
	}
	return ok
}

// portReach is the largest distance of the packet number of a packet from an unvalidated port to the largest number received. It
// exceeds what is ever in flight, and is small enough that a number is harder to guess than a port.
const portReach = 1 << 16

// maxChallengeWait bounds the time that a CHALLENGE stays unanswered before this side changes its port again.
const maxChallengeWait = time.Second

// challenge is the newest CHALLENGE. The zero value was never sent.
type challenge struct {
	nonce     uint64
	at        clock.Time // when it was last sent
	since     clock.Time // when it was first sent, or when our port last changed because of it
	doublings uint8      // doublings of the time until the next change
	out       bool       // not answered yet
}

// Due reports whether another CHALLENGE may leave: gap after the previous one.
func (ch *challenge) Due(now clock.Time, gap time.Duration) bool {
	return ch.at == 0 || now.Sub(ch.at) >= gap
}

// Send records a CHALLENGE and returns its nonce: fresh, or the previous nonce if it was not answered, because the answer may take
// longer than the last round trip.
func (ch *challenge) Send(now clock.Time, fresh uint64) uint64 {
	if !ch.out {
		ch.nonce, ch.out, ch.since = fresh, true, now
	}
	ch.at = now
	return ch.nonce
}

// Answered reports whether an answer has the nonce of the challenge. A challenge is answered once.
func (ch *challenge) Answered(nonce uint64) bool {
	if !ch.out || nonce != ch.nonce {
		return false
	}
	ch.out, ch.doublings = false, 0
	return true
}

// InVain reports whether the CHALLENGE has not been answered for timeout, which doubles each time. The caller then changes the
// port.
func (ch *challenge) InVain(now clock.Time, timeout time.Duration) bool {
	wait := min(timeout<<ch.doublings, maxChallengeWait)
	if !ch.out || now.Sub(ch.since) < wait {
		return false
	}
	ch.since = now
	if wait < maxChallengeWait {
		ch.doublings++
	}
	return true
}

package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/lifetime"
	"github.com/ndxdp/ndxdp/wire"
)

// This file handles ICMP errors about packets that did not arrive (PROTOCOL §7.7). Anyone can send ICMP errors. So an error about a request
// counts only until the peer has answered the request. An error that no process has the port of an established connection's peer only makes
// the peer prove that it is alive. It must also quote fields that only hosts on the path know.

// Quote is what an ICMP error repeats of the packet that it is about: addresses, UDP ports, and the beginning of the ND packet,
// perhaps nothing. Sender is whose error it is; zero when that is not known.
type Quote struct {
	Sender   [16]byte
	From, To Endpoint
	Packet   []byte
}

// repeatsUntilRefused is how often a REQ was repeated when it counts that nobody has the port that it goes to (PROTOCOL §7.7).
const repeatsUntilRefused = 2

// Unreachable ends the attempt whose request an ICMP error quotes, with what the error means: OutcomeHostUnreachable,
// OutcomeNetworkUnreachable, OutcomePathTooSmall or OutcomeRefused. OutcomeRefused about a recent packet of an established connection makes its
// peer prove that it is there. Unreachable returns false, and does nothing, when the quote is of neither. The leading engine's owner calls it.
func (e *Engine) Unreachable(q *Quote, o Outcome) bool {
	if id, number, ok := wire.ParseQuotedPacket(q.Packet); ok {
		return o == OutcomeRefused && e.portUnheld(q, id, number)
	}
	quote, ok := wire.ParseQuote(q.Packet)
	if !ok || q.To.Port != e.cfg.UDPPort {
		return false
	}
	c := e.directory.asking[asked{q.To.IP, q.From.Port}]
	if quote.HasConnID {
		c = e.group.conns.lookup(quote.ConnID)
	}
	if c == nil || !c.identity.quoted(q, &quote) {
		return false
	}
	if c.phase == phaseLingering && c.end.Word == lifetime.SayReject {
		return true // the attempt is over: by the quote of an earlier packet, for one
	}
	k := c.connector
	if c.phase != phaseReqSent && c.phase != phaseShaking || k == nil || k.answered {
		return false
	}
	if o == OutcomeRefused && c.handshake.Repeats < repeatsUntilRefused {
		return true // the port may be on its way from one process to another
	}
	k.returned = true
	c.attemptFailed(o)
	return true
}

// portUnheld handles the report of the peer's kernel that no process has the UDP port of a packet to the connection id peerID. It returns
// whether the report is believed so far. Routers and firewalls send the same error about live peers, so only the peer's own host is
// believed. Everything that the error quotes of an encrypted connection is visible on the path, so it proves nothing there (PROTOCOL §7.7).
func (e *Engine) portUnheld(q *Quote, peerID uint64, number uint32) bool {
	c := e.directory.peers.Find(peerKey{q.To.IP, peerID})
	if c == nil || c.identity.sealed != 0 || q.Sender != q.To.IP || q.From.IP != c.identity.local.IP || q.To.Port != c.identity.peerPort && q.To.Port != c.bulkPort {
		return false
	}
	return e.onHomeOf(c, func(c *conn) wire.DropReason { return c.portUnheld(number) }) == wire.DropNone
}

// portUnheld sends the peer a keep-alive, once for all errors before the answer. It does nothing if the quoted packet is older than a
// packet that the peer has acknowledged.
func (c *conn) portUnheld(number uint32) wire.DropReason {
	if c.phase == phaseLingering || c.end.doubt != nil {
		return wire.DropNone // an error about an earlier packet has done it
	}
	if c.phase != phaseOpen {
		return wire.DropState
	}
	d := wire.DropState
	c.withTraffic(func(t *traffic) {
		if _, ok := t.sent.packets.Newest(number); ok {
			d = wire.DropNone
			c.engine.stats.PortsUnheld++
			c.ending().doubt = lifetime.NewDoubt(c.engine.now, c.rtt.Smoothed)
			t.sendPing()
		}
	})
	return d
}

// onDoubt ends the wait for that sign of life, and the connection when there was none.
func (c *conn) onDoubt() {
	gone := c.end.doubt.Confirmed(c.alive.HeardAt())
	c.ending().doubt = nil
	if gone {
		c.lost(OutcomeCanceled)
		c.linger(lifetime.SayAbort, 0, nil) // in case that somebody lied
	}
}

package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/lifetime"
	"github.com/ndxdp/ndxdp/wire"
)

// This file takes what routers and hosts say about requests that did not reach anybody: ICMP errors (PROTOCOL §7.7). Anyone can
// send them, so they count for an attempt that the peer has not answered, and for nothing else.

// Quote is what an ICMP error repeats of the packet that it is about: addresses, UDP ports, and the beginning of the ND packet, perhaps nothing.
type Quote struct {
	From, To Endpoint
	Packet   []byte
}

// repeatsUntilRefused is how often a REQ was repeated when it counts that nobody has the port that it goes to (PROTOCOL §7.7).
const repeatsUntilRefused = 2

// Unreachable ends the attempt whose request an ICMP error quotes, with what the error means: OutcomeHostUnreachable,
// OutcomeNetworkUnreachable, OutcomePathTooSmall or OutcomeRefused. It returns false, and does nothing, when the quote is of no request of ours, or of
// one that the peer has answered. The leading engine's owner calls it.
func (e *Engine) Unreachable(q *Quote, o Outcome) bool {
	quote, ok := wire.ParseQuote(q.Packet)
	if !ok || q.To.Port != e.cfg.UDPPort {
		return false
	}
	c := e.directory.asking[asked{q.To.IP, q.From.Port}]
	if quote.HasConnID {
		c = e.group.conns.lookup(quote.ConnID)
	}
	if c == nil || !c.quoted(q, &quote) {
		return false
	}
	if c.phase == phaseLingering && c.end.Word == lifetime.SayReject {
		return true // the attempt is over: by the quote of an earlier packet, for one
	}
	k := c.connector
	if c.phase != phaseReqSent || k == nil || k.answered {
		return false
	}
	if o == OutcomeRefused && c.handshake.Repeats < repeatsUntilRefused {
		return true // the port may be on its way from one process to another
	}
	k.returned = true
	c.attemptFailed(o)
	return true
}

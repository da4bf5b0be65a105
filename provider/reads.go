package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// This file takes in the peer's READs, and decides whether their answers go again.

// onReadRequest takes a READ_REQ. READ ids count from zero, so a request is identified by its number, and a repeated
// packet never gets here: its PSN is old.
func (c *conn) onReadRequest(op *wire.Op) bool {
	s := &c.served
	switch {
	case op.Number != s.tail:
		return c.refuse(op, wire.TermProtocol)
	case s.full(c.ird) && !c.answerArrived():
		return c.refuse(op, wire.TermReadLimit)
	case !c.access().readable(Token(op.Token), op.Address, op.Total):
		return c.refuse(op, wire.TermReadAccess)
	}
	s.add(op)
	c.activate()
	return true
}

// answerArrived takes a READ beyond the inbound limit for the acknowledgement of the oldest answer: who asks within its own limit has that
// answer, and the packets that said so may have been lost. It reports false when the answer was not sent whole.
func (c *conn) answerArrived() bool {
	s := &c.served
	if s.head == c.tx[wire.ResponseSpace].Next().Message() {
		return false
	}
	head := s.head
	c.acknowledgeBelow(wire.ResponseSpace, space.At(head+1, 0))
	return s.head != head
}

// mayHaveArrived says that a piece of READ responses cannot be sent again, because the memory behind it is gone, and need not be as far as
// we know: the peer has not acknowledged anything that left a good round trip later. Its requester may have ended the access itself, once it had
// the answer, by a word to our application that was faster than the acknowledgement (PROTOCOL §7.6).
func (c *conn) mayHaveArrived(p space.Piece) bool {
	if c.served.termQueued || !c.served.gone(c.access(), p) {
		return false
	}
	for n := c.sent.Next(); n > c.sent.Floor(); {
		n--
		if t := c.sent.Packet(n); t.Kind == recovery.Responses && t.From.Before(p.To) && p.From.Before(t.To) {
			passed := c.sent.Passed()
			return passed <= n || c.sent.Packet(passed).At.Sub(t.At) <= c.rtt.Smoothed+4*c.rtt.Variance
		}
	}
	return false
}

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
func (t *traffic) mayHaveArrived(p space.Piece, mem access, rtt *recovery.RTT) bool {
	if t.served.termQueued || !t.served.gone(mem, p) {
		return false
	}
	for n := t.sent.Next(); n > t.sent.Floor(); {
		n--
		if s := t.sent.Packet(n); s.Kind == recovery.Responses && s.From.Before(p.To) && p.From.Before(s.To) {
			passed := t.sent.Passed()
			return passed <= n || t.sent.Packet(passed).At.Sub(s.At) <= rtt.Smoothed+4*rtt.Variance
		}
	}
	return false
}

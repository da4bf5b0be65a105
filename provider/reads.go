package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/access"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// This file takes in the peer's READs, and decides whether their answers go again.

// onReadRequest takes a READ_REQ. READ ids count from zero, so a request is identified by its number. One that comes
// again never gets here: its place was passed.
func (t *traffic) onReadRequest(op *wire.Op) bool {
	s := &t.served
	switch {
	case op.Number != s.Next():
		return t.refuse(op, wire.TermProtocol)
	case s.Full(t.ird) && !t.answerArrived():
		return t.refuse(op, wire.TermReadLimit)
	case !t.access().Readable(Token(op.Token), op.Address, op.Total):
		return t.refuse(op, wire.TermReadAccess)
	}
	s.Add(op)
	t.want(wantTurn)
	return true
}

// answerArrived takes a READ beyond the inbound limit for the acknowledgement of the oldest answer: who asks within its own limit has that
// answer, and the packets that said so may have been lost. It reports false when the answer was not sent whole.
func (r *repeater) answerArrived() bool {
	a := &r.served
	head := a.Oldest()
	if head == r.tx[wire.ResponseSpace].Next().Message() {
		return false
	}
	r.acknowledgeBelow(wire.ResponseSpace, space.At(head+1, 0))
	return a.Oldest() != head
}

// mayHaveArrived says that a piece of READ responses cannot be sent again, because the memory behind it is gone, and need not be as far as
// we know: the peer has not acknowledged anything that left a good round trip later. Its requester may have ended the access itself, once it had
// the answer, by a word to our application that was faster than the acknowledgement (PROTOCOL §7.6).
func (r *repeater) mayHaveArrived(p space.Piece, mem *access.Memory, rtt *recovery.RTT) bool {
	if r.served.Terminated() || !r.served.Gone(mem, p) {
		return false
	}
	for n := r.sent.Next(); n > r.sent.Floor(); {
		n--
		if a := r.sent.Packet(n); a.Kind == recovery.Responses && a.From.Before(p.To) && p.From.Before(a.To) {
			passed := r.sent.Passed()
			return passed <= n || r.sent.Packet(passed).At.Sub(a.At) <= rtt.Smoothed+4*rtt.Variance
		}
	}
	return false
}

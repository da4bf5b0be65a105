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

// answerArrived takes a READ beyond the inbound limit as acknowledgement of the oldest answer. A peer that respects its own limit has this
// answer, and the packets that acknowledged it may have been lost. It returns false if the answer was not sent completely.
func (r *repeater) answerArrived() bool {
	a := &r.served
	head := a.Oldest()
	if head == r.tx[wire.ResponseSpace].Next().Message() {
		return false
	}
	r.acknowledgeBelow(wire.ResponseSpace, space.At(head+1, 0))
	return a.Oldest() != head
}

// mayHaveArrived says whether a segment of READ responses whose memory is gone may be skipped instead of sent again. It may if the peer has
// not acknowledged any packet sent a good round trip later. The requester may have received the answer and ended the access itself, by a
// message to the local application that was faster than the acknowledgement (PROTOCOL §7.6).
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

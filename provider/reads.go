package provider

import (
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
	case s.Full(t.conn.ird) && !t.answerArrived():
		return t.refuse(op, wire.TermReadLimit)
	case !t.access().Readable(Token(op.Token), op.Address, op.Total):
		return t.refuse(op, wire.TermReadAccess)
	}
	s.Add(op)
	t.conn.want(wantTurn)
	return true
}

// answerArrived takes a READ beyond the inbound limit as acknowledgement of the oldest answer. A peer that respects its own limit has this
// answer, and the packets that acknowledged it may have been lost. It returns false if the answer was not sent completely.
func (t *traffic) answerArrived() bool {
	a := &t.served
	head := a.Oldest()
	if head == t.sent.spaces[wire.ResponseSpace].Next().Message() {
		return false
	}
	t.acknowledgeBelow(wire.ResponseSpace, space.At(head+1, 0))
	return a.Oldest() != head
}

// mayHaveArrived says whether READ responses from at up to stop, whose memory is gone, may be skipped instead of sent again. They may if the
// peer has not acknowledged any packet sent a good round trip later. The requester may have received the answer and ended the access itself,
// by a message to the local application that was faster than the acknowledgement (PROTOCOL §7.6). The caller asks after a packet could not be
// filled, because a process may lose memory at any moment.
func (t *traffic) mayHaveArrived(at, stop space.Place) bool {
	for n := t.sent.packets.Next(); n > t.sent.packets.Floor(); {
		n--
		if a := t.sent.packets.Packet(n); a.Kind == recovery.Responses && a.From.Before(stop) && at.Before(a.To) {
			passed := t.sent.packets.Passed()
			return passed <= n || t.sent.packets.Packet(passed).At.Sub(a.At) <= t.conn.rtt.Smoothed+4*t.conn.rtt.Variance
		}
	}
	return false
}

package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/access"
	"github.com/ndxdp/ndxdp/provider/internal/packet"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// execute carries out what a packet has from the place on that is next in its space. It reports false when the connection ended, or
// when a SEND found no receive; what was done before that is done.
func (t *traffic) execute(p *RxPacket, h wire.BaseHeader) bool {
	rs := &t.received.spaces[h.Space()]
	w, mem := &t.engine.walk, t.access()
	op := &w.Op
	for w.Start(p, h, rs.place(h)); w.More(); {
		if d := w.Step(); d != wire.DropNone {
			return t.malformed(op, d)
		}
		length := int(op.Length)
		switch done := int64(rs.next - w.From); {
		case !rs.next.Before(w.To):
			w.Skip(length)
			continue
		case op.Opcode == wire.OpTerm: // for what is missing, whatever arrived of the piece that it stands for
		case done > 0: // a piece that was cut otherwise before
			if int(done) > length {
				return t.malformed(op, wire.DropLength)
			}
			w.Skip(int(done))
			op.Offset += uint32(done)
			op.Length -= uint16(done)
		}
		if !rs.complete(op) {
			return t.refuse(op, wire.TermProtocol)
		}
		if !t.executeOp(op, w, mem) {
			return false
		}
		rs.next = w.To
	}
	return true
}

// complete copies the fields that only the first segment of a message carries into an operation that continues the message. It returns
// false if the segments contradict each other.
func (rs *recvSpace) complete(op *wire.Op) bool {
	switch {
	case op.Opcode == wire.OpTerm:
	case op.Offset > 0:
		return rs.continues(op)
	case op.Flags&wire.OpLast == 0:
		rs.message = *op
	}
	return true
}

// continues is complete for an operation that continues the newest message.
func (rs *recvSpace) continues(op *wire.Op) bool {
	m, end := &rs.message, uint64(op.Offset)+uint64(op.Length)
	if op.Opcode != wire.OpMore && (op.Opcode != m.Opcode || op.Total != m.Total) {
		return false // a first piece again, of which only the rest is new
	}
	if last := op.Flags&wire.OpLast != 0; end > uint64(m.Total) || last != (end == uint64(m.Total)) {
		return false
	}
	op.Opcode, op.Token, op.Number, op.Total, op.Imm = m.Opcode, m.Token, m.Number, m.Total, m.Imm
	op.Address = m.Address + uint64(op.Offset)
	op.Flags |= m.Flags & wire.OpSolicit
	return true
}

// executeOp carries out one operation. w is at its payload.
func (t *traffic) executeOp(op *wire.Op, w *packet.Walk, mem *access.Memory) bool {
	if op.Opcode == wire.OpWrite {
		return mem.Write(op, w) || t.refuse(op, wire.TermAccess)
	}
	mem.Done() // the operation before may have invalidated what was found
	switch op.Opcode {
	case wire.OpSend, wire.OpSendInv, wire.OpSendImm:
		return t.onSend(op, w, mem)
	case wire.OpReadReq:
		return t.onReadRequest(op)
	case wire.OpReadResp:
		return t.onReadResponse(op, w)
	case wire.OpTerm:
		t.onTerm(op)
		return false
	default: // ParseOp lets nothing else through
		return t.refuse(op, wire.TermProtocol)
	}
}

// onSend places one piece of a SEND into the oldest receive, and completes the receive with the last one.
func (t *traffic) onSend(op *wire.Op, r *packet.Walk, mem *access.Memory) bool {
	qp := t.conn.qp
	if op.Number != t.conn.receives.Next() {
		return t.refuse(op, wire.TermProtocol)
	}
	if qp == nil || qp.State() == QPClosed {
		return t.refuse(op, wire.TermClosed)
	}
	if qp.State() != QPReady {
		return t.refuse(op, wire.TermFlushed)
	}
	if qp.rq.waiting() == 0 && !t.takeReceive(op) {
		return false
	}
	head := qp.rq.head.Load()
	wr := qp.rq.wr(head)
	if op.Total > wr.capacity {
		t.engine.results.Complete(qp.recvCQ, &Result{
			QPContext: qp.context, RequestContext: wr.context, Outcome: OutcomeBufferOverflow, Kind: KindReceive,
		})
		qp.rq.head.Store(head + 1)
		return t.refuse(op, wire.TermSendTooLong)
	}
	if !mem.Scatter(qp.rq.sgl(head), op.Offset, uint32(op.Length), op.Flags&wire.OpLast != 0, r) {
		t.conn.blame(mem.Fault(qp.rq.sgl(head), OutcomeAccessViolation))
		t.engine.results.Complete(qp.recvCQ, &Result{
			QPContext: qp.context, RequestContext: wr.context, Outcome: OutcomeAccessViolation, Kind: KindReceive,
		})
		qp.rq.head.Store(head + 1)
		return t.refuse(op, wire.TermLocal)
	}
	if op.Flags&wire.OpLast == 0 {
		return true
	}
	res := Result{
		QPContext: qp.context, RequestContext: wr.context, Bytes: op.Total, Kind: KindReceive,
		Solicited: op.Flags&wire.OpSolicit != 0,
	}
	if !qp.special(t.engine.mem, op, &res) {
		return t.refuse(op, wire.TermInvalidate)
	}
	if !t.engine.results.Complete(qp.recvCQ, &res) {
		return t.refuse(op, wire.TermLocal) // before it is acknowledged: its sender must not take it for received
	}
	t.engine.results.Count(uint8(KindReceive), op.Total)
	t.conn.receives.Took()
	t.received.woke = res.Solicited
	qp.rq.head.Store(head + 1)
	t.conn.endWait()
	t.received.checkReceiveLimit()
	return true
}

// onReadResponse places one piece of an answer to the oldest outstanding READ. The peer names our read id and an offset,
// never an address: it cannot aim.
func (t *traffic) onReadResponse(op *wire.Op, r *packet.Walk) bool {
	o := &t.requests.reads
	qp := t.conn.qp
	if t.requests.numbers.noRequests { // we gave the READ up
		if r != nil {
			r.Skip(int(op.Length))
		}
		return true
	}
	if qp == nil || o.Waiting() == 0 {
		return t.refuse(op, wire.TermProtocol)
	}
	seq := o.Oldest()
	wr := qp.sq.wr(seq)
	if !o.Next(op.Message, op.Offset) || op.Total != wr.length {
		return t.refuse(op, wire.TermProtocol)
	}
	last := op.Flags&wire.OpLast != 0
	if !t.access().Scatter(qp.sq.sgl(seq), op.Offset, uint32(op.Length), last, r) {
		t.engine.stats.Drop(wire.DropToken)
		t.localFault(seq, OutcomeAccessViolation)
		return false
	}
	o.Take(uint32(op.Length))
	t.sent.delivered(int(op.Length))
	if last {
		wr.done = true
		o.Remove(wr.length)
		t.completeRequests()
		t.conn.want(wantTurn)
	}
	return true
}

// The functions below take in the peer's READs, and decide whether their answers go again.

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

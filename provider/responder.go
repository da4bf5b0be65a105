package provider

import (
	"sync/atomic"

	"github.com/ndxdp/ndxdp/wire"
)

// reader walks the bytes of a received packet across its pieces.
type reader struct {
	pkt  *RxPacket
	frag int
	rest []byte // what is left of the current piece
	left int    // what is left of the packet
	at   int    // bytes consumed of what the packet carries, for the padding rule
}

func (r *reader) reset(p *RxPacket) {
	r.pkt, r.frag = p, 0
	r.rest = p.Frags[0].Data[p.at:]
	r.left = p.Len - p.at
	r.at = 0
}

// next returns up to n bytes that lie together, and at least one while there are any.
func (r *reader) next(n int) []byte {
	for len(r.rest) == 0 {
		r.frag++
		r.rest = r.pkt.Frags[r.frag].Data
	}
	b := r.rest[:min(n, len(r.rest))]
	r.rest = r.rest[len(b):]
	r.left -= len(b)
	r.at += len(b)
	return b
}

// header returns n bytes (at most len(scratch)) that lie together, copied only when they straddle pieces.
func (r *reader) header(n int, scratch *[readRequestLen]byte) []byte {
	if len(r.rest) >= n {
		return r.next(n)
	}
	for got := 0; got < n; {
		got += copy(scratch[got:n], r.next(n-got))
	}
	return scratch[:n]
}

// place copies n bytes to dst, whose length is n.
func (r *reader) place(dst []byte) {
	for len(dst) > 0 {
		b := r.next(len(dst))
		copy(dst, b)
		dst = dst[len(b):]
	}
}

func (r *reader) skip(n int) {
	for n > 0 {
		n -= len(r.next(n))
	}
}

// operation reads the header of operation i of a packet, and of READ_REQ all of it. The payload behind it is there.
func (r *reader) operation(i int, space wire.Space, op *wire.Op) wire.DropReason {
	var scratch [readRequestLen]byte
	pad := -r.at & (wire.OpAlign - 1)
	if i > 0 && pad > 0 {
		if r.left < pad {
			return wire.DropLength
		}
		r.skip(pad)
	}
	if r.left < wire.OpHeaderLen {
		return wire.DropLength
	}
	head := r.header(wire.OpHeaderLen, &scratch)
	if wire.Opcode(head[0]) == wire.OpReadReq {
		if r.left < readRequestLen-wire.OpHeaderLen {
			return wire.DropLength
		}
		copy(scratch[:], head)
		for got := wire.OpHeaderLen; got < readRequestLen; {
			got += copy(scratch[got:], r.next(readRequestLen-got))
		}
		head = scratch[:]
	}
	if d := wire.ParseOp(head, space, op); d != wire.DropNone {
		return d
	}
	if op.Opcode != wire.OpReadReq && int(op.Length) > r.left {
		return wire.DropLength
	}
	return wire.DropNone
}

// publishOrder separates the bytes of a message from its last one: a full barrier on every architecture Go supports, so
// that whoever polls the last byte sees the others (PROTOCOL §9.1).
var publishOrder atomic.Uint32

// placeLast is place for the last piece of a message: its last byte is stored after all others.
func (r *reader) placeLast(dst []byte) {
	r.place(dst[:len(dst)-1])
	tail := r.next(1)
	publishOrder.Add(1)
	dst[len(dst)-1] = tail[0]
}

// execute carries out the operations of a packet that is next in its space. It reports false when the connection ended, or
// when a SEND found no receive.
func (c *conn) execute(p *RxPacket, h wire.BaseHeader) bool {
	e := c.engine
	r := &e.reader
	r.reset(p)
	op := &e.op2
	done := 0
	if h.Space() == wire.RequestSpace {
		done = int(c.wait.done)
	}
	for i := 0; i < h.OpCount(); i++ {
		if d := r.operation(i, h.Space(), op); d != wire.DropNone {
			return c.malformed(h, d)
		}
		op.FailedPSN = h.PSN()
		if i < done { // before the packet was dropped for a SEND without a receive
			if op.Opcode != wire.OpReadReq {
				r.skip(int(op.Length))
			}
			continue
		}
		if !c.executeOp(op, r) {
			c.wait.done = uint8(i)
			return false
		}
	}
	if r.left != 0 {
		return c.malformed(h, wire.DropTrailing)
	}
	if h.Space() == wire.RequestSpace && (done > 0 || c.wait.state != waitNone) {
		c.wait = receiveWait{}
	}
	return true
}

// executeOp carries out one operation. r is at its payload; without r that is in place already.
func (c *conn) executeOp(op *wire.Op, r *reader) bool {
	switch op.Opcode {
	case wire.OpWrite:
		return c.onWrite(op, r)
	case wire.OpSend, wire.OpSendInv, wire.OpSendImm:
		return c.onSend(op, r)
	case wire.OpReadReq:
		return c.onReadRequest(op)
	case wire.OpReadResp:
		return c.onReadResponse(op, r)
	case wire.OpTerm:
		c.onTerm(op)
		return false
	default: // ParseOp lets nothing else through
		return c.refuse(op, wire.TermProtocol)
	}
}

// malformed ends a connection whose peer sent a packet that is intact and yet wrong: it is broken or hostile.
func (c *conn) malformed(h wire.BaseHeader, d wire.DropReason) bool {
	c.engine.drop(d)
	return c.refuse(&wire.Op{FailedPSN: h.PSN()}, wire.TermProtocol)
}

// refuse answers an operation that cannot be carried out with TERM, and ends the connection. It returns false for the
// convenience of its callers.
func (c *conn) refuse(op *wire.Op, reason wire.TermReason) bool {
	if reason == wire.TermAccess || reason == wire.TermReadAccess || reason == wire.TermInvalidate {
		c.engine.drop(wire.DropToken)
		reason = c.whyGone(reason)
	}
	c.terminate(reason, op.Opcode, op.FailedPSN, op.Number)
	return false
}

// whyGone is the reason for a refused access once our windows are gone because the queue pair has ended: the peer, which cannot
// know yet, did nothing wrong.
func (c *conn) whyGone(reason wire.TermReason) wire.TermReason {
	switch {
	case c.qp == nil || c.qp.State() == QPClosed:
		return wire.TermClosed
	case c.qp.State() == QPError:
		return wire.TermFlushed
	}
	return reason
}

// onWrite places one piece of a WRITE. Length zero touches nothing, so its address and token are not checked.
func (c *conn) onWrite(op *wire.Op, r *reader) bool {
	if op.Length == 0 {
		return true
	}
	dst, grant := c.engine.mem.Remote(c.qp.user(), Token(op.Token), op.Address, uint64(op.Length), RightRemoteWrite)
	if dst == nil {
		return c.refuse(op, wire.TermAccess)
	}
	grant.CountWrite()
	if op.Flags&wire.OpLast != 0 {
		r.placeLast(dst)
	} else {
		r.place(dst)
	}
	return true
}

// onSend places one piece of a SEND into the oldest receive, and completes the receive with the last one.
func (c *conn) onSend(op *wire.Op, r *reader) bool {
	qp := c.qp
	if op.Number != c.recvSend || op.Offset != c.recvOff {
		return c.refuse(op, wire.TermProtocol)
	}
	if qp == nil || qp.State() == QPClosed {
		return c.refuse(op, wire.TermClosed)
	}
	if qp.State() != QPReady {
		return c.refuse(op, wire.TermFlushed)
	}
	if qp.rq.waiting() == 0 && !c.takeReceive(op) {
		return false
	}
	head := qp.rq.head.Load()
	wr := qp.rq.wr(head)
	if op.Total > wr.capacity {
		c.engine.results.Complete(qp.recvCQ, &Result{
			QPContext: qp.context, RequestContext: wr.context, Outcome: OutcomeBufferOverflow, Kind: KindReceive,
		})
		qp.rq.head.Store(head + 1)
		return c.refuse(op, wire.TermSendTooLong)
	}
	if !c.scatter(qp.rq.sgl(head), op.Offset, uint32(op.Length), op.Flags&wire.OpLast != 0, r) {
		c.engine.results.Complete(qp.recvCQ, &Result{
			QPContext: qp.context, RequestContext: wr.context, Outcome: OutcomeAccessViolation, Kind: KindReceive,
		})
		qp.rq.head.Store(head + 1)
		return c.refuse(op, wire.TermLocal)
	}
	c.recvOff += uint32(op.Length)
	if op.Flags&wire.OpLast == 0 {
		return true
	}
	if c.recvOff != op.Total {
		return c.refuse(op, wire.TermProtocol)
	}
	res := Result{
		QPContext: qp.context, RequestContext: wr.context, Bytes: op.Total, Kind: KindReceive,
		Solicited: op.Flags&wire.OpSolicit != 0,
	}
	if op.Opcode != wire.OpSend && !c.special(op, &res) {
		return false
	}
	if !c.engine.results.Complete(qp.recvCQ, &res) {
		return c.refuse(op, wire.TermLocal) // before it is acknowledged: its sender must not take it for received
	}
	c.recvSend, c.recvOff = c.recvSend+1, 0
	qp.rq.head.Store(head + 1)
	c.checkReceiveLimit()
	return true
}

// scatter places n bytes at byte off of a list of local entries; without a reader it only checks. False means that the memory may
// not be written.
func (c *conn) scatter(sgl []SGE, off, n uint32, last bool, r *reader) bool {
	for i := range sgl {
		s := &sgl[i]
		if off >= s.Len {
			off -= s.Len
			continue
		}
		take := min(n, s.Len-off)
		if take == 0 {
			break
		}
		dst, _ := c.engine.mem.Local(c.qp.user(), s.Token, s.Addr+uint64(off), uint64(take), RightLocalWrite)
		if dst == nil || s.Addr+uint64(off) < s.Addr {
			return false
		}
		n -= take
		off = 0
		switch {
		case r == nil:
		case n == 0 && last:
			r.placeLast(dst)
		default:
			r.place(dst)
		}
	}
	return n == 0
}

// onReadResponse places one piece of an answer to the oldest outstanding READ. The peer names our read id and an offset,
// never an address: it cannot aim.
func (c *conn) onReadResponse(op *wire.Op, r *reader) bool {
	o := &c.reads
	qp := c.qp
	if c.noRequests { // we gave the READ up
		if r != nil {
			r.skip(int(op.Length))
		}
		return true
	}
	if qp == nil || o.count == 0 {
		return c.refuse(op, wire.TermProtocol)
	}
	seq := o.seqs[o.head%maxReadLimit]
	wr := qp.sq.wr(seq)
	if op.Number != o.head || op.Offset != o.off || op.Total != wr.length {
		return c.refuse(op, wire.TermProtocol)
	}
	last := op.Flags&wire.OpLast != 0
	if last != (op.Offset+uint32(op.Length) == op.Total) {
		return c.refuse(op, wire.TermProtocol)
	}
	if !c.scatter(qp.sq.sgl(seq), op.Offset, uint32(op.Length), last, r) {
		c.localFault(seq, OutcomeAccessViolation)
		return false
	}
	o.off += uint32(op.Length)
	c.delivered(1)
	if last {
		wr.done = true
		o.head++
		o.count--
		o.bytes -= uint64(wr.length)
		o.off = 0
		c.completeRequests()
		c.activate()
	}
	return true
}

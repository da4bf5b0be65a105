package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/packet"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// sendRequests builds packets of the request space until the window, the budget or the work ends. It reports whether
// the connection should be asked again.
func (c *conn) sendRequests(budget int, burst *int) (again bool) {
	e := c.engine
	sp := &c.tx[wire.RequestSpace]
	qp := c.qp
	for qp != nil && !c.noRequests && c.phase == phaseOpen && c.mayStart(qp.sq.next, qp.sq.off) {
		local := qp.sq.wr(qp.sq.next).kind.Local()
		if !local && !c.windowOpen(sp, 0) {
			return false
		}
		if budget <= 0 || *burst == 0 {
			return true
		}
		*burst--
		if local {
			if !c.runLocal() {
				return false
			}
			continue
		}
		if !c.beginOperations(int(c.mtu.Packet)) {
			return true
		}
		from := sp.Next()
		to, ok := c.packRequests(from, space.At(qp.sq.posted.Load(), 0), true)
		if !ok {
			return false
		}
		qp.sq.next, qp.sq.off = to.Message(), to.Offset()
		budget -= e.out.Used()
		c.launch(wire.RequestSpace, from, to)
	}
	return false
}

// mayStart says whether the request at seq may be (further) transmitted now.
func (c *conn) mayStart(seq, off uint32) bool {
	q := &c.qp.sq
	if seq == q.posted.Load() {
		return false
	}
	if off != 0 {
		return true
	}
	wr := q.wr(seq)
	if wr.flags&FlagReadFence != 0 && c.reads.count > 0 {
		return false
	}
	switch wr.kind {
	case KindRead:
		return c.reads.count < c.ord && c.mayRead()
	case KindSend:
		if int32(c.sendLimit-c.nextSend) <= 0 {
			c.blockOnReceive(seq)
			return false
		}
	case KindInvalidate:
		return q.earlierDone(seq)
	case KindReceive, KindWrite, KindBind, KindFastRegister:
	}
	return true
}

// start gives the request at seq its number and checks its local memory. False means a local fault: the connection is
// being torn down.
func (c *conn) start(seq uint32) bool {
	q := &c.qp.sq
	wr := q.wr(seq)
	if !c.mayUse(seq) {
		c.localFault(seq, OutcomeAccessViolation)
		return false
	}
	wr.message = c.nextMessage
	c.nextMessage++
	switch wr.kind {
	case KindSend:
		wr.number = c.nextSend
		c.nextSend++
		c.ask.End()
	case KindRead:
		wr.number = c.nextRead
		c.nextRead++
		r := &c.reads
		r.seqs[(r.head+r.count)%maxReadLimit] = seq
		r.count++
		r.bytes += uint64(wr.length)
	case KindWrite, KindReceive, KindBind, KindInvalidate, KindFastRegister:
	}
	return true
}

// mayUse says whether the entries of the request at seq name memory of this side that it may use. An inline request has none.
func (c *conn) mayUse(seq uint32) bool {
	q := &c.qp.sq
	need := Rights(0)
	if q.wr(seq).kind == KindRead {
		need = RightLocalWrite
	}
	for _, s := range q.sgl(seq) {
		if b, _ := c.engine.mem.Local(c.qp.user(), s.Token, s.Addr, uint64(s.Len), need); b == nil && s.Len > 0 {
			return false
		}
	}
	return true
}

// packRequests fills the packet begun with operations from at up to stop, or up to what has to wait. fresh says that they are sent for
// the first time. ok is false after a local fault; the packet is then gone.
func (c *conn) packRequests(at, stop space.Place, fresh bool) (to space.Place, ok bool) {
	e := c.engine
	q := &c.qp.sq
	for at != stop {
		seq, off := at.Message(), at.Offset()
		wr := q.wr(seq)
		if fresh && !c.mayStart(seq, off) || !fresh && c.mustWait(wr, off) {
			break
		}
		if wr.kind.Local() {
			break // the packet ends here: what it carries is before it, and what follows may only start after it
		}
		op := &e.op1
		if !c.describeRequest(op, wr, at, stop) {
			break
		}
		if fresh && off == 0 {
			if !c.start(seq) {
				e.out.Abandon()
				return at, false
			}
			op.Number = wr.number
		}
		e.out.Put(op)
		if wr.kind != KindRead && !c.gather(seq, off, uint32(op.Length)) {
			e.out.Abandon()
			c.localFault(seq, OutcomeAccessViolation)
			return at, false
		}
		last := op.Flags&wire.OpLast != 0
		at = at.After(uint32(op.Length), last)
		if !last || e.out.Piece() {
			break
		}
	}
	return at, true
}

// mustWait says that the request at off of wr must not go again yet: it is a SEND beyond the limit, which RNR may have lowered since it was
// sent.
func (c *conn) mustWait(wr *workRequest, off uint32) bool {
	return c.hasPaused && off == 0 && wr.kind == KindSend && int32(c.sendLimit-wr.number) <= 0
}

// describeRequest fills in the operation for a request from at on, up to stop if that is inside of it. It reports false when the packet has no room for it.
func (c *conn) describeRequest(op *wire.Op, wr *workRequest, at, stop space.Place) bool {
	b := &c.engine.out
	off := at.Offset()
	length, ends := wr.length-off, true
	if at.Message() == stop.Message() {
		length, ends = stop.Offset()-off, stop.Offset() == wr.length
	}
	*op = wire.Op{Number: wr.number, Total: wr.length}
	switch {
	case wr.kind == KindRead:
		op.Opcode, op.Flags, op.Address, op.Token = wire.OpReadReq, wire.OpLast, wr.addr, uint32(wr.token)
		return b.Fits(op)
	case off > 0:
		op.Opcode = wire.OpMore
	case wr.kind == KindWrite:
		op.Opcode, op.Address, op.Token = wire.OpWrite, wr.addr, uint32(wr.token)
	default:
		op.Opcode = wire.OpSend
		if wr.flags&FlagInvalidate != 0 {
			op.Opcode, op.Imm = wire.OpSendInv, uint32(wr.token)
		} else if wr.flags&FlagImmediate != 0 {
			op.Opcode, op.Imm = wire.OpSendImm, uint32(wr.token)
		}
		if wr.flags&FlagSolicit != 0 {
			op.Flags |= wire.OpSolicit
		}
	}
	return b.Fit(op, length, ends)
}

// gather appends n bytes of a request's local memory, from byte off. False means that memory was deregistered meanwhile.
func (c *conn) gather(seq, off, n uint32) bool {
	e := c.engine
	q := &c.qp.sq
	if q.wr(seq).flags&FlagInline != 0 {
		e.out.Payload(q.inlineBytes(seq)[off : off+n])
		return true
	}
	for _, s := range q.sgl(seq) {
		if off >= s.Len {
			off -= s.Len
			continue
		}
		take := min(n, s.Len-off)
		if take == 0 {
			break
		}
		src, r := e.mem.Local(c.qp.user(), s.Token, s.Addr+uint64(off), uint64(take), 0)
		if src == nil {
			return false
		}
		if id, ok := r.LinkID(s.Addr + uint64(off)); ok && take == n && e.out.Referable(n, id) {
			e.out.Refer(src, id)
		} else {
			e.out.Payload(src)
		}
		n -= take
		off = 0
	}
	return n == 0
}

// windowOpen says whether another packet may be in flight, beside one of leaving bytes that is about to be: the congestion window has room
// for it, and the peer for what may have to wait behind a gap.
func (c *conn) windowOpen(sp *space.Send, leaving int) bool {
	return c.room(leaving) && c.sent.InFlight()+leaving+sp.Beyond() < int(c.peerWindow)
}

// mayRead says whether another READ may be asked for: the answers that are under way may fill the window, as if we had sent
// them ourselves. Whoever asks for data is the only one who knows all that will come.
func (c *conn) mayRead() bool {
	r := &c.reads
	if r.count == 0 || r.bytes-uint64(r.off) < uint64(c.cc.Window) {
		return true
	}
	c.cc.Held(c.engine.now)
	return false
}

// launch completes the packet just packed, of what is sent for the first time.
func (c *conn) launch(kind wire.Space, from, to space.Place) {
	e := c.engine
	full := e.out.Used()+packet.MinSplit > int(c.mtu.Packet)
	sp := &c.tx[kind]
	sp.Sent(to)
	c.cc.Left(e.now)
	// Ask for an acknowledgement at the end of a burst, and now and then on the way.
	c.sealContents(kind, recovery.Packet{From: from, To: to}, c.sent.Next()%askEvery == 0 || !c.windowOpen(sp, e.out.Used()) || !c.moreToSend(kind))
	c.recovery.sent(c)
	if full && e.now >= c.search.At {
		c.searchPath()
	}
}

// askEvery is after how many packets an acknowledgement is asked for at the latest.
const askEvery = 64

// sealContents completes a packet with contents of a space.
func (c *conn) sealContents(kind wire.Space, p recovery.Packet, ackReq bool) {
	f := wire.BaseFields{Operations: true, Piece: c.engine.out.Piece(), Message: uint16(p.From.Message()), Offset: p.From.Offset()}
	p.Kind = recovery.Kind(kind)
	if kind == wire.ResponseSpace {
		f.Flags |= wire.FlagSpace
	} else {
		f.Message = uint16(c.qp.sq.wr(p.From.Message()).message)
	}
	if ackReq {
		f.Flags |= wire.FlagAckReq
	}
	c.ackSent()
	c.seal(p, f, c.ecn)
}

// moreToSend says whether another packet of the space follows at once. A request without packets that is next is none, and its result
// waits for the acknowledgement of what was sent before.
func (c *conn) moreToSend(space wire.Space) bool {
	if space == wire.ResponseSpace {
		return c.unanswered()
	}
	return c.qp != nil && c.mayStart(c.qp.sq.next, c.qp.sq.off) && !c.qp.sq.wr(c.qp.sq.next).kind.Local()
}

// completeRequests reports the requests that are done, in posting order: transmitted whole, acknowledged, and for a READ
// answered whole. A request behind an unfinished one waits (I6).
func (c *conn) completeRequests() {
	qp := c.qp
	if qp == nil {
		return
	}
	una := c.tx[wire.RequestSpace].Una().Message()
	head := qp.sq.head.Load()
	from := head
	for int32(una-head) > 0 {
		wr := qp.sq.wr(head)
		if wr.kind == KindRead && !wr.done {
			break
		}
		if wr.flags&FlagSilentSuccess == 0 {
			c.engine.results.Complete(qp.initCQ, &Result{QPContext: qp.context, RequestContext: wr.context, Kind: wr.kind})
		}
		head++
	}
	if head == from {
		return
	}
	if seq, ok := c.sample.Done(head); ok {
		c.endSample(seq) // before its place in the queue belongs to posters again
	}
	qp.sq.head.Store(head)
}

package provider

import "github.com/ndxdp/ndxdp/wire"

// minSplit is the smallest first piece of a message worth putting behind others in a packet: below it the message starts
// in the next packet, because a split costs another operation header.
const minSplit = 256

// pieceAlign keeps the pieces of long messages on cache lines.
const pieceAlign = 64

// sendRequests builds packets of the request space until the window, the budget or the work ends. It reports whether
// the connection should be asked again.
func (c *conn) sendRequests(budget int, burst *int) (again bool) {
	e := c.engine
	sp := &c.tx[wire.RequestSpace]
	qp := c.qp
	for qp != nil && !c.noRequests && c.phase == phaseOpen && c.mayStart(qp.sq.next, qp.sq.off) {
		local := qp.sq.wr(qp.sq.next).kind.Local()
		if !local && !c.windowOpen(sp) {
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
		from := cursor{qp.sq.next, qp.sq.off}
		to, ok := c.packRequests(from, cursor{qp.sq.posted.Load(), 0}, true)
		if !ok {
			return false
		}
		qp.sq.next, qp.sq.off = to.seq, to.off
		budget -= e.build.used
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
	switch wr.kind {
	case KindWrite:
		wr.number = c.nextMessage
		c.nextMessage++
	case KindSend:
		wr.number = c.nextSend
		c.nextSend++
		c.blockedAt = 0
	case KindRead:
		wr.number = c.nextRead
		c.nextRead++
		r := &c.reads
		r.seqs[(r.head+r.count)%maxReadLimit] = seq
		r.count++
		r.bytes += uint64(wr.length)
	case KindReceive, KindBind, KindInvalidate, KindFastRegister:
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

// packRequests fills the packet begun with operations from at up to stop. The result depends only on at, stop and the
// packet size, so that a lost packet is built again exactly. ok is false after a local fault; the packet is then gone.
func (c *conn) packRequests(at, stop cursor, fresh bool) (to cursor, ok bool) {
	e := c.engine
	b := &e.build
	q := &c.qp.sq
	for at != stop && (!fresh || c.mayStart(at.seq, at.off)) {
		wr := q.wr(at.seq)
		if wr.kind.Local() {
			break // the packet ends here: what it carries is before it, and what follows may only start after it
		}
		n, fits := b.piece(wr.length-at.off, wr.kind == KindRead)
		if !fits {
			break
		}
		if fresh && at.off == 0 && !c.start(at.seq) {
			e.abandon()
			return at, false
		}
		last := wr.kind == KindRead || at.off+n == wr.length
		c.putRequest(wr, at.off, n, last)
		if wr.kind != KindRead && !c.gather(at.seq, at.off, n) {
			e.abandon()
			c.localFault(at.seq, OutcomeAccessViolation)
			return at, false
		}
		if !last {
			at.off += n
			break
		}
		if fresh {
			wr.lastPSN = c.tx[wire.RequestSpace].next
		}
		at = cursor{at.seq + 1, 0}
	}
	return at, true
}

// piece decides how many of want payload bytes go into the packet now.
func (b *builder) piece(want uint32, read bool) (n uint32, fits bool) {
	room := b.room()
	switch {
	case read:
		return 0, room >= readRequestLen-wire.OpHeaderLen
	case room >= int(want):
		return want, true
	case room < pieceAlign || b.ops > 0 && room < minSplit:
		return 0, false
	}
	return uint32(room) &^ (pieceAlign - 1), true
}

// putRequest writes the operation header of one piece.
func (c *conn) putRequest(wr *workRequest, off, n uint32, last bool) {
	op := &c.engine.op1
	*op = wire.Op{Length: uint16(n), Number: wr.number}
	if off == 0 {
		op.Flags |= wire.OpFirst
	}
	if last {
		op.Flags |= wire.OpLast
	}
	switch wr.kind {
	case KindWrite:
		op.Opcode, op.Address, op.Token = wire.OpWrite, wr.addr+uint64(off), uint32(wr.token)
	case KindRead:
		op.Opcode, op.Address, op.Token, op.Total, op.Length = wire.OpReadReq, wr.addr, uint32(wr.token), wr.length, 8
	case KindSend:
		op.Opcode, op.Offset, op.Total = wire.OpSend, off, wr.length
		if wr.flags&FlagInvalidate != 0 {
			op.Opcode, op.Imm = wire.OpSendInv, uint32(wr.token)
		} else if wr.flags&FlagImmediate != 0 {
			op.Opcode, op.Imm = wire.OpSendImm, uint32(wr.token)
		}
		if last && wr.flags&FlagSolicit != 0 {
			op.Flags |= wire.OpSolicit
		}
	case KindReceive, KindBind, KindInvalidate, KindFastRegister:
	}
	c.engine.op(op)
}

// gather appends n bytes of a request's local memory, from byte off. False means that memory was deregistered meanwhile.
func (c *conn) gather(seq, off, n uint32) bool {
	e := c.engine
	q := &c.qp.sq
	if q.wr(seq).flags&FlagInline != 0 {
		e.payload(q.inlineBytes(seq)[off : off+n])
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
		if id, ok := r.LinkID(s.Addr + uint64(off)); ok && take == n && e.build.referable(n, id) {
			e.refer(src, id)
		} else {
			e.payload(src)
		}
		n -= take
		off = 0
	}
	return n == 0
}

// windowOpen says whether another packet may be in flight.
func (c *conn) windowOpen(sp *sendSpace) bool {
	return c.room() && sp.outstanding() < c.peerWindow
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

// launch numbers, records and seals the packet just packed.
func (c *conn) launch(space wire.Space, from, to cursor) {
	e := c.engine
	sp := &c.tx[space]
	if sp.outstanding() == uint32(len(sp.records)) {
		c.extendFlight(sp)
	}
	psn := sp.next
	rec := sp.record(psn)
	*rec = txRecord{at: e.now, number: c.sent.Next(), from: from, to: to, size: uint16(e.build.used - e.build.base)}
	full := e.build.used+minSplit > int(c.mtu.Packet)
	sp.next++
	sp.inFlight++
	c.cc.Left(e.now)
	var flags wire.Flags
	if space == wire.ResponseSpace {
		flags |= wire.FlagSpace
	}
	// Ask for an acknowledgement at the end of a burst, and on the way every quarter of a window.
	if uint32(psn)%(Window/4) == 0 || !c.windowOpen(sp) || !c.moreToSend(space) {
		flags |= wire.FlagAckReq
	}
	c.ackSent()
	c.seal(e.build.ops, flags, psn)
	c.recovery.sent(c)
	if full && e.now >= c.search.At {
		c.searchPath()
	}
}

// moreToSend says whether another packet of the space follows at once. A request without packets that is next is none, and its result
// waits for the acknowledgement of what was sent before.
func (c *conn) moreToSend(space wire.Space) bool {
	if space == wire.ResponseSpace {
		return c.served.next.seq != c.served.tail
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
	una := c.tx[wire.RequestSpace].una
	head := qp.sq.head.Load()
	from := head
	for head != qp.sq.next {
		wr := qp.sq.wr(head)
		if wr.lastPSN.Sub(una) >= 0 || wr.kind == KindRead && !wr.done {
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

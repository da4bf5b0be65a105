package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/memory"
	"github.com/ndxdp/ndxdp/wire"
)

// This file implements Bind, FastRegister and Invalidate: initiator requests without packets. They execute in the order of the
// initiator queue: earlier requests are sent before, later requests afterwards. Their results come in posting order like all
// results (ND specification section 10). A region for fast registration is a window that its own side may use, too. Only the engine
// of one queue pair changes it, and it serves only this queue pair's requests and its peer.

// BindRequest is a Bind to post.
type BindRequest struct {
	Window       *MemoryWindow
	Region       *Region // in the same table as Window
	Addr, Length uint64  // address, relative to Region.Base, and length in bytes of the part to bind
	Context      uint64
	Flags        PostFlags // FlagSilentSuccess, FlagReadFence, FlagDefer; FlagAllowRead and FlagAllowWrite are the peer's rights
}

// Bind queues a request that binds a window to this queue pair. Any goroutine may call it. The window's new token is valid when
// Bind returns. The region's remote rights do not limit the window's rights, but a right to write needs the region's local write
// right.
//
// Bind returns OutcomeAccessViolation for a range outside the region, a closed region, or a missing right. If the window is still
// bound when the request executes, the request fails and ends the connection, like every failed request.
func (qp *QP) Bind(r *BindRequest) (ring bool, o Outcome) { return qp.bind(r, r.Addr, KindBind) }

// FastRegister queues a request that registers the bytes r.Addr and r.Length of r.Region in r.Window, which NewFastRegion made.
// base is the address of the first byte for requests and peers. Any goroutine may call it. The rights are FlagAllowRead,
// FlagAllowWrite and FlagLocalWrite; FlagAllowWrite includes FlagLocalWrite. The new token is valid when FastRegister returns.
//
// It fails like Bind. It also fails if a right to write is requested and the region lacks the local write right, or if the range
// wraps with base.
func (qp *QP) FastRegister(r *BindRequest, base uint64) (ring bool, o Outcome) {
	if r.Flags&FlagAllowWrite != 0 {
		r.Flags |= FlagLocalWrite
	}
	return qp.bind(r, base, KindFastRegister)
}

func (qp *QP) bind(r *BindRequest, base uint64, kind RequestKind) (ring bool, o Outcome) {
	if o := qp.CheckPost(); o != OutcomeSuccess {
		return false, o
	}
	b, ok := r.Window.Prepare(r.Region, r.Addr, r.Length, base, r.Flags.rights())
	if !ok {
		return false, OutcomeAccessViolation
	}
	wr := workRequest{context: r.Context, flags: r.Flags, kind: kind}
	if o := qp.sq.postLocal(wr, b); o != OutcomeSuccess {
		return false, o
	}
	b.Posted()
	return qp.ringUnlessDeferred(r.Flags, 1), OutcomeSuccess
}

// Invalidate queues a request that ends the window's binding. Any goroutine may call it. If the window is not bound to this queue
// pair when the request executes, the connection ends. For a region for fast registration, the request waits until all earlier
// requests are complete, because they may use the region.
func (qp *QP) Invalidate(context uint64, w *MemoryWindow, flags PostFlags) (ring bool, o Outcome) {
	if o := qp.CheckPost(); o != OutcomeSuccess {
		return false, o
	}
	wr := workRequest{context: context, flags: flags, kind: KindInvalidate}
	if o := qp.sq.postLocal(wr, memory.Binding{Window: w}); o != OutcomeSuccess {
		return false, o
	}
	return qp.ringUnlessDeferred(flags, 1), OutcomeSuccess
}

// postLocal copies a request without packets into the next slot.
func (q *initiatorQueue) postLocal(wr workRequest, b memory.Binding) Outcome {
	q.mu.Lock()
	defer q.mu.Unlock()
	seq := q.posted.Load()
	if seq-q.head.Load() >= q.depth {
		return OutcomeNoMoreEntries
	}
	if q.locals == nil {
		q.locals = make([]memory.Binding, len(q.wrs))
	}
	q.wrs[seq&q.mask], q.locals[seq&q.mask] = wr, b
	q.posted.Store(seq + 1)
	return OutcomeSuccess
}

// earlierDone reports whether all requests before the request at seq are complete. The invalidation of a region that they may use
// waits for it, because a lost packet is built again from the region's memory.
func (q *initiatorQueue) earlierDone(seq uint32) bool {
	return !q.locals[seq&q.mask].Window.Fast() || q.head.Load() == seq
}

// runLocal executes the next request in the queue, which needs no packet.
func (qp *QP) runLocal(mem *Memory) (o Outcome) {
	seq := qp.sq.next
	wr, b := qp.sq.wr(seq), &qp.sq.locals[seq&qp.sq.mask]
	if wr.kind == KindInvalidate {
		o = mem.Unbind(&qp.memory, b.Window)
	} else {
		o = mem.Bind(&qp.memory, b)
	}
	*b = memory.Binding{}
	return o
}

// runLocal executes the next request in the queue, which needs no packet. It returns false if the request failed, which ends the
// connection.
func (t *traffic) runLocal() bool {
	q := &t.conn.qp.sq
	if o := t.conn.qp.runLocal(t.engine.mem); o != OutcomeSuccess {
		t.localFault(q.next, o)
		return false
	}
	// The request is complete when all earlier requests are; the peer is not involved.
	sp, at := &t.sent.spaces[wire.RequestSpace], q.at()
	q.next++
	sp.Sent(at.NextMessage())
	sp.Arrived(at, at.NextMessage(), 0)
	t.completeRequests()
	return true
}

// rights returns the rights that these flags give to the peer in a Bind, or to both sides in a FastRegister.
func (f PostFlags) rights() (r Rights) {
	if f&FlagAllowRead != 0 {
		r |= RightRemoteRead
	}
	if f&FlagAllowWrite != 0 {
		r |= RightRemoteWrite
	}
	if f&FlagLocalWrite != 0 {
		r |= RightLocalWrite
	}
	return r
}

// special executes the additional effect of a SEND's last segment before the receive completes. It returns false if the peer named
// a token that it may not invalidate.
func (qp *QP) special(mem *Memory, op *wire.Op, r *Result) bool {
	switch op.Opcode {
	case wire.OpSendInv:
		r.Invalidated = Token(op.Imm)
		return mem.UnbindToken(&qp.memory, Token(op.Imm)) == OutcomeSuccess
	case wire.OpSendImm:
		r.Immediate, r.HasImmediate = op.Imm, true
	default: // a plain SEND
	}
	return true
}

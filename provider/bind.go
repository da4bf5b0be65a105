package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/memory"
	"github.com/ndxdp/ndxdp/wire"
)

// This file has Bind, FastRegister and Invalidate: initiator requests that need no packet. They are carried out in the order of the
// initiator queue: requests posted before them leave before, and later requests leave after. Their results come in posting order like all
// results (ND specification section 10). A region for fast registration is a window that its own side may use, too. Only the engine of one
// queue pair changes it, and it serves only this queue pair's requests and its peer.

// BindRequest is a Bind to post.
type BindRequest struct {
	Window       *MemoryWindow
	Region       *Region // of the same table
	Addr, Length uint64  // the part of the region, as Region.Base names it; bytes
	Context      uint64
	Flags        PostFlags // FlagSilentSuccess, FlagReadFence, FlagDefer; FlagAllowRead, FlagAllowWrite for the peer's rights
}

// Bind queues a request that binds a window to this queue pair; any goroutine may call it. The window's new token is valid when Bind
// returns. The region's remote rights do not limit the window's rights, but writing needs the region's local write right.
//
// Bind refuses a range outside the region, a region that is gone and a missing right with OutcomeAccessViolation. If the window is still
// bound when the request is carried out, the request fails, and ends the connection like every failed request.
func (qp *QP) Bind(r *BindRequest) (ring bool, o Outcome) { return qp.bind(r, r.Addr, KindBind) }

// FastRegister queues a request that registers r.Window, which NewFastRegion made, for the bytes r.Addr and r.Length of r.Region. Requests
// and peers name the first byte by base. Any goroutine may call it. The rights are FlagAllowRead, FlagAllowWrite and FlagLocalWrite;
// FlagAllowWrite includes FlagLocalWrite. The new token is valid when FastRegister returns.
//
// Refusals and failures are those of Bind. FastRegister also refuses a right to write if the region lacks the local write right, and a
// range that wraps with base.
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
	return qp.ringUnlessDeferred(r.Flags), OutcomeSuccess
}

// Invalidate queues a request that ends the window's binding; any goroutine may call it. If the window is not bound to this queue pair when
// the request is carried out, the connection ends. For a region for fast registration, the request waits until all requests before it are
// done, because they may use the region.
func (qp *QP) Invalidate(context uint64, w *MemoryWindow, flags PostFlags) (ring bool, o Outcome) {
	if o := qp.CheckPost(); o != OutcomeSuccess {
		return false, o
	}
	wr := workRequest{context: context, flags: flags, kind: KindInvalidate}
	if o := qp.sq.postLocal(wr, memory.Binding{Window: w}); o != OutcomeSuccess {
		return false, o
	}
	return qp.ringUnlessDeferred(flags), OutcomeSuccess
}

// postLocal copies a request that needs no packet into the next slot.
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

// earlierDone reports whether all requests before the request at seq are done. Invalidating a region that they may use has to wait for them: a
// lost packet is built again from the region's memory.
func (q *initiatorQueue) earlierDone(seq uint32) bool {
	return !q.locals[seq&q.mask].Window.Fast() || q.head.Load() == seq
}

// runLocal carries out the request without packets that is next in the queue.
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

// runLocal carries out the request without packets that is next in the queue. False means that it failed, and the connection with it.
func (s *sender) runLocal() bool {
	q := &s.qp.sq
	if o := s.qp.runLocal(s.mem); o != OutcomeSuccess {
		s.localFault(q.next, o)
		return false
	}
	// The peer has no part in it: it is done when all before it are.
	sp, at := &s.tx[wire.RequestSpace], q.at()
	q.next++
	sp.Sent(at.NextMessage())
	sp.Arrived(at, at.NextMessage(), 0)
	s.completeRequests()
	return true
}

// rights are what a Bind with these flags gives the peer, or a FastRegister both sides.
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

// special carries out what the last piece of a SEND says besides its bytes, before the receive completes. False means that
// the peer named a token that it may not invalidate.
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

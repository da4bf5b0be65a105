package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/memory"
	"github.com/ndxdp/ndxdp/wire"
)

// This file is about Bind, FastRegister and Invalidate: initiator requests that need no packet. They are carried out when their turn comes in
// the initiator queue, so that requests posted before them go out before and those after them after, and are reported in posting order like
// all others (ND specification section 10). A region for fast registration is a window that its own side may use, too: the engine of one queue
// pair changes it, and it serves requests and the peer of that queue pair alone.

// BindRequest is a Bind to post.
type BindRequest struct {
	Window       *MemoryWindow
	Region       *Region // of the same table
	Addr, Length uint64  // the part of the region, as Region.Base names it; bytes
	Context      uint64
	Flags        PostFlags // FlagSilentSuccess, FlagReadFence, FlagDefer; FlagAllowRead, FlagAllowWrite for the peer's rights
}

// Bind queues a request that binds a window to this queue pair; any goroutine may call it. The window's new token may be given
// away when it returns. The region's remote rights do not limit the window's, but writing needs its local write right.
//
// A range outside the region, a region that is gone and a missing right are refused here, with OutcomeAccessViolation; a window
// that is bound already when its turn comes ends the connection, as every failed request does.
func (qp *QP) Bind(r *BindRequest) (ring bool, o Outcome) { return qp.bind(r, r.Addr, KindBind) }

// FastRegister queues a request that gives r.Window, which NewFastRegion made, the bytes that r.Addr and r.Length name of
// r.Region; requests and peers name the first of them by base. Any goroutine may call it. FlagAllowRead, FlagAllowWrite and
// FlagLocalWrite are the rights; FlagAllowWrite includes FlagLocalWrite. The new token may be used when it returns.
//
// What is refused here and what ends the connection is as with Bind. A right to write is also refused where the region lacks the local
// write right, and so is a range that base would make wrap.
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

// Invalidate queues a request that ends the window's binding; any goroutine may call it. A window that is not bound to this
// queue pair when its turn comes ends the connection. That of a region for fast registration waits until all requests before it
// are done, because those may use the region.
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

// earlierDone says whether all requests before the one at seq are done. An invalidation of a region that they may use waits for that:
// a packet that is lost is built again from the region's memory.
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

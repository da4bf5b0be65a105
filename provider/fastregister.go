package provider

// This file is about fast registration: a request gives a region its memory, base address, rights and token when its turn comes
// in the initiator queue (ND specification section 10). Such a region is a window that its own side may use, too: the engine of
// one queue pair changes it, and it serves requests and the peer of that queue pair alone.

// FastRegister queues a request that gives r.Window, which NewFastRegion made, the bytes that r.Addr and r.Length name of
// r.Region; requests and peers name the first of them by base. Any goroutine may call it. FlagAllowRead, FlagAllowWrite and
// FlagLocalWrite are the rights; FlagAllowWrite includes FlagLocalWrite. The new token may be used when it returns.
//
// What is refused here and what ends the connection is as with Bind; to write, requests need the region's local write right, too. A range that base would make wrap is refused, too.
func (qp *QP) FastRegister(r *BindRequest, base uint64) (ring bool, o Outcome) {
	if r.Flags&FlagAllowWrite != 0 {
		r.Flags |= FlagLocalWrite
	}
	return qp.bind(r, base, KindFastRegister)
}

// earlierDone says whether all requests before the one at seq are done. An invalidation of a region that they may use waits for that:
// a packet that is lost is built again from the region's memory.
func (q *initiatorQueue) earlierDone(seq uint32) bool {
	return !q.locals[seq&q.mask].Window.Fast() || q.head.Load() == seq
}

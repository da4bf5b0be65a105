package provider

// This file is about fast registration: a request gives a region its memory, base address, rights and token when its turn comes
// in the initiator queue (ND specification section 10). Such a region is a window that its own side may use, too: the engine of
// one queue pair changes it, and it serves requests and the peer of that queue pair alone.

// aim is what the newest posted fast registration names, also before it is carried out; guarded by Memory.mu.
type aim struct {
	buf  []byte
	base uint64
}

// NewFastRegion makes a region for fast registration, without memory. It has a token already, which grants nothing. It fails
// with OutcomeInsufficientResources when the table is full.
func (m *Memory) NewFastRegion() (*MemoryWindow, error) { return m.newWindow(true) }

// FastRegister queues a request that gives r.Window, which NewFastRegion made, the bytes that r.Addr and r.Length name of
// r.Region; requests and peers name the first of them by base. Any goroutine may call it. FlagAllowRead, FlagAllowWrite and
// FlagLocalWrite are the rights; FlagAllowWrite includes FlagLocalWrite. The new token may be used when it returns.
//
// What is refused here and what ends the connection is as with Bind. A range that base would make wrap is refused, too.
func (qp *QP) FastRegister(r *BindRequest, base uint64) (ring bool, o Outcome) {
	if r.Flags&FlagAllowWrite != 0 {
		r.Flags |= FlagLocalWrite
	}
	if ring, o = qp.bind(r, base, KindFastRegister); o != OutcomeSuccess {
		return ring, o
	}
	buf, _ := r.Region.slice(r.Addr, r.Length)
	w := r.Window
	w.memory.mu.Lock()
	w.aim = aim{buf: buf, base: base}
	w.memory.mu.Unlock()
	return ring, OutcomeSuccess
}

// Aim returns the memory and the base address of the newest fast registration that was posted, nil before the first.
func (w *MemoryWindow) Aim() (buf []byte, base uint64) {
	w.memory.mu.Lock()
	defer w.memory.mu.Unlock()
	return w.aim.buf, w.aim.base
}

// Posted returns what the token of the newest fast registration of a region will name when that is carried out. It is for
// posting requests behind it; nil for other tokens.
func (m *Memory) Posted(t Token) (buf []byte, base uint64) {
	g := m.slots[m.slotOf(t)].Load()
	if g == nil || g.window == nil || !g.window.fast || g.window.Token() != t {
		return nil, 0
	}
	return g.window.Aim()
}

// fastLocal resolves local use of a fast-registered region by qp. The caller owns qp's engine.
func (m *Memory) fastLocal(qp *QP, t Token, addr, n uint64, need Rights) ([]byte, *Region) {
	g := m.find(t)
	if g == nil || g.window == nil || !g.window.fast {
		return nil, nil
	}
	if owner := g.owner.Load(); owner == nil || owner != qp || g.rights&need != need {
		return nil, nil
	}
	b, ok := g.slice(addr, n)
	if !ok {
		return nil, nil
	}
	return b, g.region
}

// earlierDone says whether all requests before the one at seq are done. An invalidation of a region that they may use waits for that:
// a packet that is lost is built again from the region's memory.
func (q *initiatorQueue) earlierDone(seq uint32) bool {
	w := q.locals[seq&q.mask].window
	return !w.fast || q.head.Load() == seq
}

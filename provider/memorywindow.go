package provider

import "sync/atomic"

// MemoryWindow grants the peer of one queue pair access to a part of a region, for as long as it is bound. It is bound and unbound
// by requests of that queue pair; every binding has a token of its own (ND specification section 10).
type MemoryWindow struct {
	grant
	memory *Memory
	slot   uint16
	fast   bool // fixed: a region for fast registration

	posted   atomic.Uint32 // the token of the newest Bind
	released bool          // guarded by Memory.mu
	aim      aim

	// The other windows bound to the same queue pair; its engine's.
	next, prev *MemoryWindow
}

// NewWindow makes a window that is bound to nothing. It fails with OutcomeInsufficientResources when the table is full.
func (m *Memory) NewWindow() (*MemoryWindow, error) { return m.newWindow(false) }

func (m *Memory) newWindow(fast bool) (*MemoryWindow, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	slot, ok := m.takeSlot()
	if !ok {
		return nil, OutcomeInsufficientResources
	}
	w := &MemoryWindow{memory: m, slot: slot, fast: fast}
	if fast {
		w.posted.Store(uint32(m.drawToken(slot, 0)))
	}
	w.window = w
	m.slots[slot].Store(&w.grant)
	return w, nil
}

// Token returns the token of the newest Bind that was posted, also before that is carried out; zero before the first.
func (w *MemoryWindow) Token() Token { return Token(w.posted.Load()) }

// Bound says whether the window is bound. It may change at any time but while the caller owns the engine.
func (w *MemoryWindow) Bound() bool { return w.owner.Load() != nil }

// prepare draws the token of the next binding.
func (w *MemoryWindow) prepare() Token {
	m := w.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.drawToken(w.slot, w.Token())
}

// bind lets qp's peer use a window of the bytes from addr. The caller owns qp's engine.
func (m *Memory) bind(qp *QP, l *localRequest, addr uint64, t Token, rights Rights) Outcome {
	w, r := l.window, l.region
	m.mu.Lock()
	defer m.mu.Unlock()
	if w.released || w.Bound() {
		return OutcomeInvalidRequest
	}
	buf, ok := r.slice(addr, l.length)
	if !ok || !m.registered(r) {
		return OutcomeAccessViolation
	}
	r.windows++
	w.region, w.base, w.buf, w.rights = r, l.base, buf, rights
	w.token.Store(uint32(t))
	w.owner.Store(qp)
	w.next = qp.windows
	if w.next != nil {
		w.next.prev = w
	}
	qp.windows = w
	return OutcomeSuccess
}

// unbind ends w's binding to qp. The caller owns qp's engine.
func (m *Memory) unbind(qp *QP, w *MemoryWindow) Outcome {
	if w.owner.Load() != qp {
		return OutcomeInvalidRequest
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.revoke(w)
	return OutcomeSuccess
}

// unbindToken ends the binding to qp that t names. The caller owns qp's engine.
func (m *Memory) unbindToken(qp *QP, t Token) Outcome {
	g := m.find(t)
	if g == nil || g.window == nil {
		return OutcomeInvalidRequest
	}
	return m.unbind(qp, g.window)
}

// revoke ends a binding. The caller holds mu, and owns the engine of the window's queue pair.
func (m *Memory) revoke(w *MemoryWindow) {
	qp := w.owner.Swap(nil)
	if r := w.region; r.windows > 1 {
		r.windows--
	} else {
		r.windows = 0
		if fin := r.unbound; fin != nil {
			r.unbound = nil
			fin(OutcomeSuccess)
		}
	}
	w.region, w.buf = nil, nil
	if w.next != nil {
		w.next.prev = w.prev
	}
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		qp.windows = w.next
	}
	w.next, w.prev = nil, nil
}

// revokeAll ends the binding of every window of qp: its peer is gone. The caller owns qp's engine.
func (m *Memory) revokeAll(qp *QP) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for qp.windows != nil {
		m.revoke(qp.windows)
	}
}

// ReleaseWindow removes w for good, bound or not; requests that still name it fail. The caller owns every engine that uses the
// table.
func (m *Memory) ReleaseWindow(w *MemoryWindow) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w.released {
		return
	}
	w.released = true
	if w.Bound() {
		m.revoke(w)
	}
	m.giveSlot(w.slot)
}

// WhenUnbound calls fin when the last window that is bound to r is so no more, and says whether one is: otherwise fin is never
// called.
func (m *Memory) WhenUnbound(r *Region, fin Finish) (waits bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.windows == 0 {
		return false
	}
	r.unbound = fin
	return true
}

// Release is Deregister for a region whose owner is gone: windows that are bound to it are no more. Releasing twice is harmless.
// The caller owns every engine that uses the table.
func (m *Memory) Release(r *Region) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for slot := 0; r.windows > 0; slot++ { // seldom, and the table holds no list of them
		if g := m.slots[slot].Load(); g != nil && g.window != nil && g.region == r {
			m.revoke(g.window)
		}
	}
	if m.registered(r) {
		m.remove(r)
	}
}

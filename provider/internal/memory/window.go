package memory

import (
	"sync/atomic"

	"github.com/ndxdp/ndxdp/provider/internal/outcome"
)

// Window grants the peer of one queue pair access to part of a region while it is bound. Requests of this queue pair bind and
// unbind it. Each binding has a new token (ND specification section 10).
type Window struct {
	Grant
	table *Table
	slot  uint16
	fast  bool // constant: it is a region for fast registration

	posted   atomic.Uint32 // token of the newest posted Bind
	released bool          // guarded by Table.mu
	aim      aim

	// Neighbours in the list of windows bound to the same user. The user's engine owns them.
	next, prev *Window
}

// NewWindow makes an unbound window. It fails with InsufficientResources if the table is full.
func (m *Table) NewWindow() (*Window, error) { return m.newWindow(false) }

func (m *Table) newWindow(fast bool) (*Window, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	slot, ok := m.takeSlot()
	if !ok {
		return nil, outcome.InsufficientResources
	}
	w := &Window{table: m, slot: slot, fast: fast}
	if fast {
		w.posted.Store(uint32(m.drawToken(slot, 0)))
	}
	w.window = w
	m.put(slot, &w.Grant)
	return w, nil
}

// Token returns the token of the newest posted Bind, even before it executes, or zero before the first.
func (w *Window) Token() Token { return Token(w.posted.Load()) }

// Bound reports whether the window is bound. The result may change at any time unless the caller owns the engine.
func (w *Window) Bound() bool { return w.owner.Load() != nil }

// Binding is what a posted request does to Window: it binds memory or ends the binding.
type Binding struct {
	Window *Window
	region *Region // nil if it ends the binding
	addr   uint64
	length uint64
	base   uint64 // address of the first byte for the peer
	token  Token
	rights Rights
}

// Prepare returns the binding of the n bytes at addr of r, with address base, and draws its token. Remote rights of the binding
// need not be rights of the region. But a right to write, local or remote, needs the region's local write right. Prepare fails if
// the bytes are outside the region, if base makes them wrap, if the region is not registered or if the right is missing. Any
// goroutine may call it.
func (w *Window) Prepare(r *Region, addr, n, base uint64, rights Rights) (b Binding, ok bool) {
	if _, inside := r.slice(addr, n); !inside || base+n < base {
		return Binding{}, false
	}
	m := w.table
	if !m.registered(r) || rights&(RightRemoteWrite|RightLocalWrite) != 0 && r.rights&RightLocalWrite == 0 {
		return Binding{}, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return Binding{w, r, addr, n, base, m.drawToken(w.slot, w.Token()), rights}, true
}

// Posted makes b the newest binding of its window, because its request was posted, and returns the token.
func (b *Binding) Posted() Token {
	w := b.Window
	if w.fast {
		buf, _ := b.region.slice(b.addr, b.length)
		w.table.mu.Lock()
		w.aim = aim{buf: buf, base: b.base}
		w.table.mu.Unlock()
	}
	w.posted.Store(uint32(b.token))
	return b.token
}

// Bind binds the window for u's peer, and for u itself if it is a region for fast registration. It fails with InvalidRequest if the
// window is bound or released, and with AccessViolation if the region is not registered. The caller owns u's engine.
func (m *Table) Bind(u *User, b *Binding) outcome.Outcome {
	w, r := b.Window, b.region
	m.mu.Lock()
	defer m.mu.Unlock()
	if w.released || w.Bound() {
		return outcome.InvalidRequest
	}
	buf, ok := r.slice(b.addr, b.length)
	if !ok || !m.registered(r) {
		return outcome.AccessViolation
	}
	r.windows++
	w.region, w.base, w.buf, w.rights, w.shift, w.foreign = r, b.base, buf, b.rights, b.addr-b.base, r.foreign
	w.token.Store(uint32(b.token))
	w.owner.Store(u)
	w.next = u.windows
	if w.next != nil {
		w.next.prev = w
	}
	u.windows = w
	return outcome.Success
}

// Unbind ends the binding of w to u. It fails with InvalidRequest if w is not bound to u. The caller owns u's engine.
func (m *Table) Unbind(u *User, w *Window) outcome.Outcome {
	if w.owner.Load() != u {
		return outcome.InvalidRequest
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.revoke(w)
	return outcome.Success
}

// UnbindToken ends the binding to u with token t. It fails with InvalidRequest if there is none. The caller owns u's engine.
func (m *Table) UnbindToken(u *User, t Token) outcome.Outcome {
	g := m.find(t)
	if g == nil || g.window == nil {
		return outcome.InvalidRequest
	}
	return m.Unbind(u, g.window)
}

// revoke ends a binding. The caller holds mu and owns the engine of the window's user.
func (m *Table) revoke(w *Window) {
	u := w.owner.Swap(nil)
	if r := w.region; r.windows > 1 {
		r.windows--
	} else {
		r.windows = 0
		if fin := r.unbound; fin != nil {
			r.unbound = nil
			fin(outcome.Success)
		}
	}
	w.region, w.buf = nil, nil
	if w.next != nil {
		w.next.prev = w.prev
	}
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		u.windows = w.next
	}
	w.next, w.prev = nil, nil
}

// UnbindAll ends the bindings of all windows of u, because its peer is gone. The caller owns u's engine.
func (m *Table) UnbindAll(u *User) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for u.windows != nil {
		m.revoke(u.windows)
	}
}

// ReleaseWindow removes w, bound or not. Requests that still name it fail. The caller owns every engine that uses the table.
func (m *Table) ReleaseWindow(w *Window) {
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

// WhenUnbound calls fin when no window is bound to r any more. It returns false, and does not call fin, if none is bound now.
func (m *Table) WhenUnbound(r *Region, fin outcome.Finish) (waits bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.windows == 0 {
		return false
	}
	r.unbound = fin
	return true
}

// Release is Deregister for a region whose owner is gone. It also ends the bindings of its windows. A second call has no effect.
// The caller owns every engine that uses the table.
func (m *Table) Release(r *Region) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for slot := 0; r.windows > 0; slot++ { // rare, and the table has no list of windows
		if g := m.at(uint16(slot)); g != nil && g.window != nil && g.region == r {
			m.revoke(g.window)
		}
	}
	if m.registered(r) {
		m.remove(r)
	}
}

package memory

// This file implements fast registration: a request gives a region its memory, base address, rights and token when the request
// executes (ND specification section 10). The region is a window that requests of its own queue pair may use, too. Only the engine
// of one queue pair changes it.

// aim is the memory and base of the newest posted fast registration, which may not have executed yet. It is guarded by Table.mu.
type aim struct {
	buf  []byte
	base uint64
}

// NewFastRegion makes a region for fast registration, without memory. Its token grants nothing yet. It fails with
// InsufficientResources if the table is full.
func (m *Table) NewFastRegion() (*Window, error) { return m.newWindow(true) }

// Aim returns the memory and base address of the newest posted fast registration, or nil before the first.
func (w *Window) Aim() (buf []byte, base uint64) {
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	return w.aim.buf, w.aim.base
}

// Posted returns the memory and base address that token t will name after the newest fast registration has executed. It lets
// requests be posted behind the registration. It returns nil for other tokens.
func (m *Table) Posted(t Token) (buf []byte, base uint64) {
	g := m.at(m.slotOf(t))
	if g == nil || g.window == nil || !g.window.fast || g.window.Token() != t {
		return nil, 0
	}
	return g.window.Aim()
}

// local returns the grant that t names if requests of u may use it with all rights in need. It is a region or a fast-registered
// region, because only peers may use a window. The caller owns u's engine.
func (m *Table) local(u *User, t Token, need Rights) *Grant {
	g := m.granted(u, t, need)
	if g == nil || g.window != nil && !g.window.fast {
		return nil
	}
	return g
}

// Fast reports whether w is a region for fast registration.
func (w *Window) Fast() bool { return w.fast }

package memory

// This file has fast registration: a request gives a region its memory, base address, rights and token when the request is carried out (ND
// specification section 10). The region is a window that its own side may use, too. Only the engine of one queue pair changes it, and it
// serves only this queue pair's requests and its peer.

// aim is what the newest posted fast registration names, also before it is carried out; guarded by Table.mu.
type aim struct {
	buf  []byte
	base uint64
}

// NewFastRegion makes a region for fast registration, without memory. It has a token already, which grants nothing. It fails
// with InsufficientResources when the table is full.
func (m *Table) NewFastRegion() (*Window, error) { return m.newWindow(true) }

// Aim returns the memory and the base address of the newest fast registration that was posted, nil before the first.
func (w *Window) Aim() (buf []byte, base uint64) {
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	return w.aim.buf, w.aim.base
}

// Posted returns what the token of the newest fast registration of a region will name when that is carried out. It is for
// posting requests behind it; nil for other tokens.
func (m *Table) Posted(t Token) (buf []byte, base uint64) {
	g := m.slots[m.slotOf(t)].Load()
	if g == nil || g.window == nil || !g.window.fast || g.window.Token() != t {
		return nil, 0
	}
	return g.window.Aim()
}

// local returns what t names, when requests of u may do all of need with it: a region, or one for fast registration. A window is for peers
// alone. The caller owns u's engine.
func (m *Table) local(u *User, t Token, need Rights) *Grant {
	g := m.granted(u, t, need)
	if g == nil || g.window != nil && !g.window.fast {
		return nil
	}
	return g
}

// Fast says whether w is a region for fast registration.
func (w *Window) Fast() bool { return w.fast }

package memory

// Recent caches the newest lookup of one user, because the operations of a packet mostly use the same memory. A hit needs the same
// token and rights. Requests and the peer need different rights, so a request never hits an entry of the peer. An entry must not
// outlive a poll, nor a change to what tokens name: code that makes a change calls Forget.
type Recent struct {
	grant *Grant
	token Token
	need  Rights
}

// Forget drops the entry.
func (r *Recent) Forget() { r.grant = nil }

// Local returns the n bytes at addr of region t for a request of u. It returns nil unless the region is in u's domain and grants
// all rights in need. The caller owns u's engine.
func (r *Recent) Local(m *Table, u *User, t Token, addr, n uint64, need Rights) ([]byte, *Grant) {
	if r.grant == nil || r.token != t || r.need != need {
		g := m.local(u, t, need)
		if g == nil {
			return nil, nil
		}
		r.grant, r.token, r.need = g, t, need
	}
	b, ok := r.grant.slice(addr, n)
	if !ok {
		return nil, nil
	}
	return b, r.grant
}

// Remote returns the n bytes at addr for the peer of u. It returns nil unless t grants the peer all rights in need. The caller owns
// u's engine.
func (r *Recent) Remote(m *Table, u *User, t Token, addr, n uint64, need Rights) ([]byte, *Grant) {
	if r.grant == nil || r.token != t || r.need != need {
		g := m.granted(u, t, need)
		if g == nil {
			return nil, nil
		}
		r.grant, r.token, r.need = g, t, need
	}
	b, ok := r.grant.slice(addr, n)
	if !ok {
		return nil, nil
	}
	return b, r.grant
}

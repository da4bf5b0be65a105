package memory

// Recent is the result of the newest lookup, so that the next lookup of the same token and rights is a comparison: the operations of a
// packet mostly use the same memory. It is for one user. Requests and the peer ask for different rights, and so never find each other's
// result. It must not outlive a poll, nor any change of what tokens name: the code that carries out the change calls Forget.
type Recent struct {
	grant *Grant
	token Token
	need  Rights
}

// Forget makes the next lookup go to the table.
func (r *Recent) Forget() { r.grant = nil }

// Local resolves the n bytes at addr of the region of t for a request of u. It returns nil unless the region is of u's domain and grants
// all of need. The caller owns u's engine.
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

// Remote resolves the n bytes at addr for the peer of u, when t grants it all of need; nil otherwise. The caller owns u's engine.
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

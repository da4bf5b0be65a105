package memory

// Recent is what the newest lookup found, so that the next one of the same token for the same rights is a comparison: the operations of a packet
// mostly use the same memory. It is for one user; requests and its peer ask for different rights, and so never find what the other did. It must
// not outlive a turn, nor anything that changes what tokens name: whoever carries that out calls Forget.
type Recent struct {
	grant *Grant
	token Token
	need  Rights
}

// Forget makes the next lookup go to the table.
func (r *Recent) Forget() { r.grant = nil }

// Local resolves the n bytes at addr of the region named by t for a request of u, when the region is of u's domain and grants all of
// need; nil otherwise. The caller owns u's engine.
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

package verbs

import (
	"slices"
	"sync"

	"github.com/ndxdp/ndxdp/internal/datapath"
	"github.com/ndxdp/ndxdp/provider"
)

// Mappings are regions that requests of an adapter may name by one common token, the privileged token. There are few of them, so a lookup
// walks over all. All methods may be called from any goroutine.
type Mappings struct {
	token provider.Token // not in the table of regions, and used by nothing else; zero without mappings

	mu   sync.RWMutex
	list []*provider.Region // guarded by mu
}

// Reserve draws the privileged token from the adapter's table of regions, before the adapter is used. It occupies the entry of one
// region.
func (m *Mappings) Reserve(memory *provider.Memory) error {
	reserved, err := memory.NewFastRegion()
	if err == nil {
		m.token = reserved.Token()
	}
	return err
}

// Token returns the privileged token.
func (m *Mappings) Token() provider.Token { return m.token }

// Add makes a region a mapping.
func (m *Mappings) Add(r *provider.Region) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list = append(m.list, r)
}

// Remove undoes Add, and says whether the region was a mapping.
func (m *Mappings) Remove(r *provider.Region) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.Index(m.list, r)
	if i < 0 {
		return false
	}
	m.list = slices.Delete(m.list, i, i+1)
	return true
}

// Count returns how many mappings there are.
func (m *Mappings) Count() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.list)
}

// At returns the mapping that has a byte at an address, nil without one.
func (m *Mappings) At(addr uint64) *provider.Region {
	return m.find(func(r *provider.Region) bool { return addr-r.Base() < uint64(len(r.Bytes())) })
}

// holding returns the mapping that contains all of buf. It returns nil if there is none or if t is not the privileged token.
func (m *Mappings) holding(t provider.Token, buf []byte) *provider.Region {
	if t != m.token || t == 0 {
		return nil
	}
	return m.find(func(r *provider.Region) bool {
		_, ok := datapath.OffsetIn(r.Bytes(), buf)
		return ok
	})
}

func (m *Mappings) find(is func(*provider.Region) bool) *provider.Region {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if i := slices.IndexFunc(m.list, is); i >= 0 {
		return m.list[i]
	}
	return nil
}

package memory

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/ndxdp/ndxdp/provider/internal/outcome"
)

// MaxRegions is the capacity of the table: a slot is 16 bits of a token.
const MaxRegions = 1 << 16

// pageSlots is the number of slots of a page. Each collection of garbage reads the whole table: 0.3 ms if all slots were allocated at
// once, and most adapters use few.
const pageSlots = 256

// Table is an adapter's table of regions and windows. Any goroutine may look up without waiting. Changes take the lock.
type Table struct {
	pages  [MaxRegions / pageSlots]atomic.Pointer[page] // allocated with their first slot, and kept
	secret uint16

	mu    sync.Mutex
	rng   *rand.Rand
	free  []uint16
	next  int
	count int
}

// page holds what slots in a row name; nil for nothing.
type page [pageSlots]atomic.Pointer[Grant]

// at returns what a slot names, or nil.
func (m *Table) at(slot uint16) *Grant {
	p := m.pages[slot/pageSlots].Load()
	if p == nil {
		return nil
	}
	return p[slot%pageSlots].Load()
}

// put changes what a slot names. The caller holds mu.
func (m *Table) put(slot uint16, g *Grant) {
	p := m.pages[slot/pageSlots].Load()
	if p == nil {
		p = new(page)
		m.pages[slot/pageSlots].Store(p)
	}
	p[slot%pageSlots].Store(g)
}

// NewTable makes an empty table. Tokens are drawn from rng, which must be unpredictable outside tests. The table calls rng under
// its lock, from any goroutine.
func NewTable(rng *rand.Rand) *Table {
	return &Table{secret: uint16(rng.Uint32()), rng: rng}
}

// Register adds buf for the queue pairs of all domains. It fails with InsufficientResources if the table is full.
func (m *Table) Register(buf []byte, rights Rights) (*Region, error) {
	return m.RegisterIn(nil, buf, rights, false)
}

// RegisterIn is Register for the queue pairs of domain d, or of all domains if d is nil. foreign means that the memory is not on
// Go's heap, so that the process may lose it: a file may shrink, a mapping may be protected or removed. Requests that use lost
// memory end with an access violation.
func (m *Table) RegisterIn(d *Domain, buf []byte, rights Rights, foreign bool) (*Region, error) {
	return m.add(&Region{Grant: Grant{buf: buf, rights: rights, domain: d, foreign: foreign}}, true)
}

// RegisterAt is RegisterIn with a base address that the application chooses. The base plus the length of buf must not wrap. Only the
// token then keeps a peer from the region.
func (m *Table) RegisterAt(d *Domain, buf []byte, rights Rights, foreign bool, base uint64) (*Region, error) {
	return m.add(&Region{Grant: Grant{buf: buf, rights: rights, domain: d, foreign: foreign, base: base}}, false)
}

// RegisterLink adds memory that belongs to the link, with the link's name id. Long messages are sent from it without a copy.
func (m *Table) RegisterLink(buf []byte, id uint64, rights Rights) (*Region, error) {
	return m.add(&Region{Grant: Grant{buf: buf, rights: rights}, inLink: true, linkID: id}, true)
}

func (m *Table) add(r *Region, drawBase bool) (*Region, error) {
	if r.rights&RightRemoteWrite != 0 {
		r.rights |= RightLocalWrite
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	slot, ok := m.takeSlot()
	if !ok {
		return nil, outcome.InsufficientResources
	}
	r.region = r
	r.token.Store(uint32(m.drawToken(slot, 0)))
	if drawBase { // between 2^40 and 2^62: far from zero and from wrapping
		r.base = (1<<40 + m.rng.Uint64N(1<<62-1<<40)) &^ (regionAlign - 1)
	}
	m.put(slot, &r.Grant)
	m.count++
	return r, nil
}

// takeSlot returns a free slot of the table. The caller holds mu.
func (m *Table) takeSlot() (slot uint16, ok bool) {
	switch {
	case m.next < MaxRegions:
		slot = uint16(m.next)
		m.next++
	case len(m.free) > 0:
		// Oldest first, so that a slot stays unused for as long as possible.
		slot = m.free[0]
		m.free = m.free[1:]
	default:
		return 0, false
	}
	return slot, true
}

// drawToken draws a token for slot that differs from old. The caller holds mu.
func (m *Table) drawToken(slot uint16, old Token) (t Token) {
	for t == 0 || t == old {
		t = Token(uint32(slot^m.secret)<<16 | uint32(uint16(m.rng.Uint32())))
	}
	return t
}

// Deregister removes r. The caller must own every engine that uses the table, so that no packet is being placed into the region
// when Deregister returns (I5). It returns DeviceBusy while a window is bound to r, and InvalidState if r is not registered.
func (m *Table) Deregister(r *Region) outcome.Outcome {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case r.windows > 0:
		return outcome.DeviceBusy
	case !m.registered(r):
		return outcome.InvalidState
	}
	m.remove(r)
	return outcome.Success
}

// remove takes r out of the table. The caller holds mu.
func (m *Table) remove(r *Region) {
	m.giveSlot(m.slotOf(r.Token()))
	m.count--
}

// slotOf returns the slot of a token.
func (m *Table) slotOf(t Token) uint16 { return uint16(t>>16) ^ m.secret }

// registered reports whether r is in the table.
func (m *Table) registered(r *Region) bool { return m.at(m.slotOf(r.Token())) == &r.Grant }

// giveSlot empties a slot. The caller holds mu.
func (m *Table) giveSlot(slot uint16) {
	m.put(slot, nil)
	m.free = append(m.free, slot)
}

// find returns the grant that a token names, or nil.
func (m *Table) find(t Token) *Grant {
	g := m.at(m.slotOf(t))
	if g == nil || g.token.Load() != uint32(t) {
		return nil
	}
	return g
}

// Lookup returns the region that a token names, or nil. It returns nil for the token of a window, because only peers use windows.
func (m *Table) Lookup(t Token) *Region {
	g := m.find(t)
	if g == nil || g.window != nil {
		return nil
	}
	return g.region
}

// Windows returns the number of windows bound to r.
func (m *Table) Windows(r *Region) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return r.windows
}

// Count returns the number of registered regions.
func (m *Table) Count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.count
}

// granted returns the grant that t names if it gives u's peer all rights in need. A region serves the peers of all users of its
// domain; a window serves only its user's peer. The caller owns u's engine.
func (m *Table) granted(u *User, t Token, need Rights) *Grant {
	g := m.find(t)
	if g == nil {
		return nil
	}
	if g.window != nil {
		if owner := g.owner.Load(); owner == nil || owner != u {
			return nil
		}
	}
	if g.rights&need != need || !g.serves(u) {
		return nil
	}
	return g
}

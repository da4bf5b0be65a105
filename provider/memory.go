package provider

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

// Token names a memory region or a memory window to requests, here and at the peer: a table slot XOR a secret in the high
// half, random bits in the low half. Each registration and each binding makes a new one. Zero is never a token.
type Token uint32

// Rights say what may be done with a region or a window beyond reading it locally.
type Rights uint8

// The rights of a region. A window has only the remote ones.
const (
	RightLocalWrite Rights = 1 << iota
	RightRemoteRead
	RightRemoteWrite
)

// maxRegions bounds the table of regions and windows: a slot is 16 bits of a token.
const maxRegions = 1 << 16

// regionAlign is the alignment of the addresses given to peers, so that an offset inside a region keeps the alignment it
// has in memory up to a page.
const regionAlign = 4096

// grant is what a token names: memory, and what may be done with it by whom. That of a region never changes. That of a window
// is changed by the engine of the queue pair it is bound to, and other engines may look at it meanwhile: they read token and
// owner, and more only when the owner is a queue pair of theirs.
type grant struct {
	token  atomic.Uint32
	rights Rights
	window *MemoryWindow // fixed: whose grant this is; nil for that of a region
	base   uint64
	buf    []byte
	owner  atomic.Pointer[QP] // of a bound window: the queue pair whose peer may use it
	domain *Domain            // fixed: of a region; nil when it is of all, and for windows, which are one queue pair's
	region *Region            // itself, or what a window is bound to

	// Access by peers, counted by the engine that serves them.
	remoteReads, remoteWrites atomic.Uint64
}

// Domain is a protection domain: regions that are of one serve its queue pairs and no others. Domains are told apart by their address.
type Domain struct{ _ byte }

// serves says whether requests and the peer of qp may use the grant as far as domains go.
func (g *grant) serves(qp *QP) bool { return g.domain == nil || qp != nil && qp.domain == g.domain }

// Base returns the address that stands for the first byte.
func (g *grant) Base() uint64 { return g.base }

// RemoteAccesses returns how many READ packets were served from and WRITE packets placed into the memory for peers that
// named it by this token: access through a window counts there and not at its region.
func (g *grant) RemoteAccesses() (reads, writes uint64) {
	return g.remoteReads.Load(), g.remoteWrites.Load()
}

// slice returns the n bytes at addr. No sum of addr and n is formed, so nothing can wrap.
func (g *grant) slice(addr, n uint64) ([]byte, bool) {
	if addr < g.base {
		return nil, false
	}
	off := addr - g.base
	size := uint64(len(g.buf))
	if n > size || off > size-n {
		return nil, false
	}
	return g.buf[off : off+n : off+n], true
}

// Region is registered memory. Its address is an invention that peers can do arithmetic on, never an address of this
// process.
type Region struct {
	grant
	// Memory of the link, which packets can refer to: linkID names its first byte.
	inLink bool
	linkID uint64

	windows int    // bound to it; guarded by Memory.mu
	unbound Finish // waits for there to be none; guarded by Memory.mu
}

// Token returns the region's token, which is both the local and the remote one.
func (r *Region) Token() Token { return Token(r.token.Load()) }

// Bytes returns the registered memory.
func (r *Region) Bytes() []byte { return r.buf }

// Memory is the table of an adapter's regions and windows. Lookup is wait-free and may run anywhere; changes lock.
type Memory struct {
	slots  []atomic.Pointer[grant]
	secret uint16

	mu    sync.Mutex
	rng   *rand.Rand
	free  []uint16
	next  int
	count int
}

// NewMemory makes an empty table. Tokens are drawn from rng, which must be unpredictable outside tests; the table uses it from
// any goroutine, under its lock.
func NewMemory(rng *rand.Rand) *Memory {
	return &Memory{slots: make([]atomic.Pointer[grant], maxRegions), secret: uint16(rng.Uint32()), rng: rng}
}

// Register adds buf, for the queue pairs of all domains. It fails with OutcomeInsufficientResources when the table is full.
func (m *Memory) Register(buf []byte, rights Rights) (*Region, error) {
	return m.RegisterIn(nil, buf, rights)
}

// RegisterIn is Register for the queue pairs of one domain.
func (m *Memory) RegisterIn(d *Domain, buf []byte, rights Rights) (*Region, error) {
	return m.add(&Region{grant: grant{buf: buf, rights: rights, domain: d}})
}

// RegisterLink adds memory that belongs to the link under the name id: long messages leave from it without a copy.
func (m *Memory) RegisterLink(buf []byte, id uint64, rights Rights) (*Region, error) {
	return m.add(&Region{grant: grant{buf: buf, rights: rights}, inLink: true, linkID: id})
}

func (m *Memory) add(r *Region) (*Region, error) {
	if r.rights&RightRemoteWrite != 0 {
		r.rights |= RightLocalWrite
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	slot, ok := m.takeSlot()
	if !ok {
		return nil, OutcomeInsufficientResources
	}
	r.region = r
	r.token.Store(uint32(m.drawToken(slot, 0)))
	// Between 2^40 and 2^62: far from zero and from wrapping.
	r.base = (1<<40 + m.rng.Uint64N(1<<62-1<<40)) &^ (regionAlign - 1)
	m.slots[slot].Store(&r.grant)
	m.count++
	return r, nil
}

// takeSlot returns a free slot of the table. The caller holds mu.
func (m *Memory) takeSlot() (slot uint16, ok bool) {
	switch {
	case m.next < maxRegions:
		slot = uint16(m.next)
		m.next++
	case len(m.free) > 0:
		// Oldest first: a slot stays unused as long as possible before it is used again.
		slot = m.free[0]
		m.free = m.free[1:]
	default:
		return 0, false
	}
	return slot, true
}

// drawToken makes a token for slot, other than old. The caller holds mu.
func (m *Memory) drawToken(slot uint16, old Token) (t Token) {
	for t == 0 || t == old {
		t = Token(uint32(slot^m.secret)<<16 | uint32(uint16(m.rng.Uint32())))
	}
	return t
}

// Deregister removes r. The caller must own every engine that uses the table while it calls, so that no packet is being
// placed into the region when this returns (I5). Outcomes: OutcomeDeviceBusy while a window is bound to it, OutcomeInvalidState when
// it is not registered.
func (m *Memory) Deregister(r *Region) Outcome {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case r.windows > 0:
		return OutcomeDeviceBusy
	case !m.registered(r):
		return OutcomeInvalidState
	}
	m.remove(r)
	return OutcomeSuccess
}

// remove takes r out of the table. The caller holds mu.
func (m *Memory) remove(r *Region) {
	m.giveSlot(m.slotOf(r.Token()))
	m.count--
}

// slotOf is the slot that t names.
func (m *Memory) slotOf(t Token) uint16 { return uint16(t>>16) ^ m.secret }

// registered says whether r is in the table.
func (m *Memory) registered(r *Region) bool { return m.slots[m.slotOf(r.Token())].Load() == &r.grant }

// giveSlot empties a slot. The caller holds mu.
func (m *Memory) giveSlot(slot uint16) {
	m.slots[slot].Store(nil)
	m.free = append(m.free, slot)
}

// find returns what a token names, or nil.
func (m *Memory) find(t Token) *grant {
	g := m.slots[m.slotOf(t)].Load()
	if g == nil || g.token.Load() != uint32(t) {
		return nil
	}
	return g
}

// Lookup returns the region a token names, or nil. The token of a window is none here: windows are for peers.
func (m *Memory) Lookup(t Token) *Region {
	g := m.find(t)
	if g == nil || g.window != nil {
		return nil
	}
	return g.region
}

// Windows is how many windows are bound to r.
func (m *Memory) Windows(r *Region) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return r.windows
}

// Count is the number of registered regions.
func (m *Memory) Count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.count
}

// local resolves the n bytes at addr of the region named by t for a request to qp, when the region is of qp's domain and grants all of
// need. The caller owns qp's engine.
func (m *Memory) local(qp *QP, t Token, addr, n uint64, need Rights) ([]byte, *Region) {
	r := m.Lookup(t)
	if r == nil {
		return m.fastLocal(qp, t, addr, n, need)
	}
	if r.rights&need != need || !r.serves(qp) {
		return nil, nil
	}
	b, ok := r.slice(addr, n)
	if !ok {
		return nil, nil
	}
	return b, r
}

// granted returns what t names, when the peer of qp may do all of need with it. A region is there for the peers of its domain's queue
// pairs, a window for that of its queue pair. The caller owns qp's engine.
func (m *Memory) granted(qp *QP, t Token, need Rights) *grant {
	g := m.find(t)
	if g == nil {
		return nil
	}
	if g.window != nil {
		if owner := g.owner.Load(); owner == nil || owner != qp {
			return nil
		}
	}
	if g.rights&need != need || !g.serves(qp) {
		return nil
	}
	return g
}

// remote resolves the n bytes at addr for the peer of qp, when t grants it all of need.
func (m *Memory) remote(qp *QP, t Token, addr, n uint64, need Rights) ([]byte, *grant) {
	g := m.granted(qp, t, need)
	if g == nil {
		return nil, nil
	}
	b, ok := g.slice(addr, n)
	if !ok {
		return nil, nil
	}
	return b, g
}

package provider

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

// Token names a memory region to requests, here and at the peer: a table slot XOR a secret in the high half, random bits
// in the low half. Each registration makes a new one. Zero is never a token.
type Token uint32

// Rights say what may be done with a region beyond reading it locally.
type Rights uint8

// The rights of a region.
const (
	RightLocalWrite Rights = 1 << iota
	RightRemoteRead
	RightRemoteWrite
)

// maxRegions bounds the table: a slot is 16 bits of a token.
const maxRegions = 1 << 16

// regionAlign is the alignment of the addresses given to peers, so that an offset inside a region keeps the alignment it
// has in memory up to a page.
const regionAlign = 4096

// Region is registered memory. Its address is an invention that peers can do arithmetic on, never an address of this
// process.
type Region struct {
	token  Token
	base   uint64
	buf    []byte
	rights Rights
	// Memory of the link, which packets can refer to: linkID names its first byte.
	inLink bool
	linkID uint64

	// Access by peers, counted by the engine that serves them.
	remoteReads, remoteWrites atomic.Uint64
}

// Token returns the region's token; Base the address of its first byte as requests and peers name it.
func (r *Region) Token() Token { return r.token }

// Base returns the address that stands for the region's first byte.
func (r *Region) Base() uint64 { return r.base }

// Bytes returns the registered memory.
func (r *Region) Bytes() []byte { return r.buf }

// RemoteAccesses returns how many READ packets were served from and WRITE packets placed into the region for peers.
func (r *Region) RemoteAccesses() (reads, writes uint64) {
	return r.remoteReads.Load(), r.remoteWrites.Load()
}

// slice returns the n bytes at addr. No sum of addr and n is formed, so nothing can wrap.
func (r *Region) slice(addr, n uint64) ([]byte, bool) {
	if addr < r.base {
		return nil, false
	}
	off := addr - r.base
	size := uint64(len(r.buf))
	if n > size || off > size-n {
		return nil, false
	}
	return r.buf[off : off+n : off+n], true
}

// Memory is the table of an adapter's regions. Lookup is wait-free and may run anywhere; registering locks.
type Memory struct {
	slots  []atomic.Pointer[Region]
	secret uint16

	mu    sync.Mutex
	rng   *rand.Rand
	free  []uint16
	next  int
	count int
}

// NewMemory makes an empty table. Tokens are drawn from rng, which must be unpredictable outside tests.
func NewMemory(rng *rand.Rand) *Memory {
	return &Memory{slots: make([]atomic.Pointer[Region], maxRegions), secret: uint16(rng.Uint32()), rng: rng}
}

// Register adds buf. It fails with OutcomeInsufficientResources when the table is full.
func (m *Memory) Register(buf []byte, rights Rights) (*Region, error) {
	return m.add(&Region{buf: buf, rights: rights})
}

// RegisterLink adds memory that belongs to the link under the name id: long messages leave from it without a copy.
func (m *Memory) RegisterLink(buf []byte, id uint64, rights Rights) (*Region, error) {
	return m.add(&Region{buf: buf, rights: rights, inLink: true, linkID: id})
}

func (m *Memory) add(r *Region) (*Region, error) {
	if r.rights&RightRemoteWrite != 0 {
		r.rights |= RightLocalWrite
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var slot uint16
	switch {
	case m.next < maxRegions:
		slot = uint16(m.next)
		m.next++
	case len(m.free) > 0:
		// Oldest first: a slot rests as long as possible before it is used again.
		slot = m.free[0]
		m.free = m.free[1:]
	default:
		return nil, OutcomeInsufficientResources
	}
	token := Token(0)
	for token == 0 {
		token = Token(uint32(slot^m.secret)<<16 | uint32(uint16(m.rng.Uint32())))
	}
	// Between 2^40 and 2^62: far from zero and from wrapping.
	base := (1<<40 + m.rng.Uint64N(1<<62-1<<40)) &^ (regionAlign - 1)
	r.token, r.base = token, base
	m.slots[slot].Store(r)
	m.count++
	return r, nil
}

// Deregister removes r. The caller must own every engine that uses the table while it calls, so that no packet is being
// placed into the region when this returns. It reports whether r was registered.
func (m *Memory) Deregister(r *Region) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	slot := uint16(r.token>>16) ^ m.secret
	if !m.slots[slot].CompareAndSwap(r, nil) {
		return false
	}
	m.free = append(m.free, slot)
	m.count--
	return true
}

// Lookup returns the region a token names, or nil.
func (m *Memory) Lookup(t Token) *Region {
	r := m.slots[uint16(t>>16)^m.secret].Load()
	if r == nil || r.token != t {
		return nil
	}
	return r
}

// Count is the number of registered regions.
func (m *Memory) Count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.count
}

// access resolves the n bytes at addr of the region named by t, when the region grants all of need.
func (m *Memory) access(t Token, addr, n uint64, need Rights) ([]byte, *Region) {
	r := m.Lookup(t)
	if r == nil || r.rights&need != need {
		return nil, nil
	}
	b, ok := r.slice(addr, n)
	if !ok {
		return nil, nil
	}
	return b, r
}

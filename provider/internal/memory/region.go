package memory

import (
	"sync/atomic"

	"github.com/ndxdp/ndxdp/provider/internal/outcome"
)

// Token names a memory region or a memory window in requests, on this side and at the peer. The high half is a table slot XOR a
// secret; the low half is random. Each registration and each binding makes a new token. Zero is not a token.
type Token uint32

// Rights are the allowed accesses to a region or window. Local reads need no right.
type Rights uint8

// Rights of a region. A window has only remote rights, and so has no RightLocalWrite.
const (
	RightLocalWrite Rights = 1 << iota
	RightRemoteRead
	RightRemoteWrite
)

// regionAlign aligns the addresses given to peers, so that an offset in a region has the same alignment there as in memory, up to a
// page.
const regionAlign = 4096

// User is a queue pair that accesses memory by tokens, for its requests and for its peer. Its engine owns it. The zero User has no
// domain.
type User struct {
	domain  *Domain
	windows *Window // windows bound to the queue pair
}

// NewUser returns a user of the regions of d and of regions without a domain. d may be nil.
func NewUser(d *Domain) User { return User{domain: d} }

// HasWindows reports whether a window is bound to u.
func (u *User) HasWindows() bool { return u.windows != nil }

// Grant is what a token names: memory, and the accesses that are allowed. The grant of a region never changes. The grant of a
// window changes: only the engine of the bound queue pair writes it, but other engines may read it. They read token and owner
// first, and further fields only if owner is one of their queue pairs.
type Grant struct {
	token  atomic.Uint32
	rights Rights
	// The process may lose the memory (Table.RegisterIn).
	foreign bool
	window  *Window // constant: the window that this grant belongs to; nil for a region
	base    uint64
	buf     []byte
	owner   atomic.Pointer[User] // of a bound window: the user whose peer may access it
	domain  *Domain              // constant: domain of a region; nil for all domains, and for windows
	region  *Region              // the region itself, or the region of a bound window
	shift   uint64               // of a bound window: added to a window address, it gives the region address; the sum may wrap

	// Packets of peers that accessed the memory. The engine that serves them counts.
	remoteReads, remoteWrites atomic.Uint64
}

// Domain is a protection domain. A region of a domain serves only queue pairs of this domain. A domain is identified by its
// address.
type Domain struct{ _ byte }

// serves reports whether the domains of g and u allow access.
func (g *Grant) serves(u *User) bool { return g.domain == nil || u != nil && u.domain == g.domain }

// Base returns the address of the first byte.
func (g *Grant) Base() uint64 { return g.base }

// Foreign reports whether the process may lose the memory while it is registered. It is accessed only through memfault.Try.
func (g *Grant) Foreign() bool { return g.foreign }

// RemoteAccesses returns the number of READ packets served from the memory and of WRITE packets placed into it, for peers that used
// this token. Access through a window counts for the window only.
func (g *Grant) RemoteAccesses() (reads, writes uint64) {
	return g.remoteReads.Load(), g.remoteWrites.Load()
}

// CountReads counts n READ packets served from the memory for a peer. The engine that serves them calls it.
func (g *Grant) CountReads(n uint64) { g.remoteReads.Add(n) }

// CountWrites counts n WRITE packets placed into the memory for a peer. The engine that places them calls it.
func (g *Grant) CountWrites(n uint64) { g.remoteWrites.Add(n) }

// slice returns the n bytes at addr. It never adds addr and n, so nothing can wrap.
func (g *Grant) slice(addr, n uint64) ([]byte, bool) {
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

// Region is registered memory. Its address is invented for peers' address arithmetic, and never an address of this process.
type Region struct {
	Grant
	// Memory of the link, which packets can reference: linkID names its first byte.
	inLink bool
	linkID uint64

	windows int            // number of bound windows; guarded by Table.mu
	unbound outcome.Finish // called when no window is bound any more; guarded by Table.mu
}

// Token returns the region's token, for local and remote use.
func (r *Region) Token() Token { return Token(r.token.Load()) }

// Bytes returns the registered memory.
func (r *Region) Bytes() []byte { return r.buf }

// LinkID returns the link's name for the byte at addr, which must be inside the grant. ok is false if the memory is not the link's.
// The caller owns the engine of the user.
func (g *Grant) LinkID(addr uint64) (id uint64, ok bool) {
	r := g.region
	return r.linkID + (addr + g.shift - r.base), r.inLink
}

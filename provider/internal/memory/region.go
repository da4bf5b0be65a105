package memory

import (
	"sync/atomic"

	"github.com/ndxdp/ndxdp/provider/internal/outcome"
)

// Token names a memory region or a memory window to requests, here and at the peer. The high half is a table slot XOR a secret, and the low
// half is random. Each registration and each binding makes a new token. Zero is never a token.
type Token uint32

// Rights say what may be done with a region or a window beyond reading it locally.
type Rights uint8

// The rights of a region. A window has only the remote ones.
const (
	RightLocalWrite Rights = 1 << iota
	RightRemoteRead
	RightRemoteWrite
)

// regionAlign is the alignment of the addresses given to peers, so that an offset inside a region keeps the alignment it
// has in memory up to a page.
const regionAlign = 4096

// User is who uses memory by tokens: a queue pair, for its requests and its peer. It belongs to the engine that the queue pair is at
// home on. The zero value is of no domain.
type User struct {
	domain  *Domain
	windows *Window // bound to it
}

// NewUser returns a user of d's regions and of regions without a domain; nil for no domain.
func NewUser(d *Domain) User { return User{domain: d} }

// HasWindows says whether a window is bound to it.
func (u *User) HasWindows() bool { return u.windows != nil }

// Grant is what a token names: memory, and who may do what with it. The grant of a region never changes. The grant of a window is changed
// by the engine of the queue pair it is bound to, while other engines may read it: they read token and owner, and the rest only if the
// owner is a queue pair of theirs.
type Grant struct {
	token  atomic.Uint32
	rights Rights
	// The process may lose the memory: see Table.RegisterIn.
	foreign bool
	window  *Window // fixed: whose grant this is; nil for that of a region
	base    uint64
	buf     []byte
	owner   atomic.Pointer[User] // of a bound window: whose peer may use it
	domain  *Domain              // fixed: of a region; nil when it is of all, and for windows, which are one user's
	region  *Region              // itself, or what a window is bound to
	shift   uint64               // of a bound window: what makes an address of the region of one of its own, by an addition that may wrap

	// Access by peers, counted by the engine that serves them.
	remoteReads, remoteWrites atomic.Uint64
}

// Domain is a protection domain: regions that are of one serve its queue pairs and no others. Domains are told apart by their address.
type Domain struct{ _ byte }

// serves says whether requests and the peer of u may use the grant as far as domains go.
func (g *Grant) serves(u *User) bool { return g.domain == nil || u != nil && u.domain == g.domain }

// Base returns the address that stands for the first byte.
func (g *Grant) Base() uint64 { return g.base }

// Foreign says that the process may lose the memory while it is registered, so that it is touched with memfault.Try only.
func (g *Grant) Foreign() bool { return g.foreign }

// RemoteAccesses counts the READ packets that were served from the memory, and the WRITE packets placed into it, for peers that used this
// token. Access through a window counts for the window, not for its region.
func (g *Grant) RemoteAccesses() (reads, writes uint64) {
	return g.remoteReads.Load(), g.remoteWrites.Load()
}

// CountReads counts READ packets that were served from the memory for a peer. The engine that serves them calls it.
func (g *Grant) CountReads(n uint64) { g.remoteReads.Add(n) }

// CountWrites counts WRITE packets that were placed into the memory for a peer. The engine that places them calls it.
func (g *Grant) CountWrites(n uint64) { g.remoteWrites.Add(n) }

// slice returns the n bytes at addr. No sum of addr and n is formed, so nothing can wrap.
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

// Region is registered memory. Its address is an invention that peers can do arithmetic on, never an address of this
// process.
type Region struct {
	Grant
	// Memory of the link, which packets can refer to: linkID names its first byte.
	inLink bool
	linkID uint64

	windows int            // bound to it; guarded by Table.mu
	unbound outcome.Finish // waits for there to be none; guarded by Table.mu
}

// Token returns the region's token, which is both the local and the remote one.
func (r *Region) Token() Token { return Token(r.token.Load()) }

// Bytes returns the registered memory.
func (r *Region) Bytes() []byte { return r.buf }

// LinkID is the link's name for the byte at addr, which is inside the grant; ok is false for memory that is not the link's. The caller owns
// the engine of the user.
func (g *Grant) LinkID(addr uint64) (id uint64, ok bool) {
	r := g.region
	return r.linkID + (addr + g.shift - r.base), r.inLink
}

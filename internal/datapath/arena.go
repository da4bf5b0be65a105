package datapath

import (
	"sync"

	"github.com/ndxdp/ndxdp/xdp"
)

// arena allocates the part of the UMEM that holds no frames. Packets can be sent from this memory without a copy. It allocates the first
// free span that fits, in whole pages. That is enough because applications allocate seldom and for long.
type arena struct {
	mu    sync.Mutex
	base  uint64 // UMEM address of the first byte
	bytes []byte
	free  []span      // free spans in units of xdp.FrameSize, sorted by position; adjacent spans are merged
	used  map[int]int // first unit -> units
	// unmap is set once the datapath is closed. The release of the last allocation calls it, because the application may read its memory
	// until then.
	unmap func() error
}

type span struct{ first, n int }

func newArena(u *xdp.UMEM) *arena {
	a := &arena{base: u.ArenaBase(), bytes: u.Arena(), used: map[int]int{}}
	if units := len(a.bytes) / xdp.FrameSize; units > 0 {
		a.free = []span{{0, units}}
	}
	return a
}

// alloc returns n zeroed bytes, page-aligned, and their UMEM address.
func (a *arena) alloc(n int) (mem []byte, id uint64, ok bool) {
	units := (n + xdp.FrameSize - 1) / xdp.FrameSize
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.unmap != nil {
		return nil, 0, false
	}
	for i := range a.free {
		s := &a.free[i]
		if s.n < units {
			continue
		}
		first := s.first
		s.first += units
		s.n -= units
		if s.n == 0 {
			a.free = append(a.free[:i], a.free[i+1:]...)
		}
		a.used[first] = units
		at := first * xdp.FrameSize
		mem = a.bytes[at : at+n : at+n]
		clear(mem)
		return mem, a.base + uint64(at), true
	}
	return nil, 0, false
}

// release frees an allocation by the UMEM address that alloc returned.
func (a *arena) release(id uint64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	first := int(id-a.base) / xdp.FrameSize
	units, ok := a.used[first]
	if !ok {
		return nil
	}
	delete(a.used, first)
	at := 0
	for at < len(a.free) && a.free[at].first < first {
		at++
	}
	a.free = append(a.free, span{})
	copy(a.free[at+1:], a.free[at:])
	a.free[at] = span{first, units}
	a.join(at)
	if at > 0 {
		a.join(at - 1)
	}
	if len(a.used) == 0 && a.unmap != nil {
		return a.unmap()
	}
	return nil
}

// join merges the free span at i with the next free span if they are adjacent.
func (a *arena) join(i int) {
	if i+1 < len(a.free) && a.free[i].first+a.free[i].n == a.free[i+1].first {
		a.free[i].n += a.free[i+1].n
		a.free = append(a.free[:i+1], a.free[i+2:]...)
	}
}

// close calls unmap if nothing is allocated. Otherwise the last release calls it.
func (a *arena) close(unmap func() error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.free = nil
	a.unmap = unmap
	if len(a.used) == 0 {
		return unmap()
	}
	return nil
}

// Alloc implements Device.
func (d *xdpDevice) Alloc(n int) (mem []byte, id uint64, ok bool) { return d.arena.alloc(n) }

// Release implements Device. The memory is unmapped once the datapath is closed and all allocations are released.
func (d *xdpDevice) Release(id uint64) error { return d.arena.release(id) }

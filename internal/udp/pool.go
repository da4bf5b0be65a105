package udp

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/hugepage"
)

// PageSize is what frames are a multiple of: a pool that is made for the worst case costs no memory before the worst case comes.
const PageSize = 4096

// Pool is memory cut into frames. It is mapped: frames that were never used cost at most a part of a huge page, and the garbage collector
// does not have to know the memory.
type Pool struct {
	mem   []byte
	unmap func() error
	size  int
	free  []uint32 // last in, first out: the next frame is most likely in a cache
	low   int      // the fewest that were free since Trim: so many, below in the stack, were not touched
}

// NewPool makes a pool of n frames of size bytes each, a multiple of PageSize.
func NewPool(n, size int) (*Pool, error) {
	mem, unmap, err := hugepage.Map(n * size)
	if err != nil {
		return nil, fmt.Errorf("%d packet frames: %w", n, err)
	}
	p := &Pool{mem: mem, unmap: unmap, size: size, free: make([]uint32, 0, n), low: n}
	for i := n; i > 0; i-- {
		p.free = append(p.free, uint32(i-1))
	}
	return p, nil
}

// Get takes a free frame.
func (p *Pool) Get() (id uint32, ok bool) {
	last := len(p.free) - 1
	if last < 0 {
		return 0, false
	}
	id = p.free[last]
	p.free = p.free[:last]
	p.low = min(p.low, last)
	return id, true
}

// Trim gives the memory of free frames back to the kernel, but for keep of them, if more than that were used since the last time.
func (p *Pool) Trim(keep int) error {
	touched := p.free[min(p.low, len(p.free)):]
	if len(touched) <= keep {
		return nil
	}
	// Adjacent frames are released together. The frames to keep come next.
	slices.Sort(touched)
	slices.Reverse(touched)
	for rest := touched[:len(touched)-keep]; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n] == rest[n-1]-1 {
			n++
		}
		if err := unix.Madvise(p.mem[int(rest[n-1])*p.size:][:n*p.size], unix.MADV_DONTNEED); err != nil {
			return fmt.Errorf("give back %d packet frames: %w", n, err)
		}
		rest = rest[n:]
	}
	p.low = len(p.free) - keep
	return nil
}

// Put gives a frame back.
func (p *Pool) Put(id uint32) { p.free = append(p.free, id) }

// Free counts the free frames.
func (p *Pool) Free() int { return len(p.free) }

// Frame returns the memory of a frame, capped at its end.
func (p *Pool) Frame(id uint32) []byte {
	at := int(id) * p.size
	return p.mem[at : at+p.size : at+p.size]
}

// Close unmaps the memory. No frame may be touched afterwards, by nobody.
func (p *Pool) Close() error {
	if p.mem == nil {
		return nil
	}
	p.mem, p.free = nil, nil
	return p.unmap()
}

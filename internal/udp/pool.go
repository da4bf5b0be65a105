package udp

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/hugepage"
)

// PageSize: frame sizes are multiples of it, so frames that are never used take no memory.
const PageSize = 4096

// Pool is memory divided into frames. It is mapped: frames that were never used cost at most a part of a huge page, and the garbage
// collector does not scan the memory.
type Pool struct {
	mem   []byte
	unmap func() error
	size  int
	free  []uint32 // last in, first out, so that the next frame is probably in the cache
	low   int      // least number of free frames after the last Trim: frames below it in the stack were not used
}

// NewPool makes a pool of n frames of size bytes, a multiple of PageSize.
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

// Get takes a free frame. ok is false if there is none.
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

// Trim returns the memory of free frames to the kernel, except keep of them, if more than keep were used after the last call.
func (p *Pool) Trim(keep int) error {
	touched := p.free[min(p.low, len(p.free)):]
	if len(touched) <= keep {
		return nil
	}
	// Adjacent frames are released together. The first keep frames are left out.
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

// Put frees a frame.
func (p *Pool) Put(id uint32) { p.free = append(p.free, id) }

// Free returns the number of free frames.
func (p *Pool) Free() int { return len(p.free) }

// Frame returns the memory of a frame. Its capacity ends with the frame.
func (p *Pool) Frame(id uint32) []byte {
	at := int(id) * p.size
	return p.mem[at : at+p.size : at+p.size]
}

// Close unmaps the memory. No frame may be used afterwards.
func (p *Pool) Close() error {
	if p.mem == nil {
		return nil
	}
	p.mem, p.free = nil, nil
	return p.unmap()
}

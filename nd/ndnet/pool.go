package ndnet

import (
	"errors"
	"math/bits"
	"slices"
	"sync"

	"github.com/ndxdp/ndxdp/nd"
)

// slab is a registered region that blocks are cut from.
type slab struct {
	region *nd.MemoryRegion
	used   int // blocks in use
}

// block is a part of a slab. Its size is a power of two.
type block struct {
	slab *slab // nil for no block
	off  int   // offset in the region
	mem  []byte
}

// sge returns an SGE for a part of the block.
func (b *block) sge(part []byte) nd.SGE {
	return nd.SGE{Buffer: part, Token: b.slab.region.LocalToken()}
}

// address is the block's address as peers know it.
func (b *block) address() uint64 { return b.slab.region.Address() + uint64(b.off) }

// Sizes in the pool.
const (
	minBlock  = 512
	slabBytes = 2 << 20 // a huge page, which the kernel provides by one page fault
	keptBytes = 8 << 20 // bytes of unused slabs that trim keeps
)

// pool hands out blocks, because registering memory for each connection would take longer than connecting. A peer gets the right to write
// into a block by a memory window, not by the region, so no token of a block outlives its use.
//
// A block is half of the next larger one. Halves are not joined again before the whole slab is unused.
type pool struct {
	adapter *nd.Adapter

	mu    sync.Mutex
	free  [bits.UintSize][]block // by the power of two of their size; the newest is the last, and most likely in a cache
	slabs []*slab
	idle  int // bytes of unused slabs
	used  int // blocks in use
}

// get returns a block of n bytes, a power of two of at least minBlock. The contents are undefined.
func (p *pool) get(n int) (block, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, err := p.take(n)
	if err != nil {
		return block{}, err
	}
	if b.slab.used++; b.slab.used == 1 {
		p.idle -= len(b.slab.region.Bytes())
	}
	p.used++
	return b, nil
}

// take removes a free block of n bytes, and makes one if there is none. The caller holds mu.
func (p *pool) take(n int) (block, error) {
	l := &p.free[bits.TrailingZeros(uint(n))]
	if last := len(*l) - 1; last >= 0 {
		b := (*l)[last]
		*l = (*l)[:last]
		return b, nil
	}
	if n >= slabBytes {
		return p.grow(n)
	}
	b, err := p.take(2 * n)
	if err == nil {
		*l = append(*l, block{b.slab, b.off + n, b.mem[n:]})
		b.mem = b.mem[:n:n]
	}
	return b, err
}

// grow registers a slab, which is one block. The caller holds mu.
func (p *pool) grow(n int) (block, error) {
	region, err := p.adapter.AllocateMemory(n, nd.MRAllowLocalWrite)
	if err != nil {
		return block{}, err
	}
	s := &slab{region: region}
	p.slabs = append(p.slabs, s)
	p.idle += n
	return block{slab: s, mem: region.Bytes()}, nil
}

// put frees a block. It never waits.
func (p *pool) put(b block) {
	if b.slab == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	class := bits.TrailingZeros(uint(len(b.mem)))
	p.free[class] = append(p.free[class], b)
	if b.slab.used--; b.slab.used == 0 {
		p.idle += len(b.slab.region.Bytes())
	}
	p.used--
}

// trim returns unused slabs beyond keptBytes to the adapter. If no block is in use, it keeps one slab, because a program that opens a
// connection for each request would otherwise register memory each time. It may wait for packets to leave.
func (p *pool) trim() error {
	p.mu.Lock()
	kept := keptBytes
	if p.used == 0 {
		kept = slabBytes
	}
	var gone []*slab
	for i := 0; p.idle > kept && i < len(p.slabs); i++ {
		if s := p.slabs[i]; s.used == 0 {
			gone = append(gone, s)
			p.idle -= len(s.region.Bytes())
		}
	}
	if len(gone) > 0 {
		p.slabs = slices.DeleteFunc(p.slabs, func(s *slab) bool { return slices.Contains(gone, s) })
		for class := range p.free {
			p.free[class] = slices.DeleteFunc(p.free[class], func(b block) bool { return slices.Contains(gone, b.slab) })
		}
	}
	p.mu.Unlock()
	var errs []error
	for _, s := range gone {
		errs = append(errs, s.region.Close())
	}
	return errors.Join(errs...)
}

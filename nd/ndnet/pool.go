package ndnet

import (
	"errors"
	"math/bits"
	"sync"

	"github.com/ndxdp/ndxdp/nd"
)

// block is registered memory of the pool. Its size is a power of two.
type block struct {
	region *nd.MemoryRegion
	off    int // offset in the region
	mem    []byte
}

// sge returns an SGE for a part of the block.
func (b *block) sge(part []byte) nd.SGE { return nd.SGE{Buffer: part, Token: b.region.LocalToken()} }

// Sizes in the pool. Blocks smaller than a slab are cut from slabs; larger blocks have a region of their own.
const (
	minBlock  = 512
	slabBytes = 64 << 10
	keptBytes = 8 << 20 // bytes of large free blocks that trim keeps
)

// pool hands out blocks, because registering memory for each connection would take longer than connecting. A peer gets the right to write
// into a block by a memory window, not by the region, so no token of a block outlives its use.
type pool struct {
	adapter *nd.Adapter

	mu   sync.Mutex
	free [bits.UintSize][]block // by the power of two of their size
	kept int                    // bytes of large free blocks
	used int                    // blocks in use
	own  []*nd.MemoryRegion     // slabs
}

// get returns a block of n bytes, a power of two of at least minBlock. The contents are undefined.
func (p *pool) get(n int) (block, error) {
	class := bits.TrailingZeros(uint(n))
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free[class]) == 0 {
		if err := p.fill(n, class); err != nil {
			return block{}, err
		}
	} else if n >= slabBytes {
		p.kept -= n
	}
	last := len(p.free[class]) - 1
	b := p.free[class][last]
	p.free[class] = p.free[class][:last]
	p.used++
	return b, nil
}

// fill adds free blocks of a size class. The caller holds mu.
func (p *pool) fill(n, class int) error {
	region, err := p.adapter.AllocateMemory(max(n, slabBytes), nd.MRAllowLocalWrite)
	if err != nil {
		return err
	}
	if n < slabBytes {
		p.own = append(p.own, region)
	}
	mem := region.Bytes()
	for off := 0; off < len(mem); off += n {
		p.free[class] = append(p.free[class], block{region, off, mem[off:][:n:n]})
	}
	return nil
}

// put takes a block back. It never waits.
func (p *pool) put(b block) {
	if b.region == nil {
		return
	}
	n := len(b.mem)
	p.mu.Lock()
	defer p.mu.Unlock()
	class := bits.TrailingZeros(uint(n))
	p.free[class] = append(p.free[class], b)
	if n >= slabBytes {
		p.kept += n
	}
	p.used--
}

// trim returns memory to the adapter: large free blocks beyond keptBytes, and everything if no block is in use. It may wait for packets to
// leave.
func (p *pool) trim() error {
	p.mu.Lock()
	var gone []*nd.MemoryRegion
	kept := keptBytes
	if p.used == 0 {
		kept, gone, p.own = 0, p.own, nil
		for class := range bits.TrailingZeros(slabBytes) {
			p.free[class] = nil
		}
	}
	for class := len(p.free) - 1; class >= bits.TrailingZeros(slabBytes); class-- {
		for p.kept > kept && len(p.free[class]) > 0 {
			last := len(p.free[class]) - 1
			gone = append(gone, p.free[class][last].region)
			p.free[class] = p.free[class][:last]
			p.kept -= 1 << class
		}
	}
	p.mu.Unlock()
	var errs []error
	for _, region := range gone {
		errs = append(errs, region.Close())
	}
	return errors.Join(errs...)
}

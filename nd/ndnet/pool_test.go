package ndnet

import (
	"math/rand/v2"
	"testing"
)

// Allocated blocks never overlap, and an unused pool keeps one slab at most.
func TestPoolModel(t *testing.T) {
	p := &networks(t, Config{})[0].pool
	must(t, p.trim())
	rng := rand.New(rand.NewPCG(1, 61))
	type taken struct {
		block
		mark byte
	}
	var used []taken
	put := func(i int) {
		for _, b := range used[i].mem {
			if b != used[i].mark {
				t.Fatal("two blocks share memory")
			}
		}
		p.put(used[i].block)
		used = append(used[:i], used[i+1:]...)
	}
	for n := range 2000 {
		if rng.IntN(5) > 1 && len(used) < 40 {
			b, err := p.get(minBlock << rng.IntN(14)) // up to 4 MiB
			must(t, err)
			if &b.mem[0] != &b.slab.region.Bytes()[b.off] {
				t.Fatal("the block is at another place of its slab")
			}
			used = append(used, taken{b, byte(n)})
			for i := range b.mem {
				b.mem[i] = byte(n)
			}
		} else if len(used) > 0 {
			put(rng.IntN(len(used)))
		}
		if n%100 == 0 {
			must(t, p.trim())
			if p.idle > keptBytes {
				t.Fatalf("%d bytes are unused", p.idle)
			}
		}
	}
	for len(used) > 0 {
		put(len(used) - 1)
	}
	must(t, p.trim())
	free := 0
	for class, l := range p.free {
		free += len(l) << class
	}
	if len(p.slabs) > 1 || p.idle > slabBytes || free != p.idle || p.used != 0 {
		t.Errorf("%d slabs, %d bytes unused, %d of them free, %d blocks in use", len(p.slabs), p.idle, free, p.used)
	}
}

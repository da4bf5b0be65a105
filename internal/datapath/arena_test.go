package datapath

import (
	"bytes"
	"errors"
	"testing"

	"github.com/ndxdp/ndxdp/xdp"
)

func newTestArena(units int) *arena {
	return &arena{base: 1 << 20, bytes: make([]byte, units*xdp.FrameSize), free: []span{{0, units}}, used: map[int]int{}}
}

// Allocated ranges are zeroed and disjoint. Released ranges become one range again, in any order of release.
func TestArenaJoinsWhatComesBack(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {0, 2, 1}} {
		a := newTestArena(6)
		var ids []uint64
		for i := range 3 {
			mem, id, ok := a.alloc(2*xdp.FrameSize - 100)
			if !ok || id != a.base+uint64(2*i*xdp.FrameSize) || len(mem) != 2*xdp.FrameSize-100 || cap(mem) != len(mem) {
				t.Fatalf("piece %d: %d bytes at %#x, %v", i, len(mem), id, ok)
			}
			if !bytes.Equal(mem, make([]byte, len(mem))) {
				t.Errorf("piece %d is not zeroed", i)
			}
			for j := range mem {
				mem[j] = 7
			}
			ids = append(ids, id)
		}
		if _, _, ok := a.alloc(1); ok {
			t.Error("more than there is")
		}
		for _, i := range order {
			if err := a.release(ids[i]); err != nil {
				t.Error(err)
			}
			if err := a.release(ids[i]); err != nil { // harmless
				t.Error(err)
			}
		}
		mem, _, ok := a.alloc(6 * xdp.FrameSize)
		if !ok || !bytes.Equal(mem, make([]byte, len(mem))) {
			t.Errorf("given back in the order %v: %v, or not zeroed", order, ok)
		}
	}
}

// The memory of a closed arena is unmapped with its last range, and no range is allocated meanwhile.
func TestArenaIsUnmappedWithItsLastPiece(t *testing.T) {
	gone := errors.New("unmapped")
	unmap := func() error { return gone }
	if err := newTestArena(2).close(unmap); !errors.Is(err, gone) {
		t.Errorf("an unused arena: %v", err)
	}
	a := newTestArena(2)
	_, first, _ := a.alloc(1)
	_, second, _ := a.alloc(1)
	if err := a.close(unmap); err != nil {
		t.Errorf("closed with two pieces in use: %v", err)
	}
	if _, _, ok := a.alloc(1); ok {
		t.Error("a piece of a closed arena")
	}
	if err := a.release(second); err != nil {
		t.Errorf("one of two: %v", err)
	}
	if err := a.release(first); !errors.Is(err, gone) {
		t.Errorf("the last one: %v", err)
	}
}

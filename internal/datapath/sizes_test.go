package datapath

import (
	"testing"

	"github.com/ndxdp/ndxdp/wire"
)

// TestMemoryIsBounded: whatever the number of queues, the frames of all of them stay below the bound, and what each gets makes a
// socket that works.
func TestMemoryIsBounded(t *testing.T) {
	before := sizesOf(1).copying()
	for queues := 1; queues <= MaxQueues; queues++ {
		for _, rung := range []Rung{RungGeneric, RungNative, RungTCX} {
			if got := Pinned(queues, rung); got > MaxFrameMemory {
				t.Errorf("%d queues pin %d MiB, more than %d", queues, got>>20, MaxFrameMemory>>20)
			}
		}
		most, s := sizesOf(queues), sizesOf(queues).copying()
		for _, s := range []sizes{most, s} {
			c := s.config()
			c.Ifindex, c.MultiBuffer, c.TxBudget = 1, true, txBudget
			if err := c.Validate(); err != nil {
				t.Errorf("%d queues: %v", queues, err)
			}
			if s.fillRing != 2*s.rxRing || s.rxFrames <= s.rxRing || s.txFrames > s.txRing || s.completionRing < s.txRing {
				t.Errorf("%d queues: %+v", queues, s)
			}
		}
		if s.rxFrames > before.rxFrames || s.txFrames > before.txFrames || s.rxFrames > most.rxFrames {
			t.Errorf("%d queues get more each than fewer do: %+v", queues, s)
		}
		before = s
		if n := int(s.rxRing) / framesOf(wire.MaxPacket); n < 100 {
			t.Errorf("%d queues: %d of the largest packets fit into a ring", queues, n)
		}
	}
}

// TestCopyModePinsLittle: what an idle adapter costs in copy mode.
func TestCopyModePinsLittle(t *testing.T) {
	if got := Pinned(1, RungGeneric); got != 14<<20 {
		t.Errorf("one queue pins %d KiB in copy mode", got>>10)
	}
	if got := Pinned(1, RungTCX); got != 2304<<10 {
		t.Errorf("a socket that only sends pins %d KiB", got>>10)
	}
	if got := Pinned(1, RungNative); got != 64<<20 {
		t.Errorf("zero-copy pins %d MiB", got>>20)
	}
}

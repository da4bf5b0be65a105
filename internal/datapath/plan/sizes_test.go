package plan

import (
	"testing"

	"github.com/ndxdp/ndxdp/wire"
)

// TestMemoryIsBounded: for any number of queues the frames of all queues are within the limit, and each queue gets enough frames
// for a working socket.
func TestMemoryIsBounded(t *testing.T) {
	before := sizesOf(1).copying()
	for queues := 1; queues <= MaxQueues; queues++ {
		for _, datapath := range []Datapath{Generic, Native, TCX} {
			if got := Pinned(queues, datapath); got > MaxFrameMemory {
				t.Errorf("%d queues pin %d MiB, more than %d", queues, got>>20, MaxFrameMemory>>20)
			}
		}
		most, s := sizesOf(queues), sizesOf(queues).copying()
		for _, s := range []Sizes{most, s} {
			c := s.Config()
			c.Ifindex, c.MultiBuffer, c.TxBudget = 1, true, 256
			if err := c.Validate(); err != nil {
				t.Errorf("%d queues: %v", queues, err)
			}
			if s.FillRing != 2*s.RxRing || s.RxFrames <= s.RxRing || s.TxFrames > s.TxRing || s.CompletionRing < s.TxRing {
				t.Errorf("%d queues: %+v", queues, s)
			}
		}
		if s.RxFrames > before.RxFrames || s.TxFrames > before.TxFrames || s.RxFrames > most.RxFrames {
			t.Errorf("%d queues get more each than fewer do: %+v", queues, s)
		}
		before = s
		if n := int(s.RxRing) / framesOf(wire.MaxPacket); n < 100 {
			t.Errorf("%d queues: %d of the largest packets fit into a ring", queues, n)
		}
	}
}

// TestCopyModePinsLittle: the memory of an idle adapter in copy mode is small.
func TestCopyModePinsLittle(t *testing.T) {
	if got := Pinned(1, Generic); got != 14<<20 {
		t.Errorf("one queue pins %d KiB in copy mode", got>>10)
	}
	if got := Pinned(1, TCX); got != 2304<<10 {
		t.Errorf("a socket that only sends pins %d KiB", got>>10)
	}
	if got := Pinned(1, Native); got != 64<<20 {
		t.Errorf("zero-copy pins %d MiB", got>>20)
	}
}

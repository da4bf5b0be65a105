package datapath

import (
	"testing"

	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// TestMemoryIsBounded: whatever the number of queues, the frames of all of them stay below the bound, and what each gets makes a
// socket that works.
func TestMemoryIsBounded(t *testing.T) {
	before := sizesOf(1)
	for queues := 1; queues <= MaxQueues; queues++ {
		if got := Pinned(queues); got > MaxFrameMemory {
			t.Errorf("%d queues pin %d MiB, more than %d", queues, got>>20, MaxFrameMemory>>20)
		}
		s := sizesOf(queues)
		c := s.config()
		c.Ifindex, c.MultiBuffer, c.TxBudget = 1, true, txBudget
		if err := c.Validate(); err != nil {
			t.Errorf("%d queues: %v", queues, err)
		}
		if s.fillRing != 2*s.rxRing || s.rxFrames <= s.rxRing || s.txFrames != s.txRing || s.completionRing < s.txRing {
			t.Errorf("%d queues: %+v", queues, s)
		}
		if s.rxFrames > before.rxFrames || s.txFrames > before.txFrames {
			t.Errorf("%d queues get more each than fewer do: %+v", queues, s)
		}
		before = s
		for _, packet := range []int{wire.MinPacket, 8972, wire.MaxPacket} {
			n := holds(s.rxFrames, packet, spares{})
			if n < 100 || n*((packet+3839)/3840) > int(s.rxFrames)-freeFrames {
				t.Errorf("%d queues: %d packets of %d bytes may wait", queues, n, packet)
			}
		}
	}
	if got := Pinned(1); got != 64<<20 {
		t.Errorf("one queue pins %d MiB", got>>20)
	}
	if n := holds(sizesOf(MaxQueues).rxFrames, 1472, spares{}); n < provider.DefaultHeldPackets {
		t.Errorf("only %d packets of 1472 bytes may wait on each of %d queues", n, MaxQueues)
	}
}

package datapath

import (
	"testing"

	"github.com/ndxdp/ndxdp/wire"
)

// TestMemoryIsBounded: whatever the number of queues, the frames of all of them stay below the bound, and what each gets makes a
// socket that works.
func TestMemoryIsBounded(t *testing.T) {
	for _, packet := range []int{wire.MinPacket, 1472, 8972, wire.MaxPacket} {
		before := sizesOf(1).copying(packet)
		for queues := 1; queues <= MaxQueues; queues++ {
			for _, native := range []bool{false, true} {
				if got := Pinned(queues, packet, native); got > MaxFrameMemory {
					t.Errorf("%d queues pin %d MiB, more than %d", queues, got>>20, MaxFrameMemory>>20)
				}
			}
			most, s := sizesOf(queues), sizesOf(queues).copying(packet)
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
			n := holds(s.rxFrames, packet, spares{})
			if n < 100 || n*framesOf(packet) > int(s.rxFrames)-freeFrames {
				t.Errorf("%d queues: %d packets of %d bytes may wait", queues, n, packet)
			}
		}
	}
}

// TestCopyModePinsLittle: what an idle adapter costs in copy mode, and that a whole window and what waits behind gaps fit in all the same.
func TestCopyModePinsLittle(t *testing.T) {
	const window = 256 // packets that a connection has in flight at the most
	for _, c := range []struct{ mtu, pinned int }{{1500, 14 << 20}, {9000, 14 << 20}, {65000, 28 << 20}} {
		if got := Pinned(1, c.mtu, false); got != c.pinned {
			t.Errorf("MTU %d: one queue pins %d KiB, want %d", c.mtu, got>>10, c.pinned>>10)
		}
		s := sizesOf(1).copying(c.mtu)
		if per := framesOf(c.mtu); int(s.rxFrames) < window*per {
			t.Errorf("MTU %d: %d receive frames, and a window is %d packets of %d", c.mtu, s.rxFrames, window, per)
		}
	}
	if got := Pinned(1, 1500, true); got != 64<<20 {
		t.Errorf("zero-copy pins %d MiB", got>>20)
	}
}

package xdp

import "testing"

// TestZeroCopyLeavesFramesToTheDriver: a process that stops keeps the frames in its rx ring and those that it was processing. The
// driver has all others, so that it still receives for other programs. In copy mode the driver has memory of its own.
func TestZeroCopyLeavesFramesToTheDriver(t *testing.T) {
	const frames, ring = 4096, 512
	for _, mode := range []Mode{ModeCopy, ModeZeroCopy} {
		u := newUMEM(t, UMEMConfig{RxFrames: frames, TxFrames: 64})
		rings := Rings{
			Rx: NewRingMemory[Desc](ring, 0), Fill: NewRingMemory[uint64](frames, 0),
			Tx: NewRingMemory[Desc](64, 0), Completion: NewRingMemory[uint64](64, 0),
		}
		s, err := OpenDetached(u, Config{Mode: mode, RxFrames: frames, TxFrames: 64}, rings)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		// The driver takes frames for its own ring, fills the rx ring, and gets no frame back.
		fill, rx := NewConsumer(rings.Fill), NewProducer(rings.Rx)
		took := fill.Peek(frames)
		if mode == ModeCopy {
			if took >= frames/2+1 {
				t.Errorf("%v: %d of %d frames are in the fill ring at once", mode, took, frames)
			}
			continue
		}
		if took != frames {
			t.Fatalf("%v: the driver gets %d of %d frames", mode, took, frames)
		}
		for i := range rx.Reserve(took) {
			rx.Set(i, Desc{Addr: fill.Get(i), Len: 60})
		}
		rx.Submit(ring)
		fill.Release(took)
		// A poll of the process returns the frames that it received, except for less than a batch.
		var descs [64]Desc
		for n := s.Receive(descs[:]); n > 0; n = s.Receive(descs[:]) {
			for i := range n {
				s.Recycle(descs[i].Addr)
			}
			s.Refill()
		}
		if got := fill.Reload(frames); got+RefillBatch <= ring {
			t.Errorf("%d of %d frames came back", got, ring)
		}
	}
}

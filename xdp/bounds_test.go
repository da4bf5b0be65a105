package xdp_test

import (
	"testing"

	"github.com/ndxdp/ndxdp/xdp"
)

// A packet that is too long for the caller's slice is dropped when its end has arrived, and not earlier: the frames that follow
// must not count as a part of it.
func TestOversizePacketWithoutItsEnd(t *testing.T) {
	_, s, k := openDetached(t, xdp.Config{MultiBuffer: true}, testSizes)
	rest, err := k.DeliverPart(pattern(make([]byte, 5*xdp.RxFrameBytes), 1), 4)
	if err != nil || rest != 1 {
		t.Fatal(rest, err)
	}
	dst := make([]xdp.Desc, 2)
	oversize := func() uint64 {
		st, err := s.Stats()
		if err != nil {
			t.Error(err)
		}
		return st.RxOversize
	}
	if n := s.Receive(dst); n != 0 || oversize() != 0 {
		t.Errorf("%d descriptors, %d packets dropped before the end has arrived", n, oversize())
	}
	k.Publish(rest)
	if err := k.Deliver(pattern(make([]byte, 10), 2)); err != nil {
		t.Fatal(err)
	}
	if n := s.Receive(dst); n != 1 || dst[0].Len != 10 || oversize() != 1 {
		t.Errorf("%d descriptors, the first %+v, %d packets dropped; want the packet behind", n, dst[0], oversize())
	}
}

// A packet that cannot be sent waits for Complete in a queue as long as the completion ring. Further packets are not accepted.
func TestRejectedPacketsAreBounded(t *testing.T) {
	sizes := testSizes
	sizes.Completion = 8
	_, s, _ := openDetached(t, xdp.Config{}, sizes)
	free := s.TxFree()
	var descs []xdp.Desc
	for range 12 {
		addr, _ := s.AllocTx()
		descs = append(descs, xdp.Desc{Addr: addr, Len: 0})
	}
	if n := s.Transmit(descs); n != 8 {
		t.Fatalf("%d were taken, want 8", n)
	}
	s.Complete(nil)
	if n := s.Transmit(descs[8:]); n != 4 {
		t.Fatalf("%d were taken, want the other 4", n)
	}
	s.Complete(nil)
	if st, err := s.Stats(); err != nil || st.TxInvalid != 12 || s.TxFree() != free {
		t.Errorf("%+v, %v, %d of %d frames free", st, err, s.TxFree(), free)
	}
}

// A descriptor beyond the memory never enters the ring.
func TestTransmitOutsideTheMemory(t *testing.T) {
	u, s, k := openDetached(t, xdp.Config{}, testSizes)
	end := u.ArenaBase() + uint64(len(u.Arena()))
	for _, addr := range []uint64{end, end + 1<<20, 1 << 47} {
		if n := s.Transmit([]xdp.Desc{{Addr: addr, Len: 60}}); n != 1 || k.Unsent() != 0 {
			t.Errorf("address %#x of %#x bytes: %d taken, %d in the ring", addr, end, n, k.Unsent())
		}
	}
	if n := s.Transmit([]xdp.Desc{{Addr: end - xdp.FrameSize, Len: 60}}); n != 1 || k.Unsent() != 1 {
		t.Errorf("the last piece: %d taken, %d in the ring", n, k.Unsent())
	}
	s.Complete(nil)
}

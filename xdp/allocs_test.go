package xdp_test

import (
	"fmt"
	"testing"

	"github.com/ndxdp/ndxdp/xdp"
	"github.com/ndxdp/ndxdp/xdp/xdptest"
)

// batch is one poll of an engine: reap, refill, receive, recycle, send, kick.
func batch(s *xdp.Socket, descs []xdp.Desc, packets int) {
	s.Complete(nil)
	s.Refill()
	n := s.Receive(descs)
	for i := range descs[:n] {
		s.Recycle(descs[i].Addr)
	}
	n = 0
	for range packets {
		addr, ok := s.AllocTx()
		if !ok {
			break
		}
		descs[n] = xdp.Desc{Addr: addr, Len: 64}
		n++
	}
	for _, d := range descs[s.Transmit(descs[:n]):n] {
		s.FreeTx(d.Addr)
	}
	_, _ = s.Kick()
}

// TestBatchAllocs checks that no per-packet method allocates, including those for dropped packets.
func TestBatchAllocs(t *testing.T) {
	u, s, k := openDetached(t, xdp.Config{MultiBuffer: true}, testSizes)
	descs := make([]xdp.Desc, 32)
	buf := make([]byte, xdp.FrameSize)
	packet := make([]byte, 3000)
	big := make([]byte, 5*xdp.RxFrameBytes)
	arena := make([]uint64, 1)
	if n := testing.AllocsPerRun(200, func() {
		for range 8 {
			_ = k.Deliver(packet)
		}
		batch(s, descs, 8)
		for range 8 {
			k.Transmit(buf)
		}
		_ = k.Deliver(big)
		s.Receive(descs[:2])                               // oversize
		s.Transmit([]xdp.Desc{{Addr: u.ArenaBase()}})      // invalid
		s.Transmit([]xdp.Desc{{Addr: u.Size(), Len: 100}}) // outside
		s.Complete(arena)
		s.Complete(arena)
	}); n != 0 {
		t.Errorf("%v allocations per poll, want 0", n)
	}
	st, err := s.Stats()
	if err != nil || st.RxOversize == 0 || st.TxInvalid == 0 || st.RxPackets == 0 || st.TxPackets == 0 {
		t.Errorf("the test missed a path: %+v, %v", st, err)
	}
}

// BenchmarkTurn is the cost of a poll without the kernel: the rings, the stacks and the counters.
func BenchmarkTurn(b *testing.B) {
	for _, packets := range []int{1, 32, 64} {
		b.Run(fmt.Sprintf("packets=%d", packets), func(b *testing.B) {
			sizes := xdptest.Sizes{Rx: 128, Fill: 256, Tx: 128, Completion: 128}
			_, s, k := openDetached(b, xdp.Config{}, sizes)
			descs := make([]xdp.Desc, 64)
			packet, buf := make([]byte, 64), make([]byte, 64)
			b.ReportAllocs()
			for b.Loop() {
				for range packets {
					_ = k.Deliver(packet)
				}
				batch(s, descs, packets)
				for range packets {
					k.Transmit(buf)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(packets), "ns/packet")
		})
	}
}

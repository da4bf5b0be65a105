package xdp_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cilium/ebpf/link"

	"github.com/ndxdp/ndxdp/xdp"
)

// BenchmarkKernel sends packets through a veth pair from one goroutine, so that one core does all the work: sending, the kernel's
// part, receiving. Payloads are neither written nor read.
func BenchmarkKernel(b *testing.B) {
	for _, c := range []struct {
		mode  string
		mtu   int
		size  int
		batch int
	}{
		{"generic", 1500, 60, 1},
		{"generic", 1500, 60, 32},
		{"generic", 1500, 60, 64},
		{"generic", 1500, 1514, 32},
		{"generic", 9000, 9014, 32},
		{"generic", 65000, 65014, 16},
		{"native", 1500, 60, 32},
		{"native", 1500, 60, 64},
		{"native", 1500, 1514, 32},
		{"native", 9000, 9014, 32},
		{"native", 65000, 65014, 16},
	} {
		b.Run(fmt.Sprintf("%s,size=%d,batch=%d", c.mode, c.size, c.batch), func(b *testing.B) {
			benchmarkKernel(b, attachModes[c.mode], c.mtu, c.size, c.batch)
		})
	}
}

func benchmarkKernel(b *testing.B, mode link.XDPAttachFlags, mtu, size, batch int) {
	l := newLab(b, mtu, 1, mode)
	cfg := xdp.Config{MultiBuffer: mtu > 1500, TxBudget: 64, RxRing: 1024, FillRing: 2048, TxRing: 1024, CompletionRing: 1024}
	from, to := l.a.open(b, cfg), l.b.open(b, cfg)
	out, in := make([]xdp.Desc, 0, 1024), make([]xdp.Desc, 256)
	received := 0
	b.ReportAllocs()
	for b.Loop() {
		from.Complete(nil)
		out = out[:0]
		for range batch {
			out, _ = emptyPacket(from, out, size)
		}
		for _, d := range out[from.Transmit(out):] {
			from.FreeTx(d.Addr)
		}
		if _, err := from.Kick(); err != nil {
			b.Fatal(err)
		}
		for n := to.Receive(in); n > 0; n = to.Receive(in) {
			for i := range in[:n] {
				to.Recycle(in[i].Addr)
			}
		}
		to.Refill()
	}
	elapsed := b.Elapsed()
	// Packets that a softirq on the other core still holds.
	for deadline := time.Now().Add(50 * time.Millisecond); time.Now().Before(deadline); {
		for i := range in[:to.Receive(in)] {
			to.Recycle(in[i].Addr)
		}
		to.Refill()
	}
	st, err := to.Stats()
	if err != nil {
		b.Fatal(err)
	}
	received = int(st.RxPackets)
	b.ReportMetric(float64(received)/elapsed.Seconds(), "packets/s")
	b.ReportMetric(float64(received)*float64(size)*8/elapsed.Seconds()/1e9, "Gb/s")
	b.ReportMetric(100*max(0, 1-float64(received)/float64(b.N*batch)), "%lost")
	drain(b, from)
}

// emptyPacket describes a packet of n bytes without writing more than its header.
func emptyPacket(x *xdp.Socket, descs []xdp.Desc, n int) ([]xdp.Desc, bool) {
	first := len(descs)
	for at := 0; at < n; at += xdp.FrameSize {
		addr, ok := x.AllocTx()
		if !ok {
			for _, d := range descs[first:] {
				x.FreeTx(d.Addr)
			}
			return descs[:first], false
		}
		descs = append(descs, xdp.Desc{Addr: addr, Len: uint32(min(xdp.FrameSize, n-at)), Options: xdp.PacketContinues})
	}
	descs[len(descs)-1].Options = 0
	putHeader(x.UMEM().Frame(descs[first].Addr))
	return descs, true
}

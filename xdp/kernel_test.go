package xdp_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/xdp"
)

var attachModes = map[string]link.XDPAttachFlags{"generic": link.XDPGenericMode, "native": link.XDPDriverMode}

// flow sends packets from one socket to another and checks every byte on arrival.
type flow struct {
	t        testing.TB
	from, to *xdp.Socket
	sizes    []int // of the packets in flight
	sent     int
	got      int
	descs    []xdp.Desc
	scratch  []byte
}

// await waits until the socket has packets, for 100 ms at the most. In copy mode the kernel also sends what the tx ring holds.
func await(t testing.TB, s *xdp.Socket) {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(s.FD()), Events: unix.POLLIN}}
	if _, err := unix.Poll(fds, 100); err != nil && err != unix.EINTR {
		t.Fatal(err)
	}
}

// run sends packets of the given sizes, with at most window of them in flight.
func (f *flow) run(sizes []int, window int) {
	f.t.Helper()
	f.scratch = make([]byte, 1<<16)
	f.descs = make([]xdp.Desc, 0, 64)
	deadline := time.Now().Add(waitLimit)
	for f.got < len(sizes) {
		if time.Now().After(deadline) {
			a, _ := f.from.Stats()
			b, _ := f.to.Stats()
			f.t.Fatalf("%d of %d packets arrived, %d sent\nfrom %+v\nto   %+v", f.got, len(sizes), f.sent, a, b)
		}
		f.from.Complete(nil)
		for f.sent < len(sizes) && f.sent-f.got < window && f.send(sizes[f.sent]) {
			f.sizes = append(f.sizes, sizes[f.sent])
			f.sent++
		}
		if _, err := f.from.Kick(); err != nil {
			f.t.Fatal(err)
		}
		await(f.t, f.to)
		f.receive()
		f.to.Refill()
	}
}

func (f *flow) send(size int) bool {
	descs, ok := putPacket(f.from, f.descs[:0], size, f.sent)
	if !ok {
		return false
	}
	if n := f.from.Transmit(descs); n != len(descs) {
		for _, d := range descs {
			f.from.FreeTx(d.Addr)
		}
		return false
	}
	return true
}

func (f *flow) receive() {
	var buf [64]xdp.Desc
	for n := f.to.Receive(buf[:]); n > 0; n = f.to.Receive(buf[:]) {
		descs := buf[:n]
		for len(descs) > 0 {
			var packet []xdp.Desc
			if packet, descs = xdp.NextPacket(descs); len(packet) == 0 {
				f.t.Fatal("partial packet")
			}
			if isOurs(f.to.UMEM(), packet) {
				f.check(packet)
			}
			for _, d := range packet {
				f.to.Recycle(d.Addr)
			}
		}
	}
}

func (f *flow) check(packet []xdp.Desc) {
	n := f.to.UMEM().Gather(f.scratch, packet)
	if n != xdp.PacketLen(packet) || n != f.sizes[f.got] {
		f.t.Fatalf("packet %d has %d bytes in %d frames, want %d", f.got, n, len(packet), f.sizes[f.got])
	}
	for i := etherHeader; i < n; i++ {
		if f.scratch[i] != packetByte(i, f.got) {
			f.t.Fatalf("packet %d of %d bytes differs at byte %d", f.got, n, i)
		}
	}
	f.got++
}

// drain reaps until nothing is outstanding.
func drain(t testing.TB, x *xdp.Socket) {
	t.Helper()
	for deadline := time.Now().Add(waitLimit); x.TxPending() > 0; x.Complete(nil) {
		if time.Now().After(deadline) {
			t.Fatalf("%d descriptors never completed", x.TxPending())
		}
		if _, err := x.Kick(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestKernelTransfer sends in both directions through a veth pair, in every combination of settings, and checks every byte.
func TestKernelTransfer(t *testing.T) {
	for modeName, mode := range attachModes {
		for _, mtu := range []int{1500, 9000, 65000} {
			t.Run(fmt.Sprintf("%s,mtu=%d", modeName, mtu), func(t *testing.T) {
				l := newLab(t, mtu, 1, mode)
				cfg := xdp.Config{Mode: xdp.ModeCopy, MultiBuffer: mtu > 1500}
				a, b := l.a.open(t, cfg), l.b.open(t, cfg)
				rng := rand.New(rand.NewPCG(uint64(mtu), 1))
				sizes := []int{mtu + etherHeader, 60, etherHeader + 1}
				for range 150 {
					sizes = append(sizes, etherHeader+1+rng.IntN(mtu))
				}
				for _, f := range []*flow{{t: t, from: a, to: b}, {t: t, from: b, to: a}} {
					f.run(sizes, 16)
					drain(t, f.from)
				}
				checkIdle(t, a, cfg)
				checkIdle(t, b, cfg)
			})
		}
	}
}

// checkIdle checks a socket after everything has arrived.
func checkIdle(t *testing.T, x *xdp.Socket, cfg xdp.Config) {
	t.Helper()
	st, err := x.Stats()
	if err != nil {
		t.Fatal(err)
	}
	if st.RxDropped+st.RxInvalidDescs+st.TxInvalidDescs+st.RxRingFull+st.TxLost+st.TxInvalid+st.RxOversize != 0 {
		t.Errorf("something was lost: %+v", st)
	}
	if x.TxFree() != 512 {
		t.Errorf("%d of 512 tx frames came back", x.TxFree())
	}
	info := x.Info()
	if info.ZeroCopy || info.MultiBuffer != cfg.MultiBuffer || info.SendBuffer < 64<<20 {
		t.Errorf("%+v", info)
	}
}

// TestKernelArena sends a packet of a tx frame and two ranges of the arena, and gets their addresses back.
func TestKernelArena(t *testing.T) {
	l := newLab(t, 9000, 1, link.XDPGenericMode)
	cfg := xdp.Config{MultiBuffer: true}
	a, b := l.a.open(t, cfg), l.b.open(t, cfg)
	u := a.UMEM()
	addr, _ := a.AllocTx()
	base := u.ArenaBase()
	descs := []xdp.Desc{
		{Addr: addr, Len: 100, Options: xdp.PacketContinues},
		{Addr: base + 1000, Len: 3000, Options: xdp.PacketContinues},
		{Addr: base + 4096, Len: 500},
	}
	at := 0
	for _, d := range descs {
		for i, piece := 0, u.Bytes(d.Addr, int(d.Len)); i < len(piece); i++ {
			piece[i] = packetByte(at, 0)
			at++
		}
	}
	putHeader(u.Frame(addr))
	if n := a.Transmit(descs); n != 3 {
		t.Fatalf("Transmit = %d", n)
	}
	f := &flow{t: t, from: a, to: b, sizes: []int{at}, sent: 1}
	f.run([]int{at}, 1) // sent already: kicks and checks
	var done []uint64
	for deadline := time.Now().Add(waitLimit); a.TxPending() > 0 && time.Now().Before(deadline); {
		var some [4]uint64
		done = append(done, some[:a.Complete(some[:])]...)
	}
	if len(done) != 2 || done[0] != base+1000 || done[1] != base+4096 {
		t.Errorf("completed %#x", done)
	}
}

// arrival returns the rx queue on which a veth delivers packets of a tx queue. In native mode it is the same queue. In generic mode
// the skb's queue mapping, which counts from 0 at transmit, is read at receive as a recorded rx queue, which counts from 1 (Linux
// 6.18: skb_get_rx_queue).
func arrival(mode link.XDPAttachFlags, txQueue int) int {
	if mode == link.XDPGenericMode {
		return max(0, txQueue-1)
	}
	return txQueue
}

// TestKernelSharedUMEM: one UMEM serves three queues of an interface, and the other sockets outlive the first one.
func TestKernelSharedUMEM(t *testing.T) {
	const queues = 3
	for modeName, mode := range attachModes {
		t.Run(modeName, func(t *testing.T) {
			l := newLab(t, 9000, queues, mode)
			u, err := xdp.NewUMEM(xdp.UMEMConfig{RxFrames: queues * 512, TxFrames: queues * 256})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := u.Close(); err != nil {
					t.Error(err)
				}
			})
			cfg := xdp.Config{
				MultiBuffer: true, RxRing: 256, FillRing: 512, TxRing: 256, CompletionRing: 256,
				RxFrames: 512, TxFrames: 256,
			}
			var as, bs [queues]*xdp.Socket
			for q := range queues {
				cfg.Queue = uint32(q)
				as[q], bs[q] = l.a.openOn(t, u, cfg), l.b.open(t, cfg)
			}
			sizes := []int{9014, 60, 5000, 1500, 4096, 4097, 7681}
			exchange := func(q int) {
				for _, f := range []*flow{
					{t: t, from: as[q], to: bs[arrival(mode, q)]},
					{t: t, from: bs[q], to: as[arrival(mode, q)]},
				} {
					f.run(sizes, 4)
					drain(t, f.from)
				}
			}
			for q := range queues {
				exchange(q)
			}
			other := cfg
			other.Ifindex, other.MultiBuffer, other.Queue = l.a.ifindex, false, queues
			if _, err := xdp.Open(u, other); !errors.Is(err, xdp.ErrInvalidConfig) {
				t.Errorf("single-buffer socket on a multi-buffer UMEM: %v", err)
			}
			// The socket that registered the UMEM closes. The others work on, and its queue can be opened again through them.
			if err := as[0].Close(); err != nil {
				t.Fatal(err)
			}
			exchange(2)
			other.MultiBuffer, other.BindTimeout = true, 20*time.Millisecond
			for other.Queue = 1; other.Queue < queues; other.Queue++ {
				err := l.a.in(t, func() error { _, err := xdp.Open(u, other); return err })
				if !errors.Is(err, xdp.ErrQueueBusy) {
					t.Errorf("second socket on queue %d: %v", other.Queue, err)
				}
			}
			cfg.Queue = 0
			as[0] = l.a.openOn(t, u, cfg)
			exchange(0)
		})
	}
}

// TestKernelReopen opens and closes one queue again and again, and leaves nothing behind.
func TestKernelReopen(t *testing.T) {
	l := newLab(t, 1500, 1, link.XDPGenericMode)
	before := openFiles(t)
	for range 20 {
		u, err := xdp.NewUMEM(xdp.UMEMConfig{RxFrames: 128, TxFrames: 64})
		if err != nil {
			t.Fatal(err)
		}
		cfg := xdp.Config{
			Ifindex: l.a.ifindex, RxRing: 64, FillRing: 128, TxRing: 64, CompletionRing: 64, RxFrames: 128, TxFrames: 64,
		}
		var x *xdp.Socket
		if err := l.a.in(t, func() (err error) { x, err = xdp.Open(u, cfg); return err }); err != nil {
			t.Fatal(err)
		}
		l.a.steer(t, x, 0)
		if err := errors.Join(x.Close(), x.Close(), u.Close(), u.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if after := openFiles(t); after > before {
		t.Errorf("%d open files, %d before", after, before)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(maps), "socket:[") {
		t.Error("ring mappings are left")
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// TestKernelRefusals compares the errors of Open with their causes, and checks that nothing leaks.
func TestKernelRefusals(t *testing.T) {
	l := newLab(t, 1500, 1, link.XDPGenericMode)
	holder := l.a.open(t, xdp.Config{})
	u, err := xdp.NewUMEM(xdp.UMEMConfig{})
	if err != nil {
		t.Fatal(err)
	}
	before := openFiles(t)
	for name, tc := range map[string]struct {
		cfg  xdp.Config
		want error
	}{
		"queue held":    {xdp.Config{Ifindex: l.a.ifindex, BindTimeout: 30 * time.Millisecond}, xdp.ErrQueueBusy},
		"no such queue": {xdp.Config{Ifindex: l.b.ifindex, Queue: 5}, unix.EINVAL},
		"no interface":  {xdp.Config{Ifindex: 12345}, unix.ENODEV},
		"zero-copy":     {xdp.Config{Ifindex: l.b.ifindex, Mode: xdp.ModeZeroCopy}, xdp.ErrNotSupported},
		"too large":     {xdp.Config{Ifindex: l.b.ifindex, RxFrames: 1 << 20}, xdp.ErrNoFrames},
	} {
		where := l.a
		if tc.cfg.Ifindex == l.b.ifindex && name != "queue held" {
			where = l.b
		}
		err := where.in(t, func() error { _, err := xdp.Open(u, tc.cfg); return err })
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
	if after := openFiles(t); after != before {
		t.Errorf("%d open files, %d before", after, before)
	}
	if err := u.Close(); err != nil {
		t.Errorf("a failed Open left its frames reserved: %v", err)
	}
	if _, err := holder.Kick(); err != nil {
		t.Error(err)
	}
}

package xdp_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ndxdp/ndxdp/xdp"
	"github.com/ndxdp/ndxdp/xdp/xdptest"
)

var testSizes = xdptest.Sizes{Rx: 32, Fill: 64, Tx: 32, Completion: 32, Origin: ^uint32(0) - 40}

// openDetached makes a socket with its own UMEM and a kernel in plain memory.
func openDetached(t testing.TB, cfg xdp.Config, sizes xdptest.Sizes) (*xdp.UMEM, *xdp.Socket, *xdptest.Kernel) {
	t.Helper()
	if cfg.RxFrames == 0 {
		cfg.RxFrames = uint32(2 * sizes.Rx)
	}
	if cfg.TxFrames == 0 {
		cfg.TxFrames = uint32(sizes.Tx)
	}
	u, err := xdp.NewUMEM(xdp.UMEMConfig{RxFrames: cfg.RxFrames, TxFrames: cfg.TxFrames, ArenaBytes: 4 * xdp.FrameSize})
	if err != nil {
		t.Fatal(err)
	}
	s, k, err := xdptest.Open(u, cfg, sizes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), u.Close()); err != nil {
			t.Error(err)
		}
	})
	return u, s, k
}

// pattern fills b with bytes that depend on seed and position.
func pattern(b []byte, seed int) []byte {
	for i := range b {
		b[i] = byte(seed*31 + i + i>>8)
	}
	return b
}

// TestSocketModel moves random packets in both directions through a socket, keeps some frames for a while, and counts every frame
// at every step.
func TestSocketModel(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			m := &model{t: t, rng: rand.New(rand.NewPCG(seed, 99))}
			m.u, m.s, m.k = openDetached(t, xdp.Config{MultiBuffer: true}, testSizes)
			m.k.Hold = true
			m.rxFrames, m.txFrames = m.s.RxFree()+m.k.FillLevel(), m.s.TxFree()
			steps := []func(){m.deliver, m.receive, m.recycle, m.refill, m.transmit, m.send, m.complete}
			for range 6000 {
				steps[m.rng.IntN(len(steps))]()
				m.balance()
			}
		})
	}
}

type model struct {
	t   *testing.T
	rng *rand.Rand
	u   *xdp.UMEM
	s   *xdp.Socket
	k   *xdptest.Kernel

	rxFrames, txFrames int
	delivered          [][]byte // in the rx ring
	inRx               int      // their frames
	held               []uint64 // received frames not recycled
	queued             [][]byte // in the tx ring
	pending            int      // tx descriptors not completed
	seed               int
}

func (m *model) deliver() {
	m.seed++
	p := pattern(make([]byte, 1+m.rng.IntN(4*xdp.RxFrameBytes)), m.seed)
	if m.k.Deliver(p) == nil {
		m.delivered = append(m.delivered, p)
		m.inRx += frames(len(p))
	}
}

func frames(n int) int { return (n + xdp.RxFrameBytes - 1) / xdp.RxFrameBytes }

func (m *model) receive() {
	// The slice has at least the four descriptors of the largest packet, and often too few for all packets.
	dst := make([]xdp.Desc, 4+m.rng.IntN(8))
	descs := dst[:m.s.Receive(dst)]
	if len(descs) == 0 && len(m.delivered) != 0 {
		m.t.Fatalf("received nothing with %d packets in the ring", len(m.delivered))
	}
	m.inRx -= len(descs)
	for len(descs) > 0 {
		var packet []xdp.Desc
		if packet, descs = xdp.NextPacket(descs); len(packet) == 0 {
			m.t.Fatal("Receive handed out a partial packet")
		}
		got := make([]byte, xdp.PacketLen(packet))
		m.u.Gather(got, packet)
		if !bytes.Equal(got, m.delivered[0]) {
			m.t.Fatalf("packet of %d bytes differs from the one of %d bytes sent", len(got), len(m.delivered[0]))
		}
		m.delivered = m.delivered[1:]
		for _, d := range packet {
			m.held = append(m.held, d.Addr)
		}
	}
}

func (m *model) recycle() {
	for range m.rng.IntN(8) {
		if len(m.held) == 0 {
			return
		}
		i := m.rng.IntN(len(m.held))
		m.s.Recycle(m.held[i] + uint64(m.rng.IntN(100)))
		m.held[i] = m.held[len(m.held)-1]
		m.held = m.held[:len(m.held)-1]
	}
}

func (m *model) refill() {
	free, level := m.s.RxFree(), m.k.FillLevel()
	if got, want := m.s.Refill(), min(free, testSizes.Fill-level); got != want {
		m.t.Fatalf("Refill = %d, want %d", got, want)
	}
}

func (m *model) transmit() {
	var descs []xdp.Desc
	var packets [][]byte
	for range m.rng.IntN(4) {
		var packet []byte
		n := 1 + m.rng.IntN(4)
		for i := range n {
			addr, ok := m.s.AllocTx()
			if !ok {
				// A chain without an end: Transmit must not accept it.
				break
			}
			m.seed++
			piece := pattern(m.u.Bytes(addr, 1+m.rng.IntN(xdp.FrameSize)), m.seed)
			packet = append(packet, piece...)
			d := xdp.Desc{Addr: addr, Len: uint32(len(piece)), Options: xdp.PacketContinues}
			if i == n-1 {
				d.Options = 0
				packets = append(packets, packet)
			}
			descs = append(descs, d)
		}
	}
	taken := m.s.Transmit(descs)
	m.pending += taken
	for _, d := range descs[taken:] {
		m.s.FreeTx(d.Addr)
	}
	for taken > 0 {
		var packet []xdp.Desc
		if packet, descs = xdp.NextPacket(descs); len(packet) > taken {
			m.t.Fatal("Transmit took part of a packet")
		}
		taken -= len(packet)
		m.queued = append(m.queued, packets[0])
		packets = packets[1:]
	}
}

func (m *model) send() {
	buf := make([]byte, 4*xdp.FrameSize)
	n, descs := m.k.Transmit(buf)
	if descs == 0 {
		return
	}
	if !bytes.Equal(buf[:n], m.queued[0]) {
		m.t.Fatal("the kernel sent something else")
	}
	m.queued = m.queued[1:]
}

func (m *model) complete() {
	n := m.k.Complete(m.rng.IntN(10))
	if got := m.s.Complete(nil); got != 0 {
		m.t.Fatalf("Complete returned %d arena addresses, there were none", got)
	}
	m.pending -= n
}

// balance adds up both pools.
func (m *model) balance() {
	if sum := m.s.RxFree() + m.k.FillLevel() + m.inRx + len(m.held); sum != m.rxFrames {
		m.t.Fatalf("%d rx frames, want %d", sum, m.rxFrames)
	}
	if m.s.TxPending() != m.pending || m.s.TxFree()+m.pending != m.txFrames {
		m.t.Fatalf("tx: %d pending, %d free; want %d pending of %d", m.s.TxPending(), m.s.TxFree(), m.pending, m.txFrames)
	}
}

// TestReceiveHoldsBackTail: the ring ends in the middle of a packet.
func TestReceiveHoldsBackTail(t *testing.T) {
	u, s, k := openDetached(t, xdp.Config{MultiBuffer: true}, testSizes)
	dst := make([]xdp.Desc, xdp.MaxFrags)
	first := pattern(make([]byte, 100), 1)
	second := pattern(make([]byte, 3*xdp.RxFrameBytes), 2)
	if err := k.Deliver(first); err != nil {
		t.Fatal(err)
	}
	rest, err := k.DeliverPart(second, 2)
	if err != nil || rest != 1 {
		t.Fatal(rest, err)
	}
	if n := s.Receive(dst); n != 1 || dst[0].Len != 100 {
		t.Fatalf("received %d descriptors, want the first packet only", n)
	}
	if n := s.Receive(dst); n != 0 {
		t.Fatalf("received %d descriptors of a packet without its end", n)
	}
	k.Publish(rest)
	n := s.Receive(dst)
	got := make([]byte, xdp.PacketLen(dst[:n]))
	u.Gather(got, dst[:n])
	if n != 3 || !bytes.Equal(got, second) {
		t.Errorf("received %d descriptors, %d bytes; want the whole second packet", n, len(got))
	}
}

// TestReceiveDropsOversize: a packet never fits into the caller's slice.
func TestReceiveDropsOversize(t *testing.T) {
	_, s, k := openDetached(t, xdp.Config{MultiBuffer: true}, testSizes)
	before := s.RxFree() + k.FillLevel()
	for _, size := range []int{5 * xdp.RxFrameBytes, 10} {
		if err := k.Deliver(pattern(make([]byte, size), size)); err != nil {
			t.Fatal(err)
		}
	}
	dst := make([]xdp.Desc, 2)
	if n := s.Receive(dst); n != 1 || dst[0].Len != 10 {
		t.Errorf("received %d descriptors, first %+v; want the packet behind the oversized one", n, dst[0])
	}
	st, err := s.Stats()
	if err != nil || st.RxOversize != 1 || st.RxPackets != 1 {
		t.Errorf("statistics %+v, %v", st, err)
	}
	s.Recycle(dst[0].Addr)
	if after := s.RxFree() + k.FillLevel(); after != before {
		t.Errorf("%d frames, want %d", after, before)
	}
	if n := s.Receive(nil); n != 0 {
		t.Errorf("Receive(nil) = %d", n)
	}
}

// TestTransmitBacklog fills the tx ring: it accepts whole packets only, and never more than can be completed (X4).
func TestTransmitBacklog(t *testing.T) {
	sizes := testSizes
	sizes.Completion = 8
	_, s, k := openDetached(t, xdp.Config{}, sizes)
	var descs []xdp.Desc
	for range 12 {
		addr, _ := s.AllocTx()
		descs = append(descs, xdp.Desc{Addr: addr, Len: 60})
	}
	if n := s.Transmit(descs); n != 8 {
		t.Fatalf("Transmit = %d, want as many as the completion ring holds", n)
	}
	if n := s.Transmit(descs[8:]); n != 0 {
		t.Fatalf("Transmit = %d with 8 outstanding, want 0", n)
	}
	if s.TxUnsent() != 8 || k.Unsent() != 8 {
		t.Errorf("TxUnsent = %d, want 8", s.TxUnsent())
	}
	buf := make([]byte, 100)
	for range 3 {
		k.Transmit(buf)
	}
	s.Complete(nil)
	if n := s.Transmit(descs[8:]); n != 3 {
		t.Errorf("Transmit = %d after 3 completions, want 3", n)
	}
	s.FreeTx(descs[11].Addr)
	if left, err := s.Kick(); left != 0 || err != nil {
		t.Errorf("Kick on a detached socket: %d left, %v", left, err)
	}
}

// TestTransmitInvalid offers packets that the kernel would refuse: they are accepted, counted and completed, and never sent (X3).
func TestTransmitInvalid(t *testing.T) {
	for _, tc := range []struct {
		name string
		edit func(d *xdp.Desc)
	}{
		{"empty", func(d *xdp.Desc) { d.Len = 0 }},
		{"crosses the frame", func(d *xdp.Desc) { d.Addr += 100; d.Len = xdp.FrameSize }},
		{"longer than a frame", func(d *xdp.Desc) { d.Len = xdp.FrameSize + 1 }},
		{"unknown option", func(d *xdp.Desc) { d.Options |= 1 << 7 }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, s, k := openDetached(t, xdp.Config{MultiBuffer: true}, testSizes)
			free := s.TxFree()
			descs := make([]xdp.Desc, 3)
			for i := range descs {
				addr, _ := s.AllocTx()
				descs[i] = xdp.Desc{Addr: addr, Len: 60}
			}
			tc.edit(&descs[1])
			if n := s.Transmit(descs); n != 3 {
				t.Fatalf("Transmit = %d, want 3", n)
			}
			if k.Unsent() != 2 || s.TxPending() != 3 {
				t.Errorf("%d in the tx ring, %d pending; want 2 and 3", k.Unsent(), s.TxPending())
			}
			buf := make([]byte, 100)
			k.Transmit(buf)
			k.Transmit(buf)
			s.Complete(nil)
			st, _ := s.Stats()
			if s.TxFree() != free || s.TxPending() != 0 || st.TxInvalid != 1 || st.TxPackets != 2 {
				t.Errorf("free %d of %d, pending %d, %+v", s.TxFree(), free, s.TxPending(), st)
			}
		})
	}
}

func TestTransmitTooManyFrags(t *testing.T) {
	for _, tc := range []struct {
		multi bool
		frags int
		sent  int
	}{
		{true, xdp.MaxFrags, xdp.MaxFrags},
		{true, xdp.MaxFrags + 1, 0},
		{false, 1, 1},
		{false, 2, 0},
	} {
		_, s, k := openDetached(t, xdp.Config{MultiBuffer: tc.multi}, testSizes)
		descs := make([]xdp.Desc, tc.frags)
		for i := range descs {
			addr, _ := s.AllocTx()
			descs[i] = xdp.Desc{Addr: addr, Len: 60, Options: xdp.PacketContinues}
		}
		descs[len(descs)-1].Options = 0
		if n := s.Transmit(descs); n != tc.frags || k.Unsent() != tc.sent {
			t.Errorf("%+v: took %d, sent %d", tc, n, k.Unsent())
		}
		s.Complete(nil)
	}
}

// TestCompleteArena sends memory that does not belong to a frame.
func TestCompleteArena(t *testing.T) {
	u, s, k := openDetached(t, xdp.Config{}, testSizes)
	base := u.ArenaBase()
	descs := []xdp.Desc{{Addr: base + 5, Len: 10}, {Addr: base + 20, Len: 10}, {Addr: base + 4096, Len: 4096}}
	buf := make([]byte, xdp.FrameSize)
	send := func() {
		if n := s.Transmit(descs); n != len(descs) {
			t.Fatalf("Transmit = %d", n)
		}
		for range descs {
			k.Transmit(buf)
		}
	}
	send()
	var done [2]uint64
	if n := s.Complete(done[:]); n != 2 || done != [2]uint64{base + 5, base + 20} {
		t.Fatalf("Complete = %d, %#x", n, done)
	}
	if n := s.Complete(done[:]); n != 1 || done[0] != base+4096 || s.TxPending() != 0 {
		t.Fatalf("Complete = %d, %#x, pending %d", n, done, s.TxPending())
	}
	send()
	if n := s.Complete(nil); n != 0 || s.TxPending() != 0 {
		t.Errorf("Complete(nil) = %d, pending %d", n, s.TxPending())
	}
	// Memory outside of the UMEM is completed, and not given to the kernel.
	if n := s.Transmit([]xdp.Desc{{Addr: u.Size(), Len: 10}}); n != 1 || k.Unsent() != 0 {
		t.Errorf("Transmit beyond the UMEM = %d, %d in the ring", n, k.Unsent())
	}
	if n := s.Complete(done[:]); n != 1 || done[0] != u.Size() {
		t.Errorf("Complete = %d, %#x", n, done)
	}
}

// TestEcho sends received frames back unchanged.
func TestEcho(t *testing.T) {
	_, s, k := openDetached(t, xdp.Config{}, testSizes)
	total := s.RxFree() + k.FillLevel()
	want := pattern(make([]byte, 200), 3)
	dst, buf := make([]xdp.Desc, 4), make([]byte, 4096)
	for range 200 {
		if err := k.Deliver(want); err != nil {
			t.Fatal(err)
		}
		n := s.Receive(dst)
		if s.Transmit(dst[:n]) != 1 {
			t.Fatal("echo refused")
		}
		if n, _ := k.Transmit(buf); !bytes.Equal(buf[:n], want) {
			t.Fatal("echo differs")
		}
		s.Complete(nil)
		s.Refill()
	}
	if got := s.RxFree() + k.FillLevel(); got != total {
		t.Errorf("%d rx frames, want %d", got, total)
	}
}

// TestClosedSocketIsInert calls all methods after Close, while the caller still has frames.
func TestClosedSocketIsInert(t *testing.T) {
	u, s, k := openDetached(t, xdp.Config{}, testSizes)
	if err := k.Deliver(make([]byte, 60)); err != nil {
		t.Fatal(err)
	}
	dst := make([]xdp.Desc, 4)
	s.Receive(dst)
	addr, _ := s.AllocTx()
	if err := u.Close(); !errors.Is(err, xdp.ErrInUse) {
		t.Errorf("closing a UMEM in use: %v", err)
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	s.Recycle(dst[0].Addr)
	s.FreeTx(addr)
	if s.Receive(dst) != 0 || s.Refill() != 0 || s.Transmit(dst[:1]) != 0 || s.Complete(nil) != 0 || s.FD() != -1 {
		t.Error("a closed socket does something")
	}
	if _, ok := s.AllocTx(); ok || s.RxFree()+s.TxFree()+s.TxPending() != 0 {
		t.Error("a closed socket has frames")
	}
	if st, err := s.Stats(); err != nil || st.RxPackets != 1 {
		t.Errorf("statistics after Close: %+v, %v", st, err)
	}
}

// TestForeignFramesPanic: two sockets on one UMEM confuse their frames (X5).
func TestForeignFramesPanic(t *testing.T) {
	u, err := xdp.NewUMEM(xdp.UMEMConfig{RxFrames: 128, TxFrames: 64})
	if err != nil {
		t.Fatal(err)
	}
	a, _, errA := xdptest.Open(u, xdp.Config{RxFrames: 64, TxFrames: 32}, testSizes)
	b, _, errB := xdptest.Open(u, xdp.Config{RxFrames: 64, TxFrames: 32}, testSizes)
	if err := errors.Join(errA, errB); err != nil {
		t.Fatal(err)
	}
	if _, _, err := xdptest.Open(u, xdp.Config{RxFrames: 64, TxFrames: 32}, testSizes); !errors.Is(err, xdp.ErrNoFrames) {
		t.Errorf("third socket: %v", err)
	}
	addr, _ := a.AllocTx()
	for name, f := range map[string]func(){
		"FreeTx":  func() { b.FreeTx(addr) },
		"Recycle": func() { b.Recycle(addr) },
	} {
		if !panics(f) {
			t.Errorf("%s of another socket's frame did not panic", name)
		}
	}
	if err := errors.Join(a.Close(), b.Close(), u.Close()); err != nil {
		t.Error(err)
	}
}

func panics(f func()) (yes bool) {
	defer func() { yes = recover() != nil }()
	f()
	return false
}

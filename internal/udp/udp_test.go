package udp

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/testhelp"
)

var must = testhelp.Must

var (
	addrA = netip.MustParseAddr("127.0.0.1")
	addrB = netip.MustParseAddr("127.0.0.2")
)

func newNetwork(t testing.TB) *Network {
	t.Helper()
	n, err := NewNetwork()
	must(t, err)
	t.Cleanup(func() { must(t, n.Close()) })
	return n
}

// open binds to a free port of an address.
func open(t testing.TB, n *Network, at netip.Addr) (*Socket, netip.AddrPort) {
	t.Helper()
	s, err := n.Open(Config{Local: netip.AddrPortFrom(at, 0), ReceiveBuffer: 4 << 20, SendBuffer: 4 << 20})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s, portOf(t, s, at)
}

func portOf(t testing.TB, s *Socket, at netip.Addr) netip.AddrPort {
	t.Helper()
	name, err := unix.Getsockname(s.FD())
	must(t, err)
	switch a := name.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(at, uint16(a.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(at, uint16(a.Port))
	}
	t.Fatalf("bound to a %T", name)
	return netip.AddrPort{}
}

func newPool(t testing.TB, n int) *Pool {
	t.Helper()
	p, err := NewPool(n)
	must(t, err)
	t.Cleanup(func() { must(t, p.Close()) })
	return p
}

// send sends one datagram in pieces of at most cut bytes.
func send(s *Sender, on *Socket, to netip.AddrPort, data []byte, cut int) int {
	a := AddrOf(to, 0)
	s.Begin(&a, false)
	for len(data) > 0 {
		n := min(cut, len(data))
		s.Add(data[:n])
		data = data[n:]
	}
	refused, _ := s.Send(on)
	return refused
}

// take copies datagram i together and gives its frames back.
func take(r *Receiver, p *Pool, i int) []byte {
	_, _, n, _, _ := r.Message(i)
	var all []byte
	for j := 0; n > 0; j++ {
		mem, id := r.Take(i, j)
		all = append(all, mem[:min(n, len(mem))]...)
		n -= min(n, len(mem))
		p.Put(id)
	}
	return all
}

func TestLayoutOfMmsghdr(t *testing.T) {
	if got, want := unsafe.Sizeof(mmsghdr{}), unsafe.Sizeof(unix.Msghdr{})+unsafe.Sizeof(uintptr(0)); got != want {
		t.Errorf("struct mmsghdr has %d bytes, want %d", got, want)
	}
}

// TestDatagrams sends every interesting size, over both families: what arrives is what was sent, from whom it was sent, in
// exactly the frames that it fills.
func TestDatagrams(t *testing.T) {
	for _, c := range []struct{ from, to netip.Addr }{
		{addrA, addrB}, {netip.IPv6Loopback(), netip.IPv6Loopback()},
	} {
		n := newNetwork(t)
		out, from := open(t, n, c.from)
		in, to := open(t, n, c.to)
		pool := newPool(t, 64)
		r := NewReceiver(pool, 2, 65507)
		s := NewSender(1, 20)
		for _, size := range []int{0, 1, 36, 1472, FrameSize - 1, FrameSize, FrameSize + 1, 3 * FrameSize, 60000, 65487} {
			data := bytes.Repeat([]byte{1, 2, 3, 4, 5, 6, 7}, size/7+1)[:size]
			if lost := send(s, out, to, data, 4001); lost != 0 {
				t.Fatalf("%d bytes: refused", size)
			}
			if got := r.Receive(in); got != 1 {
				t.Fatalf("%d bytes: %d datagrams arrived", size, got)
			}
			ip, port, length, marked, whole := r.Message(0)
			if netip.AddrPortFrom(netip.AddrFrom16(ip).Unmap(), port) != from || length != size || marked || !whole {
				t.Fatalf("%d bytes: %d from %v port %d, marked %v, whole %v", size, length, ip, port, marked, whole)
			}
			free := pool.Free()
			if got := take(r, pool, 0); !bytes.Equal(got, data) {
				t.Fatalf("%d bytes arrived as others", size)
			}
			if used := pool.Free() - free; used != (size+FrameSize-1)/FrameSize {
				t.Fatalf("%d bytes took %d frames", size, used)
			}
		}
		if r.Receive(in) != 0 {
			t.Error("something arrived that nobody sent")
		}
		r.Close()
		if pool.Free() != 64 {
			t.Errorf("%d of 64 frames came back", pool.Free())
		}
	}
}

// TestCutOff receives a datagram longer than there is room for.
func TestCutOff(t *testing.T) {
	n := newNetwork(t)
	out, _ := open(t, n, addrA)
	in, to := open(t, n, addrB)
	pool := newPool(t, 4)
	r := NewReceiver(pool, 1, 1500)
	send(NewSender(1, 2), out, to, make([]byte, FrameSize+1), FrameSize)
	if got := r.Receive(in); got != 1 {
		t.Fatalf("%d datagrams arrived", got)
	}
	if _, _, _, _, whole := r.Message(0); whole {
		t.Error("a datagram that was cut off passes for whole")
	}
}

// TestPoolRunsDry keeps all frames: what there is no room for waits in the socket, and arrives when there is.
func TestPoolRunsDry(t *testing.T) {
	n := newNetwork(t)
	out, _ := open(t, n, addrA)
	in, to := open(t, n, addrB)
	pool := newPool(t, 3)
	r := NewReceiver(pool, 2, 100)
	s := NewSender(1, 1)
	for i := range 5 {
		send(s, out, to, []byte{byte(i)}, 1)
	}
	var kept []uint32
	var seen []byte
	for range 4 {
		for i := range r.Receive(in) {
			mem, id := r.Take(i, 0)
			kept, seen = append(kept, id), append(seen, mem[0])
		}
	}
	if !bytes.Equal(seen, []byte{0, 1, 2}) || r.Receive(in) != 0 {
		t.Fatalf("with three frames arrived %v", seen)
	}
	for _, id := range kept {
		pool.Put(id)
	}
	for i := range r.Receive(in) {
		seen = append(seen, take(r, pool, i)...)
	}
	if !bytes.Equal(seen, []byte{0, 1, 2, 3, 4}) {
		t.Fatalf("arrived %v", seen)
	}
}

// TestMarks sends with CE set, which a router does when its queue grows.
func TestMarks(t *testing.T) {
	for _, c := range []struct {
		at          netip.Addr
		level, name int
	}{{addrA, unix.SOL_IP, unix.IP_TOS}, {netip.IPv6Loopback(), unix.SOL_IPV6, unix.IPV6_TCLASS}} {
		n := newNetwork(t)
		out, _ := open(t, n, c.at)
		in, to := open(t, n, c.at)
		r := NewReceiver(newPool(t, 4), 2, 100)
		s := NewSender(1, 1)
		for _, tos := range []int{0, 3, 1, 2, 0xff} {
			must(t, unix.SetsockoptInt(out.FD(), c.level, c.name, tos))
			send(s, out, to, []byte("x"), 1)
			if r.Receive(in) != 1 {
				t.Fatal("nothing arrived")
			}
			if _, _, _, marked, _ := r.Message(0); marked != (tos&3 == 3) {
				t.Errorf("%v: type of service %#x is marked: %v", c.at, tos, marked)
			}
		}
	}
}

func TestPortTaken(t *testing.T) {
	n := newNetwork(t)
	_, at := open(t, n, addrA)
	if _, err := n.Open(Config{Local: at}); !errors.Is(err, ErrPortTaken) {
		t.Errorf("a second socket on the port: %v, want ErrPortTaken", err)
	}
}

// TestRefused sends a datagram that is too long between two that are not: one is lost.
func TestRefused(t *testing.T) {
	n := newNetwork(t)
	out, _ := open(t, n, addrA)
	in, to := open(t, n, addrB)
	a := AddrOf(to, 0)
	s := NewSender(3, 1)
	for _, size := range []int{1, 65508, 2} {
		s.Begin(&a, false)
		s.Add(make([]byte, size))
	}
	if lost, tooLong := s.Send(out); lost != 1 || tooLong != 1 {
		t.Errorf("%d datagrams were refused, want 1", lost)
	}
	r := NewReceiver(newPool(t, 8), 4, 100)
	if got := r.Receive(in); got != 2 {
		t.Errorf("%d datagrams arrived, want 2", got)
	}
}

func TestDropsAreCounted(t *testing.T) {
	n := newNetwork(t)
	out, _ := open(t, n, addrA)
	in, err := n.Open(Config{Local: netip.AddrPortFrom(addrB, 0)}) // with the smallest buffer there is
	must(t, err)
	defer func() { must(t, in.Close()) }()
	to := portOf(t, in, addrB)
	s := NewSender(1, 1)
	for range 64 {
		send(s, out, to, make([]byte, 1000), 1000)
	}
	if drops, err := in.Drops(); err != nil || drops == 0 || drops > 64 {
		t.Errorf("%d drops (%v)", drops, err)
	}
}

// TestNetworkOfAnotherThread opens a socket in the namespace in which the Network was made.
func TestNetworkOfAnotherThread(t *testing.T) {
	ns := netlabtest.Namespace(t)
	var n *Network
	must(t, ns.Do(func() (err error) { n, err = NewNetwork(); return err }))
	defer func() { must(t, n.Close()) }()
	s, err := n.Open(Config{Local: netip.AddrPortFrom(addrA, 0)})
	must(t, err)
	defer func() { must(t, s.Close()) }()
	if here := newNetwork(t); cookieOf(s.FD()) != n.cookie || here.cookie == n.cookie {
		t.Errorf("socket in %d, network %d, here %d", cookieOf(s.FD()), n.cookie, here.cookie)
	}
}

// TestAllocations holds sending, receiving and giving back to none.
func TestAllocations(t *testing.T) {
	n := newNetwork(t)
	out, _ := open(t, n, addrA)
	in, to := open(t, n, addrB)
	pool := newPool(t, 64)
	r := NewReceiver(pool, 8, 9000)
	s := NewSender(8, 2)
	a := AddrOf(to, 0)
	data := make([]byte, 5000)
	round := func() {
		for range 8 {
			s.Begin(&a, false)
			s.Add(data[:4096])
			s.Add(data[4096:])
		}
		if lost, _ := s.Send(out); lost != 0 {
			t.Fatal("refused")
		}
		for i := range r.Receive(in) {
			for j := range 2 {
				_, id := r.Take(i, j)
				pool.Put(id)
			}
		}
	}
	if got := testing.AllocsPerRun(100, round); got != 0 {
		t.Errorf("%v allocations for a batch, want 0", got)
	}
	if got := testing.AllocsPerRun(100, func() { r.Receive(in) }); got != 0 {
		t.Errorf("%v allocations for a look at nothing, want 0", got)
	}
}

// BenchmarkBatch is 32 datagrams there and back into frames, both halves on one processor; an operation is one of them.
func BenchmarkBatch(b *testing.B) {
	for _, size := range []int{64, 1472, 65507} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			n := newNetwork(b)
			out, _ := open(b, n, addrA)
			in, to := open(b, n, addrB)
			pool := newPool(b, 1024)
			r := NewReceiver(pool, 32, size)
			s := NewSender(32, 1)
			a := AddrOf(to, 0)
			data := make([]byte, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				s.Begin(&a, false)
				s.Add(data)
				if i%32 < 31 {
					continue
				}
				s.Send(out)
				for m := range r.Receive(in) {
					for j := range (size + FrameSize - 1) / FrameSize {
						_, id := r.Take(m, j)
						pool.Put(id)
					}
				}
			}
		})
	}
}

// BenchmarkEmptyReceive is what a poller pays for a look at nothing.
func BenchmarkEmptyReceive(b *testing.B) {
	n := newNetwork(b)
	in, _ := open(b, n, addrB)
	r := NewReceiver(newPool(b, 1024), 8, 65507)
	for b.Loop() {
		r.Receive(in)
	}
}

// TestMarkable sends datagrams that routers may mark, and between them others.
func TestMarkable(t *testing.T) {
	for _, at := range []netip.Addr{addrA, netip.IPv6Loopback()} {
		n := newNetwork(t)
		out, _ := open(t, n, at)
		in, to := open(t, n, at)
		r, s := NewReceiver(newPool(t, 4), 4, 100), NewSender(4, 1)
		a := AddrOf(to, 0)
		for round := range 2 { // the second one finds what the first one left in the headers
			for i := range 4 {
				s.Begin(&a, i%2 == round)
				s.Add([]byte("x"))
			}
			if refused, _ := s.Send(out); refused > 0 || r.Receive(in) != 4 {
				t.Fatalf("%v: %d datagrams refused, or not all arrived", at, refused)
			}
			for i := range 4 {
				want := byte(0)
				if i%2 == round {
					want = 2 // RFC 3168 §5
				}
				// An octet, or the first one of an int: machines of the other byte order are not supported (package xdp).
				if got := r.control[i*r.room+unix.CmsgLen(0)] & 3; got != want {
					t.Errorf("%v, round %d: datagram %d has codepoint %d, want %d", at, round, i, got, want)
				}
			}
		}
	}
}

// TestDirect names the address and the interface that datagrams leave from, with and without a mark, over both families.
func TestDirect(t *testing.T) {
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []netip.Addr{addrA, netip.IPv6Loopback()} {
		n := newNetwork(t)
		out, from := open(t, n, at)
		in, to := open(t, n, at)
		pool := newPool(t, 4)
		r, s := NewReceiver(pool, 2, 100), NewSender(1, 1)
		for _, c := range []struct {
			index  int
			marked bool
			lost   int
		}{{lo.Index, false, 0}, {lo.Index, true, 0}, {9999, false, 1}} { // the kernel looks at the interface that is named
			s.From(at, c.index)
			direct := AddrOf(to, 0)
			direct.Direct()
			s.Begin(&direct, c.marked)
			s.Add([]byte{1})
			if lost, _ := s.Send(out); lost != c.lost {
				t.Fatalf("%s over interface %d: %d refused, want %d", at, c.index, lost, c.lost)
			}
			if got := r.Receive(in); got != 1-c.lost {
				t.Fatalf("%s over interface %d: %d arrived", at, c.index, got)
			}
			if c.lost > 0 {
				continue
			}
			ip, port, _, _, _ := r.Message(0)
			if netip.AddrPortFrom(netip.AddrFrom16(ip).Unmap(), port) != from {
				t.Errorf("%s: it came from %v port %d", at, ip, port)
			}
			take(r, pool, 0)
		}
		r.Close()
	}
}

package udp

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/testhelp"
)

var must = testhelp.Must

// The addresses of the two sockets of a test.
var addrA, addrB = netlabtest.Loopback()[0], netlabtest.Loopback()[0]

func newNetwork(t testing.TB) *Network {
	t.Helper()
	n, err := NewNetwork()
	must(t, err)
	t.Cleanup(func() { must(t, n.Close()) })
	return n
}

// open binds a socket to a free port of an address.
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
	p, err := NewPool(n, frameSize)
	must(t, err)
	t.Cleanup(func() { must(t, p.Close()) })
	return p
}

// frameSize is enough for any message.
const frameSize = 64 << 10

// newReceiver has its own frames, and accepts every message that is not empty.
func newReceiver(t testing.TB, batch, frames int) *Receiver {
	t.Helper()
	return NewReceiver(newPool(t, frames), batch, 8*frameSize, 1)
}

// count returns the number of datagrams in one batch, and releases them.
func (r *Receiver) count(from *Socket) int { return len(r.all(from)) }

// all receives a batch and returns the bytes of its datagrams.
func (r *Receiver) all(from *Socket) (seen [][]byte) {
	r.Receive(from)
	for d := (Datagram{}); r.Next(&d); {
		seen = append(seen, bytes.Clone(d.Data))
		r.Release(d.Frame)
	}
	return seen
}

// send sends one datagram in parts of at most cut bytes.
func send(s *Sender, on *Socket, to netip.AddrPort, data []byte, cut int) int {
	a := AddrOf(to, 0)
	s.Begin(&a, false, len(data), false)
	for len(data) > 0 {
		n := min(cut, len(data))
		s.Add(data[:n])
		data = data[n:]
	}
	refused, _ := s.Send(on)
	return refused
}

func TestLayoutOfMmsghdr(t *testing.T) {
	if got, want := unsafe.Sizeof(mmsghdr{}), unsafe.Sizeof(unix.Msghdr{})+unsafe.Sizeof(uintptr(0)); got != want {
		t.Errorf("struct mmsghdr has %d bytes, want %d", got, want)
	}
}

// Next ends at Stop, and continues when it is called again. Done counts the messages that were returned completely.
func TestStop(t *testing.T) {
	n := newNetwork(t)
	b, at := open(t, n, addrB)
	a, _ := open(t, n, addrA)
	s, r := NewSender(1, 1), newReceiver(t, 8, 8)
	for i := range 5 {
		send(s, a, at, make([]byte, 10+i), 100)
	}
	if !r.Receive(b) || r.Arrived() != 5 {
		t.Fatalf("%d arrived, want 5", r.Arrived())
	}
	var d Datagram
	done := 0
	for _, more := range []int{2, 0, 1, 9} {
		r.Stop(more)
		for range more {
			if done < 5 {
				if !r.Next(&d) || len(d.Data) != 10+done {
					t.Fatalf("message %d has %d bytes", done, len(d.Data))
				}
				r.Release(d.Frame)
				done++
			}
		}
		if r.Done() != done || r.Next(&d) || r.Waiting() != (done < 5) {
			t.Errorf("%d are done, %d are counted; more are waiting: %t", done, r.Done(), r.Waiting())
		}
	}
}

// TestDatagrams sends datagrams of all interesting sizes over both families. The datagrams arrive unchanged, with the right source.
func TestDatagrams(t *testing.T) {
	for _, c := range []struct{ from, to netip.Addr }{
		{addrA, addrB}, {netip.IPv6Loopback(), netip.IPv6Loopback()},
	} {
		n := newNetwork(t)
		out, from := open(t, n, c.from)
		in, to := open(t, n, c.to)
		r := newReceiver(t, 2, 4)
		s := NewSender(1, 20)
		for _, size := range []int{1, 36, 1472, PageSize - 1, PageSize, PageSize + 1, 3 * PageSize, 60000, 65487} {
			data := bytes.Repeat([]byte{1, 2, 3, 4, 5, 6, 7}, size/7+1)[:size]
			if lost := send(s, out, to, data, 4001); lost != 0 {
				t.Fatalf("%d bytes: refused", size)
			}
			var d Datagram
			if !r.Receive(in) || !r.Waiting() || !r.Next(&d) || r.Next(&Datagram{}) {
				t.Fatalf("%d bytes: not one datagram arrived", size)
			}
			if netip.AddrPortFrom(netip.AddrFrom16(d.IP).Unmap(), d.Port) != from || d.Marked || d.Merged {
				t.Fatalf("%d bytes: %v port %d, marked %v, merged %v", size, d.IP, d.Port, d.Marked, d.Merged)
			}
			if !bytes.Equal(d.Data, data) || cap(d.Data) != size {
				t.Fatalf("%d bytes arrived as others", size)
			}
			r.Release(d.Frame)
		}
		if r.Receive(in) || r.Waiting() {
			t.Error("a datagram arrived that was not sent")
		}
		r.Close()
		if r.pool.Free() != 4 {
			t.Errorf("%d of 4 frames came back", r.pool.Free())
		}
	}
}

// A datagram that does not fit into a frame, or is too short, is counted, and its frame can be used again.
func TestUnfit(t *testing.T) {
	n := newNetwork(t)
	out, _ := open(t, n, addrA)
	in, to := open(t, n, addrB)
	pool, err := NewPool(4, PageSize)
	must(t, err)
	defer func() { must(t, pool.Close()) }()
	r := NewReceiver(pool, 4, 4*PageSize, 24)
	s := NewSender(1, 2)
	for _, size := range []int{PageSize + 1, 23, 0, 24} {
		send(s, out, to, make([]byte, size), PageSize)
	}
	if seen := r.all(in); len(seen) != 1 || len(seen[0]) != 24 {
		t.Errorf("%d datagrams", len(seen))
	}
	if n := r.Unfit(); n != 3 || r.Unfit() != 0 || pool.Free() != 1 {
		t.Errorf("%d were unfit, want 3; %d frames are free, want 1 and 3 posted", n, pool.Free())
	}
}

// TestPoolRunsDry: while all frames are in use, datagrams wait in the socket. The datagrams arrive when frames are free.
func TestPoolRunsDry(t *testing.T) {
	n := newNetwork(t)
	out, _ := open(t, n, addrA)
	in, to := open(t, n, addrB)
	r := newReceiver(t, 2, 3)
	s := NewSender(1, 1)
	for i := range 5 {
		send(s, out, to, []byte{byte(i)}, 1)
	}
	var kept []uint32
	var seen []byte
	for range 4 {
		r.Receive(in)
		for d := (Datagram{}); r.Next(&d); {
			kept, seen = append(kept, d.Frame), append(seen, d.Data[0])
		}
	}
	if !bytes.Equal(seen, []byte{0, 1, 2}) || r.Receive(in) {
		t.Fatalf("with three frames arrived %v", seen)
	}
	for _, id := range kept {
		r.Release(id)
	}
	for _, b := range r.all(in) {
		seen = append(seen, b...)
	}
	if !bytes.Equal(seen, []byte{0, 1, 2, 3, 4}) {
		t.Fatalf("arrived %v", seen)
	}
}

// TestMarks sends datagrams with CE set, like a router whose queue grows.
func TestMarks(t *testing.T) {
	for _, c := range []struct {
		at          netip.Addr
		level, name int
	}{{addrA, unix.SOL_IP, unix.IP_TOS}, {netip.IPv6Loopback(), unix.SOL_IPV6, unix.IPV6_TCLASS}} {
		n := newNetwork(t)
		out, _ := open(t, n, c.at)
		in, to := open(t, n, c.at)
		r := newReceiver(t, 2, 4)
		s := NewSender(1, 1)
		for _, tos := range []int{0, 3, 1, 2, 0xff} {
			must(t, unix.SetsockoptInt(out.FD(), c.level, c.name, tos))
			send(s, out, to, []byte("x"), 1)
			var d Datagram
			if !r.Receive(in) || !r.Next(&d) {
				t.Fatal("nothing arrived")
			}
			if d.Marked != (tos&3 == 3) {
				t.Errorf("%v: type of service %#x is marked: %v", c.at, tos, d.Marked)
			}
			r.Release(d.Frame)
		}
	}
}

// A stamp is the arrival time of a datagram, however late it is received. The kernel enables stamps with a delay, for the first
// socket that asks: until then it gives the time of the receive call. Without Stamps there are none.
func TestStamps(t *testing.T) {
	const late = time.Millisecond
	for _, at := range []netip.Addr{addrA, netip.IPv6Loopback()} {
		n := newNetwork(t)
		out, _ := open(t, n, at)
		s, r := NewSender(1, 1), newReceiver(t, 4, 8)
		// arrived sends a datagram, receives it later, and returns how long it waited in the socket.
		arrived := func(in *Socket) (waited time.Duration, stamped bool) {
			before := time.Now()
			send(s, out, portOf(t, in, at), []byte("x"), 1)
			taken := time.Now().Add(late)
			for time.Now().Before(taken) {
			}
			var d Datagram
			if !r.Receive(in) || !r.Next(&d) {
				t.Fatal("nothing arrived")
			}
			r.Release(d.Frame)
			if d.Stamp != 0 && (d.Stamp < before.UnixNano() || d.Stamp > time.Now().UnixNano()) {
				t.Fatalf("%v: it arrived %v after it left", at, time.Duration(d.Stamp-before.UnixNano()))
			}
			return time.Duration(taken.UnixNano() - d.Stamp), d.Stamp != 0
		}
		plain, _ := open(t, n, at)
		if _, stamped := arrived(plain); stamped {
			t.Errorf("%v: a stamp that was not requested", at)
		}
		in, err := n.Open(Config{Local: netip.AddrPortFrom(at, 0), ReceiveBuffer: 4 << 20, Stamps: true})
		must(t, err)
		testhelp.Eventually(t, "a stamp of the arrival", func() bool {
			waited, stamped := arrived(in)
			if !stamped {
				t.Fatalf("%v: no stamp", at)
			}
			return waited >= late
		})
		must(t, in.Close())
	}
}

func TestPortTaken(t *testing.T) {
	n := newNetwork(t)
	_, at := open(t, n, addrA)
	if _, err := n.Open(Config{Local: at}); !errors.Is(err, ErrPortTaken) {
		t.Errorf("a second socket on the port: %v, want ErrPortTaken", err)
	}
}

// TestRefused sends three datagrams, of which the second is too long. Only the second datagram is lost.
func TestRefused(t *testing.T) {
	n := newNetwork(t)
	out, _ := open(t, n, addrA)
	in, to := open(t, n, addrB)
	a := AddrOf(to, 0)
	s := NewSender(3, 1)
	for _, size := range []int{1, 65508, 2} {
		s.Begin(&a, false, size, false)
		s.Add(make([]byte, size))
	}
	if lost, tooLong := s.Send(out); lost != 1 || tooLong != 1 {
		t.Errorf("%d datagrams were refused, want 1", lost)
	}
	if got := newReceiver(t, 4, 8).count(in); got != 2 {
		t.Errorf("%d datagrams arrived, want 2", got)
	}
}

func TestDropsAreCounted(t *testing.T) {
	n := newNetwork(t)
	out, _ := open(t, n, addrA)
	in, err := n.Open(Config{Local: netip.AddrPortFrom(addrB, 0)}) // with the smallest buffer
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

// TestAllocations: sending, receiving and releasing allocate nothing.
func TestAllocations(t *testing.T) {
	n := newNetwork(t)
	out, _ := open(t, n, addrA)
	in, to := open(t, n, addrB)
	r := newReceiver(t, 8, 16)
	s := NewSender(8, 2)
	a := AddrOf(to, 0)
	data := make([]byte, 5000)
	round := func() {
		for range 8 {
			s.Begin(&a, false, len(data), false)
			s.Add(data[:4096])
			s.Add(data[4096:])
		}
		if lost, _ := s.Send(out); lost != 0 {
			t.Fatal("refused")
		}
		r.Receive(in)
		for d := (Datagram{}); r.Next(&d); {
			r.Release(d.Frame)
		}
	}
	if got := testing.AllocsPerRun(100, round); got != 0 {
		t.Errorf("%v allocations for a batch, want 0", got)
	}
	if got := testing.AllocsPerRun(100, func() { r.Receive(in) }); got != 0 {
		t.Errorf("%v allocations for an empty poll, want 0", got)
	}
}

// BenchmarkBatch sends 32 datagrams there and back into frames, both sides on one processor. One operation is one datagram.
func BenchmarkBatch(b *testing.B) {
	for _, size := range []int{64, 1472, 65507} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			n := newNetwork(b)
			out, _ := open(b, n, addrA)
			in, to := open(b, n, addrB)
			r := newReceiver(b, 32, 128)
			s := NewSender(32, 1)
			a := AddrOf(to, 0)
			data := make([]byte, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				s.Begin(&a, false, size, false)
				s.Add(data)
				if i%32 < 31 {
					continue
				}
				s.Send(out)
				for d := (Datagram{}); r.Receive(in); {
					for r.Next(&d) {
						r.Release(d.Frame)
					}
				}
			}
		})
	}
}

// BenchmarkEmptyReceive is the cost of an empty poll.
func BenchmarkEmptyReceive(b *testing.B) {
	n := newNetwork(b)
	in, _ := open(b, n, addrB)
	r := newReceiver(b, 8, 16)
	for b.Loop() {
		r.Receive(in)
	}
}

// TestMarkable alternates datagrams with ECT(0) and Not-ECT.
func TestMarkable(t *testing.T) {
	for _, at := range []netip.Addr{addrA, netip.IPv6Loopback()} {
		n := newNetwork(t)
		out, _ := open(t, n, at)
		in, to := open(t, n, at)
		r, s := newReceiver(t, 4, 4), NewSender(4, 1)
		a := AddrOf(to, 0)
		for round := range 2 { // the second round starts with the headers of the first
			for i := range 4 {
				s.Begin(&a, i%2 == round, 1, false)
				s.Add([]byte("x"))
			}
			if refused, _ := s.Send(out); refused > 0 || r.count(in) != 4 {
				t.Fatalf("%v: %d datagrams refused, or not all arrived", at, refused)
			}
			for i := range 4 {
				want := byte(0)
				if i%2 == round {
					want = 2 // RFC 3168 §5
				}
				// The value is an octet, or the first octet of an int: big-endian machines are not supported (package xdp).
				if got := r.control[i*controlRoom+unix.CmsgLen(0)] & 3; got != want {
					t.Errorf("%v, round %d: datagram %d has codepoint %d, want %d", at, round, i, got, want)
				}
			}
		}
	}
}

// TestDirect sets the local address and the interface of datagrams, with and without a mark, over both families.
func TestDirect(t *testing.T) {
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []netip.Addr{addrA, netip.IPv6Loopback()} {
		n := newNetwork(t)
		out, from := open(t, n, at)
		in, to := open(t, n, at)
		r, s := newReceiver(t, 2, 4), NewSender(1, 1)
		for _, c := range []struct {
			index  int
			marked bool
			lost   int
		}{{lo.Index, false, 0}, {lo.Index, true, 0}, {9999, false, 1}} { // the kernel checks the interface
			s.From(at, c.index)
			direct := AddrOf(to, 0)
			direct.Direct()
			s.Begin(&direct, c.marked, 1, false)
			s.Add([]byte{1})
			if lost, _ := s.Send(out); lost != c.lost {
				t.Fatalf("%s over interface %d: %d refused, want %d", at, c.index, lost, c.lost)
			}
			var d Datagram
			if got := r.Receive(in) && r.Next(&d); got != (c.lost == 0) {
				t.Fatalf("%s over interface %d: arrived: %v", at, c.index, got)
			}
			if c.lost > 0 {
				continue
			}
			if netip.AddrPortFrom(netip.AddrFrom16(d.IP).Unmap(), d.Port) != from {
				t.Errorf("%s: it came from %v port %d", at, d.IP, d.Port)
			}
			r.Release(d.Frame)
		}
		r.Close()
	}
}

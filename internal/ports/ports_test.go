package ports

import (
	"context"
	"errors"
	"math"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/udp"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// here is an address and port that only this test process uses.
func here(n uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, byte(os.Getpid() >> 16), byte(os.Getpid() >> 8), byte(os.Getpid())}), n)
}

func newNetwork(t testing.TB) *udp.Network {
	t.Helper()
	n, err := udp.NewNetwork()
	must(t, err)
	t.Cleanup(func() { must(t, n.Close()) })
	return n
}

func newSpace(t testing.TB, at netip.AddrPort) *Space {
	t.Helper()
	s := NewSpace(newNetwork(t), at)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

// TestSocketsHoldNoBuffers: an adapter with many connections has hundreds of sockets that receive next to nothing. These sockets
// hold no buffers.
func TestSocketsHoldNoBuffers(t *testing.T) {
	s := newSpace(t, here(3))
	s.Serve(func(Request) {})
	heap := func() uint64 {
		runtime.GC()
		runtime.GC() // the second collection frees the contents of pools
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const claims, most = 64, 2048
	before := heap()
	for i := range claims {
		if s.Claim(7001+uint16(i)) != nil {
			t.Fatal("the port is taken")
		}
	}
	each := int64(math.MaxInt64)
	for range 20 { // a reader has a buffer only while it polls its socket
		for range claims {
			runtime.Gosched()
		}
		if each = min(each, (int64(heap())-int64(before))/claims); each <= most {
			return
		}
	}
	t.Errorf("a port takes %d bytes, want at most %d", each, most)
}

// Only one adapter can claim a port. The port is free again after its last use.
func TestClaims(t *testing.T) {
	a, b, elsewhere := newSpace(t, here(1)), newSpace(t, here(1)), newSpace(t, here(2))
	for _, c := range []struct {
		mine, other uint16
		free        bool
	}{{7001, 7001, false}, {7001, 7002, true}, {49152, 49152, false}, {49152, 49153, true}, {65535, 65535, false}, {65535, 65534, true}} {
		for range 2 {
			if a.Claim(c.mine) != nil {
				t.Fatalf("port %d is taken", c.mine)
			}
		}
		if got := b.Claim(c.other) == nil; got != c.free {
			t.Errorf("port %d beside %d: %t", c.other, c.mine, got)
		} else if got {
			b.Release(c.other)
		}
		if elsewhere.Claim(c.mine) != nil {
			t.Errorf("port %d is taken at another address", c.mine)
		}
		elsewhere.Release(c.mine)
		a.Release(c.mine)
		if b.Claim(c.mine) == nil {
			t.Errorf("port %d came free with the first of two releases", c.mine)
		}
		a.Release(c.mine)
		if b.Claim(c.mine) != nil {
			t.Errorf("port %d did not come free", c.mine)
		}
		b.Release(c.mine)
	}
}

var (
	from   = netip.MustParseAddrPort("192.0.2.7:50001")
	packet = []byte("a request, as it arrived")
)

// hand hands over a request, in two parts, to the adapter that has a port.
func hand(s *Space, port uint16, now time.Time) Handed {
	return s.Hand(port, from, 14791, [][]byte{packet[:5], packet[5:]}, now)
}

// A request arrives unchanged at the adapter that has its port. The sender is this process, which is trusted.
func TestRequestsAreHandedOver(t *testing.T) {
	a, b := newSpace(t, here(1)), newSpace(t, here(1))
	if got := hand(a, 7001, time.Now()); got != Nobody {
		t.Errorf("to a port without an owner: %d", got)
	}
	taken := make(chan Request, 2)
	if b.Claim(7001) != nil { // before the adapter serves its port
		t.Fatal("taken")
	}
	b.Serve(func(r Request) {
		r.Packet = append([]byte(nil), r.Packet...)
		taken <- r
	})
	if b.Claim(50001) != nil { // and afterwards
		t.Fatal("taken")
	}
	for _, port := range []uint16{7001, 50001} {
		if got := hand(a, port, time.Now()); got != Done {
			t.Fatalf("port %d: %d", port, got)
		}
		want := Request{From: from, To: netip.AddrPortFrom(here(1).Addr(), 14791), Packet: packet, Trusted: true}
		if got := <-taken; got.From != want.From || got.To != want.To || string(got.Packet) != string(want.Packet) || got.Trusted != want.Trusted {
			t.Errorf("port %d: %+v, want %+v", port, got, want)
		}
	}
	if got := hand(b, 7001, time.Now()); got != Nobody {
		t.Errorf("to itself: %d", got)
	}
}

// An adapter that does not read its requests delays no others: its requests are dropped, and refused if that lasts. Once it reads
// again, requests succeed.
func TestOwnerThatNeverReads(t *testing.T) {
	a, b := newSpace(t, here(1)), newSpace(t, here(1))
	if b.Claim(7001) != nil {
		t.Fatal("taken")
	}
	now := time.Now()
	n := 0
	for hand(a, 7001, now) == Done {
		if n++; n == mostHandedOver/2 {
			t.Skip("net.unix.max_dgram_qlen is above what is handed over in a second")
		}
	}
	if got := hand(a, 7001, now.Add(fullFor-1)); got != Dropped {
		t.Errorf("before %v: %d", fullFor, got)
	}
	if got := hand(a, 7001, now.Add(fullFor)); got != Refused {
		t.Errorf("after %v: %d", fullFor, got)
	}
	taken := make(chan struct{}, n)
	b.Serve(func(Request) { taken <- struct{}{} })
	for range n {
		<-taken
	}
	if got := hand(a, 7001, now.Add(2*fullFor)); got != Done {
		t.Errorf("once it reads: %d", got)
	}
}

// Processes that do not read block no requests for others, however many they are and however much waits for them.
func TestOwnersThatNeverReadStopNobody(t *testing.T) {
	const idle = 64
	a, b, stuck := newSpace(t, here(1)), newSpace(t, here(1)), newSpace(t, here(1))
	must(t, b.Claim(7001))
	taken := make(chan Request, 2)
	b.Serve(func(r Request) { taken <- r })
	for port := range uint16(idle) {
		must(t, stuck.Claim(1000+port))
	}
	now, waiting := time.Now(), 0
	for port := range uint16(idle) {
		for hand(a, 1000+port, now) == Done && waiting < mostHandedOver/2 {
			waiting++
		}
	}
	for _, at := range []time.Time{now, now.Add(fullFor)} {
		if got := hand(a, 7001, at); got != Done {
			t.Fatalf("beside %d unread requests, a process that reads gets none: %d", waiting, got)
		}
		<-taken
	}
}

// A source that sends a flood of requests for other adapters' ports is blocked for the rest of the second. Other sources are not.
func TestFloodOfRequestsForOthers(t *testing.T) {
	a := newSpace(t, here(1))
	now := time.Now()
	ask := func(source netip.AddrPort, at time.Time) Handed {
		return a.Hand(7001, source, 14791, [][]byte{packet}, at)
	}
	for range mostHandedOver {
		if got := ask(from, now); got != Nobody {
			t.Fatalf("one of those that are allowed: %d", got)
		}
	}
	if got := ask(from, now.Add(time.Second-1)); got != Dropped {
		t.Errorf("one more: %d", got)
	}
	served := 0
	for host := range byte(sourceBuckets) {
		if ask(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, host}), 1), now) == Nobody {
			served++
		}
	}
	if served < sourceBuckets/2 { // most sources have a bucket of their own
		t.Errorf("%d of %d other sources are served", served, sourceBuckets)
	}
	if got := ask(from, now.Add(time.Second)); got != Nobody {
		t.Errorf("a second later: %d", got)
	}
}

// A mark belongs to one adapter. It ends with its last use or its adapter, and reserves no port.
func TestMarks(t *testing.T) {
	a, b := newSpace(t, here(1)), newSpace(t, here(1))
	first, again := a.Mark(49152), a.Mark(49152)
	if !first || !again || b.Mark(49152) || !b.Mark(49152+Block) {
		t.Error("a mark is not one adapter's")
	}
	must(t, b.Claim(49152))
	a.Unmark(49152)
	if b.Mark(49152) {
		t.Error("a mark ended with the first of two uses")
	}
	a.Unmark(49152)
	if !b.Mark(49152) {
		t.Error("a mark did not end")
	}
	must(t, b.Close())
	if !a.Mark(49152) || b.Mark(50048) {
		t.Error("a closed adapter has marks")
	}
}

// A malformed request is dropped and counted, whatever its source, and the next one is read.
func TestMalformedRequests(t *testing.T) {
	s := newSpace(t, here(1))
	if s.Claim(7001) != nil {
		t.Fatal("taken")
	}
	taken := make(chan Request, 1)
	s.Serve(func(r Request) { taken <- r })
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	good := append(appendHeader(nil, from, 14791), packet...)
	changed := func(at int, v byte) []byte {
		b := append([]byte(nil), good...)
		b[at] = v
		return b
	}
	bad := [][]byte{
		{},
		good[:1], good[:requestHeader], changed(0, 2), changed(11, 0), // an IPv6 address
		append(appendHeader(nil, netip.MustParseAddrPort("0.0.0.0:1"), 1), 1), append(appendHeader(nil, netip.MustParseAddrPort("224.0.0.1:1"), 1), 1),
		append(append([]byte(nil), good...), make([]byte, maxMessage)...),
	}
	for _, b := range append(bad, good) {
		must(t, unix.Sendto(fd, b, 0, &unix.SockaddrUnix{Name: s.place.of(7001)}))
	}
	if r := <-taken; r.From != from {
		t.Errorf("taken: %+v", r)
	}
	if got := s.malformed.Load(); got != uint64(len(bad)) {
		t.Errorf("%d counted, want %d", got, len(bad))
	}
}

// forger is an environment variable for a process that hands over a request as another user.
const forger = "NDXDP_TEST_FORGER"

// A request that another user hands over is not trusted, because it may have any contents.
func TestRequestOfAnotherUser(t *testing.T) {
	if name := os.Getenv(forger); name != "" {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
		must(t, err)
		must(t, unix.Sendto(fd, append(appendHeader(nil, from, 14791), packet...), 0, &unix.SockaddrUnix{Name: name}))
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can be another user")
	}
	s := newSpace(t, here(1))
	if s.Claim(7001) != nil {
		t.Fatal("taken")
	}
	taken := make(chan Request, 1)
	s.Serve(func(r Request) { taken <- r })
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), forger+"="+s.place.of(7001))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if r := <-taken; r.Trusted || r.From != from {
		t.Errorf("%+v", r)
	}
}

// One adapter has the well-known port. When it ends, one of the waiting adapters gets the port, and the others keep waiting.
func TestHolding(t *testing.T) {
	const waiting = 5
	at := here(3)
	first := NewHolding(newNetwork(t), at)
	must(t, first.Try())
	ctx, end := context.WithCancel(t.Context())
	defer end()
	got := make(chan *Holding, waiting)
	lost := make(chan *Holding, waiting)
	for range waiting {
		h := NewHolding(newNetwork(t), at)
		if err := h.Try(); !errors.Is(err, ErrTaken) {
			t.Fatalf("a second one has it: %v", err)
		}
		go func() {
			if h.Await(ctx) {
				got <- h
			} else {
				lost <- h
			}
		}()
	}
	must(t, first.Close())
	for i := range waiting {
		h := <-got
		select {
		case <-got:
			t.Fatal("two have it")
		default:
		}
		if i == waiting-2 {
			end()
			<-lost
			must(t, h.Close())
			return
		}
		must(t, h.Close())
	}
}

// A query whether the well-known port is taken does not take it.
func TestHeld(t *testing.T) {
	at := here(6)
	held := func(at netip.AddrPort) bool {
		t.Helper()
		yes, err := Held(at)
		must(t, err)
		return yes
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	must(t, bind(fd, placeOf(at).holder())) // a name for another type of socket, which does not conflict
	h := NewHolding(newNetwork(t), at)
	if held(at) {
		t.Error("no owner was found")
	}
	must(t, h.Try())
	if !held(at) || !held(netip.AddrPortFrom(netip.AddrFrom16(at.Addr().As16()), at.Port())) {
		t.Error("it is not seen that the name is held")
	}
	if held(here(61)) || held(netip.AddrPortFrom(netip.MustParseAddr("127.255.255.254"), at.Port())) {
		t.Error("another name is held")
	}
	must(t, h.Close())
	if held(at) {
		t.Error("held after it was given up")
	}
}

// The kernel reports which process has the well-known port.
func TestHolderOf(t *testing.T) {
	at, network := here(8), newNetwork(t)
	if who, known := HolderOf(network, at); known {
		t.Errorf("no owner was found: %v", who)
	}
	h := NewHolding(network, at)
	must(t, h.Try())
	who, known := HolderOf(network, at)
	if want := (Holder{uint32(os.Geteuid()), os.Getpid()}); !known || who != want || !who.Trusted() {
		t.Errorf("%v, %t, want %v", who, known, want)
	}
	must(t, h.Close())
}

// A socket that has the name and does not listen yet is queried again.
func TestHolderThatDoesNotListen(t *testing.T) {
	at := here(4)
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	must(t, bind(fd, placeOf(at).holder()))
	h := NewHolding(newNetwork(t), at)
	ctx, end := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer end()
	if h.Await(ctx) {
		t.Fatal("two have the name")
	}
	must(t, unix.Close(fd))
	if !h.Await(t.Context()) {
		t.Fatal("the name is free, and cannot be taken")
	}
	must(t, h.Close())
}

// Names end with their adapter although a program started by it is still running: no other process has their descriptors.
func TestNamesAreNotInherited(t *testing.T) {
	at := here(5)
	a, h := newSpace(t, at), NewHolding(newNetwork(t), at)
	if a.Claim(7001) != nil {
		t.Fatal("taken")
	}
	must(t, h.Try())
	child := exec.CommandContext(t.Context(), "cat")
	in, err := child.StdinPipe()
	must(t, err)
	must(t, child.Start())
	defer func() {
		must(t, in.Close())
		must(t, child.Wait())
	}()
	a.Release(7001)
	must(t, h.Close())
	b, next := newSpace(t, at), NewHolding(newNetwork(t), at)
	if b.Claim(7001) != nil {
		t.Error("the port is taken")
	}
	if err := next.Try(); err != nil {
		t.Errorf("the well-known port: %v", err)
	}
	must(t, next.Close())
}

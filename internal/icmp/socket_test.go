package icmp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/testhelp"
	"github.com/ndxdp/ndxdp/wire"
)

var must = testhelp.Must

const port = 14791

// open opens a socket on host A of a pair.
func open(t *testing.T, pair *netlab.Pair, local netip.Addr) (s *Socket) {
	t.Helper()
	must(t, pair.A.Do(func() (err error) { s, err = Open(local, port); return err }))
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

// heard runs Each in the background.
type heard struct {
	errors    chan Error
	malformed chan struct{}
	ended     chan struct{}
}

func hear(s *Socket) *heard {
	h := &heard{make(chan Error, 4096), make(chan struct{}, 4096), make(chan struct{})}
	go func() {
		defer close(h.ended)
		s.Each(func(e Error) { h.errors <- e }, func() { h.malformed <- struct{}{} })
	}()
	return h
}

func next[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(10 * time.Second):
		t.Fatal("nothing: ", what)
	}
	return v
}

// The kernel of host B reports that a port is closed. Reports about another adapter's port are ignored.
func TestPortUnreachable(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{IPv6: true})
	for _, c := range []struct{ a, b netip.Prefix }{{pair.AddrA, pair.AddrB}, {pair.Addr6A, pair.Addr6B}} {
		s := open(t, pair, c.a.Addr())
		h := hear(s)
		var conn *net.UDPConn
		must(t, pair.A.Do(func() (err error) {
			conn, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(c.a.Addr(), 50000)))
			return err
		}))
		defer conn.Close()
		for _, to := range []uint16{port + 1, port} {
			_, err := conn.WriteToUDPAddrPort([]byte("hello"), netip.AddrPortFrom(c.b.Addr(), to))
			must(t, err)
		}
		e := next(t, "error", h.errors)
		want := Error{Kind: Port, From: wire.EndpointFrom(netip.AddrPortFrom(c.a.Addr(), 50000)), To: wire.EndpointFrom(netip.AddrPortFrom(c.b.Addr(), port))}
		if e.Sender != want.To.IP || e.Kind != want.Kind || e.From != want.From || e.To != want.To || string(e.Quoted) != "hello" {
			t.Errorf("%+v, want %+v", e, want)
		}
		must(t, s.Close())
		next(t, "end", h.ended)
		if len(h.errors)+len(h.malformed) > 0 {
			t.Error("there were further errors")
		}
	}
}

// forger sends ICMP messages from host B to host A.
func forger(t *testing.T, pair *netlab.Pair) func(message []byte) {
	t.Helper()
	fd := -1
	must(t, pair.B.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
		return err
	}))
	t.Cleanup(func() { must(t, unix.Close(fd)) })
	return func(message []byte) {
		must(t, unix.Sendto(fd, message, 0, &unix.SockaddrInet4{Addr: pair.AddrA.Addr().As4()}))
	}
}

// Every error of a flood is either processed or counted, and few are processed.
func TestFloodIsCounted(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	s := open(t, pair, pair.AddrA.Addr())
	send := forger(t, pair)
	from, to := netip.AddrPortFrom(pair.AddrA.Addr(), 50000), netip.AddrPortFrom(pair.AddrB.Addr(), port)
	flood := message(unreachable4, 1, quote(from, to, make([]byte, 500)))
	const n = 1000
	for range n {
		send(flood)
	}
	lost, err := s.Lost()
	must(t, err)
	h := hear(s)
	for looked := range n - int(lost) {
		next(t, fmt.Sprintf("error %d, with %d of %d lost", looked, lost, n), h.errors)
	}
	if lost < n-maxErrors {
		t.Errorf("%d of %d lost", lost, n)
	}
	must(t, s.Close())
	next(t, "end", h.ended)
	if len(h.errors) > 0 {
		t.Error("there were further errors")
	}
	if n, err := s.Lost(); err == nil {
		t.Errorf("%d lost of a closed socket", n)
	}
}

// The filter does not verify checksums, so an error with a wrong checksum is counted.
func TestMalformedIsCounted(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	h := hear(open(t, pair, pair.AddrA.Addr()))
	from, to := netip.AddrPortFrom(pair.AddrA.Addr(), 50000), netip.AddrPortFrom(pair.AddrB.Addr(), port)
	bad := message(unreachable4, 1, quote(from, to, nil))
	bad[4]++
	forger(t, pair)(bad)
	next(t, "malformed", h.malformed)
}

// Messages that the filter drops. Each differs in one field from a message that passes.
func TestFilterKeepsOthersAway(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	h := hear(open(t, pair, pair.AddrA.Addr()))
	send := forger(t, pair)
	from, to := netip.AddrPortFrom(pair.AddrA.Addr(), 50000), netip.AddrPortFrom(pair.AddrB.Addr(), port)
	own := netip.AddrPortFrom(to.Addr(), wire.SourcePort(1)) // of an adapter without the well-known port
	tcp := quote(from, to, nil)
	tcp[9] = unix.IPPROTO_TCP
	for _, other := range [][]byte{
		message(unreachable4, 1, quote(netip.AddrPortFrom(pair.AddrB.Addr(), 50000), to, nil)), // a packet of another host
		message(unreachable4, 1, quote(from, netip.AddrPortFrom(to.Addr(), port+1), nil)),
		message(unreachable4, 1, quote(from, own, nil)),
		message(unreachable4, 1, quote(from, own, []byte{(wire.Version + 1) << 4})),
		message(unreachable4, 1, quote(from, netip.AddrPortFrom(to.Addr(), wire.FirstSourcePort-1), []byte{wire.Version << 4})),
		message(unreachable4, 1, tcp),
		message(11, 0, quote(from, to, nil)), // time exceeded
		message(unreachable4, 1, quote(from, to, nil)[:ipv4Len+3]),
	} {
		send(other)
	}
	send(message(unreachable4, 1, quote(from, to, []byte("this one"))))
	if e := next(t, "error", h.errors); string(e.Quoted) != "this one" {
		t.Errorf("%+v passed", e)
	}
	send(message(unreachable4, 1, quote(from, own, []byte{wire.Version << 4, 77})))
	if e := next(t, "error about an adapter's own port", h.errors); len(e.Quoted) != 2 {
		t.Errorf("%+v passed", e)
	}
	if len(h.malformed)+len(h.errors) > 0 {
		t.Error("more than these passed")
	}
}

func TestCloseEndsAPause(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	s := open(t, pair, pair.AddrA.Addr())
	h := hear(s)
	send := forger(t, pair)
	from, to := netip.AddrPortFrom(pair.AddrA.Addr(), 50000), netip.AddrPortFrom(pair.AddrB.Addr(), port)
	for range maxErrors {
		send(message(unreachable4, 1, quote(from, to, nil)))
		next(t, "error", h.errors)
	}
	must(t, s.Close())
	next(t, "end", h.ended)
}

// Without CAP_NET_RAW the socket is refused. The test drops the capability in a thread of its own.
func TestNotAllowed(t *testing.T) {
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // not unlocked: the thread ends with the goroutine
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := unix.Capset(&header, &none[0]); err != nil {
			failed <- err
			return
		}
		_, err := Open(netip.MustParseAddr("127.0.0.1"), port)
		failed <- err
	}()
	if err := <-failed; !errors.Is(err, ErrNotAllowed) {
		t.Errorf("%v, want %v", err, ErrNotAllowed)
	}
}

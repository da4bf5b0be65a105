package udp

import (
	"bytes"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// nobody returns a closed port of an address.
func nobody(t *testing.T, n *Network, at netip.Addr) netip.AddrPort {
	t.Helper()
	s, err := n.Open(Config{Local: netip.AddrPortFrom(at, 0)})
	must(t, err)
	to := portOf(t, s, at)
	must(t, s.Close())
	return to
}

// An undeliverable datagram comes back as an error with its first bytes. The next send fails with that error, and is repeated, so
// that nothing is lost.
func TestErrorsAreTold(t *testing.T) {
	for _, at := range []netip.Addr{addrA, netip.IPv6Loopback()} {
		n := newNetwork(t)
		w, err := NewWatcher()
		must(t, err)
		defer func() { must(t, w.Close()) }()
		out, err := n.Open(Config{Local: netip.AddrPortFrom(at, 0)}) // with the smallest buffers
		must(t, err)
		defer func() { must(t, out.Close()) }()
		in, to := open(t, n, at)
		s, r := NewSender(4, 1), newReceiver(t, 8, 8)
		closed := nobody(t, n, at)
		var buf [8]byte

		send(s, out, closed, []byte("unheard"), 10)
		if refused := send(s, out, to, []byte("one"), 10); refused != 0 || r.count(in) != 1 {
			t.Errorf("%v: a socket that does not tell: %d refused", at, refused)
		}
		for range 2 { // on and off again
			must(t, out.TellErrors(w, 77))
			send(s, out, closed, append([]byte("the beginning of it"), make([]byte, 1200)...), 4096) // a datagram as long as a REQ
			if ports, err := w.Wait(); err != nil || len(ports) != 1 || ports[0] != 77 {
				t.Errorf("%v: the watcher saw %v, %v", at, ports, err)
			}
			if refused := send(s, out, to, []byte("two"), 10); refused != 0 || r.count(in) != 1 {
				t.Errorf("%v: %d datagrams refused, or lost, after an error", at, refused)
			}
			e, ok := out.ReadError(buf[:])
			want := Sent{Type: 3, Code: 3, IP: at.As16(), Port: closed.Port(), Quoted: []byte("the begi")}
			if at.Is6() {
				want.Type, want.Code = 1, 4
			}
			if !ok || e.Type != want.Type || e.Code != want.Code || e.IP != want.IP || e.Port != want.Port || !bytes.Equal(e.Quoted, want.Quoted) {
				t.Errorf("%v: %+v, %t, want %+v", at, e, ok, want)
			}
			if e, ok := out.ReadError(buf[:]); ok {
				t.Errorf("%v: reported twice: %+v", at, e)
			}
			send(s, out, closed, []byte("told of, and left alone"), 100)
			must(t, out.TellErrors(nil, 77))
			if refused := send(s, out, to, []byte("three"), 10); refused != 0 || r.count(in) != 1 {
				t.Errorf("%v: %d datagrams refused by what was left", at, refused)
			}
			send(s, out, closed, []byte("unheard"), 10)
			if refused := send(s, out, to, []byte("three"), 10); refused != 0 || r.count(in) != 1 {
				t.Errorf("%v: a socket that does not tell any more: %d refused", at, refused)
			}
		}
	}
}

// The kernel notes an error although the error queue has no room for it. A watcher sees the socket once, and again only with the
// next error.
func TestErrorWithoutRoom(t *testing.T) {
	n := newNetwork(t)
	w, err := NewWatcher()
	must(t, err)
	defer func() { must(t, w.Close()) }()
	out, err := n.Open(Config{Local: netip.AddrPortFrom(netip.IPv6Loopback(), 0)})
	must(t, err)
	defer func() { must(t, out.Close()) }()
	must(t, out.TellErrors(w, 77))
	must(t, unix.SetsockoptInt(out.FD(), unix.SOL_SOCKET, unix.SO_RCVBUF, 0)) // the smallest buffer
	send(NewSender(1, 1), out, nobody(t, n, netip.IPv6Loopback()), make([]byte, 1200), 4096)
	if ports, err := w.Wait(); err != nil || len(ports) != 1 {
		t.Fatalf("the watcher saw %v, %v", ports, err)
	}
	if e, ok := out.ReadError(make([]byte, 8)); ok {
		t.Fatalf("there was room for %+v", e)
	}
	if n, err := unix.EpollWait(w.epoll, w.events[:], 0); n != 0 || err != nil {
		t.Errorf("the watcher would be woken again for nothing: %d, %v", n, err)
	}
}

// If this machine refuses a datagram, only the send fails. The repetition of the send is refused as well, and no ICMP error is
// reported.
func TestOwnErrorsAreNoICMP(t *testing.T) {
	n := newNetwork(t)
	out, _ := open(t, n, addrA)
	in, to := open(t, n, addrB)
	w, err := NewWatcher()
	must(t, err)
	must(t, out.TellErrors(w, 77))
	a := AddrOf(to, 0)
	s := NewSender(3, 1)
	for _, size := range []int{1, 70000, 2} {
		s.Begin(&a, false, size, false)
		s.Add(make([]byte, size))
	}
	if lost, tooLong := s.Send(out); lost != 1 || tooLong != 1 {
		t.Errorf("%d datagrams were refused, %d too long, want 1", lost, tooLong)
	}
	if newReceiver(t, 4, 8).count(in) != 2 {
		t.Error("the others were lost")
	}
	var buf [8]byte
	if e, ok := out.ReadError(buf[:]); ok {
		t.Errorf("told %+v", e)
	}
	must(t, w.Close())
}

func TestWatcherEnds(t *testing.T) {
	w, err := NewWatcher()
	must(t, err)
	ended := make(chan error, 1)
	go func() { _, err := w.Wait(); ended <- err }()
	must(t, w.Close())
	if err := <-ended; err == nil {
		t.Error("it waits for nothing, and succeeds")
	}
}

package bpf

import (
	"net/netip"
	"reflect"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/rxring"
	"github.com/ndxdp/ndxdp/internal/testhelp"
)

// socketAt opens a UDP socket in a namespace, calls set, and binds the socket. The caller closes it. Port 0 is any port. It returns
// the bound address in at.
func socketAt(t *testing.T, ns *netlab.Namespace, want netip.AddrPort, set func(fd int) error) (fd int, at netip.AddrPort) {
	t.Helper()
	must := func(err error) { t.Helper(); testhelp.Must(t, err) }
	must(ns.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		return err
	}))
	if set != nil {
		must(set(fd))
	}
	must(unix.Bind(fd, &unix.SockaddrInet4{Addr: want.Addr().As4(), Port: int(want.Port())}))
	sa, err := unix.Getsockname(fd)
	must(err)
	return fd, netip.AddrPortFrom(want.Addr(), uint16(sa.(*unix.SockaddrInet4).Port))
}

// option sets an integer option of a socket.
func option(name, value int) func(fd int) error {
	return func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, name, value) }
}

// disconnect is connect(2) to AF_UNSPEC, which releases a port that the kernel chose.
func disconnect(fd int) error {
	nowhere := new(unix.RawSockaddr)
	defer runtime.KeepAlive(nowhere)
	if _, _, errno := unix.RawSyscall(unix.SYS_CONNECT, uintptr(fd), reflect.ValueOf(nowhere).Pointer(), unix.SizeofSockaddrInet4); errno != 0 {
		return errno
	}
	return nil
}

// A ring for another process gets the packets that the kernel would give to that process's socket. Once the kernel gives them to
// another socket, the ring gets nothing more: no packet, no wake-up, no count.
func TestRingOfASocketEndsWithItsPort(t *testing.T) {
	p := newRingPair(t, netlab.PairConfig{})
	onOneProcessor(t)
	onInterface := func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX, p.IfindexA) }
	for _, c := range []struct {
		name   string
		port   uint16
		giveUp func(fd int) error
		next   func(fd int) error // what another program does before it binds its socket to the same port
	}{
		{"disconnected", 0, disconnect, nil},
		{"closed", testPort, unix.Close, nil},
		{"shared by address", testPort, option(unix.SO_REUSEADDR, 1), option(unix.SO_REUSEADDR, 1)},
		{"on another interface", testPort, option(unix.SO_BINDTOIFINDEX, 1), onInterface},
	} {
		t.Run(c.name, func(t *testing.T) {
			owner, at := socketAt(t, p.A, netip.AddrPortFrom(p.AddrA.Addr(), c.port), nil)
			if c.name != "closed" {
				defer unix.Close(owner)
			}
			rx := ringOf(t, p, at, owner)
			sender := connect(t, p.B, at)
			_, err := sender.Write([]byte("for the owner"))
			testhelp.Must(t, err)
			wantInRing(t, rx, "for the owner")
			rx.Sleeps(rxring.AtSocket) // sends the next packet to the socket
			_, err = sender.Write([]byte("at the socket"))
			testhelp.Must(t, err)
			testhelp.Eventually(t, "a packet that passes", func() bool { return rx.Passed() == 1 })

			testhelp.Must(t, c.giveUp(owner))
			victim, _ := socketAt(t, p.A, at, c.next)
			defer unix.Close(victim)
			for _, mode := range []rxring.Sleep{rxring.Awake, rxring.AtSocket} {
				rx.Sleeps(mode)
				_, err = sender.Write([]byte("a secret"))
				testhelp.Must(t, err)
				b := make([]byte, 100)
				if n, err := unix.Read(victim, b); err != nil || string(b[:n]) != "a secret" {
					t.Fatalf("the socket that has the port got %q, %v", b[:max(n, 0)], err)
				}
			}
			rx.Edge()
			var got rxring.Packet
			if rx.Next(&got) || rx.Passed() != 1 {
				t.Errorf("the ring got %q, and %d packets are counted as passed", got.Data, rx.Passed()-1)
			}
		})
	}
}

// ringOf attaches a ring for a socket until the test ends.
func ringOf(t *testing.T, p *netlab.Pair, at netip.AddrPort, socket int) *rxring.Ring {
	t.Helper()
	var ring *Ring
	testhelp.Must(t, p.A.Do(func() (err error) {
		ring, err = AttachRingOf(p.IfindexA, at, socket)
		return err
	}))
	t.Cleanup(func() { testhelp.Must(t, ring.Close()) })
	rx := openRing(t, ring)
	rx.Sleeps(rxring.Awake)
	return rx
}

// wantInRing waits for a packet in the ring.
func wantInRing(t *testing.T, rx *rxring.Ring, want string) {
	t.Helper()
	var got rxring.Packet
	testhelp.Eventually(t, "a packet in the ring", func() bool {
		rx.Edge()
		return rx.Next(&got)
	})
	if string(got.Data) != want {
		t.Errorf("the ring got %q, want %q", got.Data, want)
	}
	rx.Release()
}

// A ring for another process works with every kind of address.
func TestRingOfASocket(t *testing.T) {
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			p := newRingPair(t, f.cfg)
			at := netip.AddrPortFrom(f.at(p), testPort)
			control(t, listenAt(t, p.A, at), func(fd int) error {
				rx := ringOf(t, p, at, fd)
				sender := connect(t, p.B, at)
				_, err := sender.Write([]byte("a packet"))
				wantInRing(t, rx, "a packet")
				return err
			})
		})
	}
}

package bpf

import (
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/testhelp"
)

// strays sends packets from B that must not go into the ring of a receiver.
type strays struct {
	p      *netlab.Pair
	r      *receiver
	sender *net.UDPConn // for packets that go into the ring
	source netip.Addr   // address of B
}

// datagram sends one from a new socket. prepare, if not nil, is called with the socket's descriptor.
func (s strays) datagram(t *testing.T, to netip.AddrPort, payload string, prepare func(fd int) error) {
	t.Helper()
	sender := connect(t, s.p.B, to)
	if prepare != nil {
		control(t, sender, prepare)
	}
	_, err := sender.Write([]byte(payload))
	testhelp.Must(t, err)
}

// arriving returns a frame to the ring's socket.
func (s strays) arriving(from netip.Addr) []byte {
	return with(udpFrame(from, s.r.at.Addr(), s.r.at.Port()), 0, s.p.MACA...)
}

// frame sends a raw frame.
func (s strays) frame(t *testing.T, frame []byte) {
	t.Helper()
	testhelp.Must(t, s.p.B.Do(func() error {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: s.p.IfindexB})
	}))
}

// left sends a packet, and checks that it does not go into the ring: the next packet in the ring is a later one. sock, if not nil,
// must receive the payload.
func (s strays) left(t *testing.T, what string, sock *net.UDPConn, payload string, send func()) {
	t.Helper()
	before := s.r.counts(t)
	send()
	if sock != nil {
		testhelp.Eventually(t, what+": a datagram at its socket", func() bool {
			got, _, ok := readNow(t, sock)
			if ok && got != payload {
				t.Errorf("%s: the socket got %q", what, got)
			}
			return ok
		})
	}
	_, err := s.sender.Write([]byte("behind"))
	testhelp.Must(t, err)
	if got := s.r.next(t); !got.inRing || got.payload != "behind" {
		t.Errorf("%s: %q, in the ring %t", what, got.payload, got.inRing)
	}
	if got, _, ok := readNow(t, s.r.sock); ok {
		t.Errorf("%s: the ring's socket got %q", what, got)
	}
	if got, want := s.r.counts(t).since(before), (counts{taken: 1}); got != want {
		t.Errorf("%s: %+v with the one behind it, want %+v", what, got, want)
	}
}

// otherAddress gives A another address, with a socket.
func (s strays) otherAddress(t *testing.T) *net.UDPConn {
	t.Helper()
	second := s.source.Next()
	bits := 24
	if second.Is6() {
		bits = 64
	}
	testhelp.Must(t, s.p.A.Do(func() error {
		nic, err := netlink.LinkByName(s.p.NameA)
		if err != nil {
			return err
		}
		return netlink.AddrAdd(nic, &netlink.Addr{
			IPNet: &net.IPNet{IP: second.AsSlice(), Mask: net.CIDRMask(bits, second.BitLen())}, Flags: unix.IFA_F_NODAD,
		})
	}))
	return listenAt(t, s.p.A, netip.AddrPortFrom(second, s.r.at.Port()))
}

// A packet that is not clearly for the ring's socket goes to the kernel as without a ring.
func TestRingLeavesToTheKernel(t *testing.T) {
	for _, six := range []bool{false, true} {
		p := newRingPair(t, netlab.PairConfig{IPv6: true})
		s := strays{p: p, source: p.AddrB.Addr()}
		at, name := p.AddrA.Addr(), "IPv4"
		options := func(fd int) error { // no operation, three times, and the end of the options (RFC 791 3.1)
			return unix.SetsockoptString(fd, unix.IPPROTO_IP, unix.IP_OPTIONS, "\x01\x01\x01\x00")
		}
		if six {
			at, name, s.source = p.Addr6A.Addr(), "IPv6", p.Addr6B.Addr()
			options = func(fd int) error { // six bytes of padding in destination options (RFC 8200 4.2)
				return unix.SetsockoptString(fd, unix.IPPROTO_IPV6, unix.IPV6_DSTOPTS, "\x00\x00\x01\x04\x00\x00\x00\x00")
			}
		}
		t.Run(name, func(t *testing.T) {
			onOneProcessor(t)
			s.r = receiveAt(t, p, netip.AddrPortFrom(at, testPort))
			s.sender = connect(t, p.B, s.r.at)
			for _, other := range []*net.UDPConn{listenAt(t, p.A, netip.AddrPortFrom(at, 53)), s.otherAddress(t)} {
				to := other.LocalAddr().(*net.UDPAddr).AddrPort()
				s.left(t, "for "+to.String(), other, "hello", func() { s.datagram(t, to, "hello", nil) })
			}
			const inTwo = longArrival - 100 // fragmented at this MTU, and short enough for a record
			s.left(t, "fragments", s.r.sock, pattern(1, inTwo), func() { s.datagram(t, s.r.at, pattern(1, inTwo), nil) })
			s.left(t, "with options", s.r.sock, "hello", func() { s.datagram(t, s.r.at, "hello", options) })
			good := s.arriving(s.source)
			for what, frame := range map[string][]byte{
				"from the ring's own address": s.arriving(at),
				"of a VLAN":                   inVLAN(good, 0x8100, 5),
				"of the last VLAN":            inVLAN(good, 0x8100, 0xfff),
				"of a VLAN of a provider":     inVLAN(good, 0x88a8, 5),
				"of a VLAN behind a tag":      tagged(inVLAN(good, 0x8100, 5), 0x8100),
				"to another link address":     with(good, 5, p.MACA[5]^1),
				"without an IP header":        good[:14],
				"cut within its IP header":    good[:14+19],
				"cut before its ports":        good[:len(good)-16],
			} {
				s.left(t, what, nil, "", func() { s.frame(t, frame) })
			}
			// These packets go into the ring: the kernel removes a priority tag.
			for n, frame := range [][]byte{good, tagged(good, 0x8100)} {
				s.frame(t, frame)
				if got, want := s.r.next(t), (arrival{"ndpacket", netip.AddrPortFrom(s.source, 50000), false, true}); got != want {
					t.Errorf("frame %d: %+v, want %+v", n, got, want)
				}
			}
		})
	}
}

package bpf

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/rxring"
	"github.com/ndxdp/ndxdp/internal/testhelp"
)

// Limits of ring.h.
const (
	shortArrival = 232
	longArrival  = 2024
)

// requireRing skips a test on a machine without support for rings, and reports what is missing.
func requireRing(t testing.TB) {
	t.Helper()
	netlabtest.NeedRoot(t)
	if err := RingSupported(); err != nil {
		t.Skip(err)
	}
}

// receiver is a process on side A of a pair: a UDP socket, and a ring that gets the socket's small packets.
type receiver struct {
	ring *Ring
	rx   *rxring.Ring
	mac  [6]byte // sender of the last packet in the ring
	sock *net.UDPConn
	at   netip.AddrPort
}

// newRingPair makes two hosts with static neighbour entries, so that packets stay in order.
func newRingPair(t *testing.T, cfg netlab.PairConfig) *netlab.Pair {
	t.Helper()
	requireRing(t)
	cfg.StaticNeighbours = true
	return netlabtest.Pair(t, cfg)
}

// listenAt opens a UDP socket in a namespace until the test ends.
func listenAt(t *testing.T, ns *netlab.Namespace, at netip.AddrPort) (sock *net.UDPConn) {
	t.Helper()
	testhelp.Must(t, ns.Do(func() (err error) {
		sock, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
		return err
	}))
	t.Cleanup(func() { _ = sock.Close() })
	return sock
}

// receiveAt makes a receiver until the test ends.
func receiveAt(t *testing.T, p *netlab.Pair, at netip.AddrPort) *receiver {
	t.Helper()
	r := &receiver{sock: listenAt(t, p.A, at), at: at}
	testhelp.Must(t, p.A.Do(func() (err error) {
		r.ring, err = AttachRing(p.IfindexA, at)
		return err
	}))
	t.Cleanup(func() { testhelp.Must(t, r.ring.Close()) })
	r.rx = openRing(t, r.ring)
	return r
}

// openRing maps a ring until the test ends.
func openRing(t *testing.T, ring *Ring) *rxring.Ring {
	t.Helper()
	packets, page := ring.FDs()
	rx, err := rxring.Open(packets, page, RingBytes)
	testhelp.Must(t, err)
	t.Cleanup(func() { testhelp.Must(t, rx.Close()) })
	return rx
}

// connect opens a socket that sends to an endpoint, until the test ends.
func connect(t *testing.T, ns *netlab.Namespace, to netip.AddrPort) (sock *net.UDPConn) {
	t.Helper()
	testhelp.Must(t, ns.Do(func() (err error) {
		sock, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
		return err
	}))
	t.Cleanup(func() { _ = sock.Close() })
	return sock
}

// onOneProcessor binds the test's goroutine to one processor until the test ends. A veth link keeps the order of the packets of
// one processor.
func onOneProcessor(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	var before unix.CPUSet
	testhelp.Must(t, unix.SchedGetaffinity(0, &before))
	testhelp.Must(t, moveTo(0))
	t.Cleanup(func() {
		testhelp.Must(t, unix.SchedSetaffinity(0, &before))
		runtime.UnlockOSThread()
	})
}

// moveTo binds the calling thread to one of the processors that it may use: the nth, or the last one.
func moveTo(nth int) error {
	var may, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		return err
	}
	for cpu, left := 0, min(nth, may.Count()-1); one.Count() == 0; cpu++ {
		if may.IsSet(cpu) {
			if left == 0 {
				one.Set(cpu)
			}
			left--
		}
	}
	return unix.SchedSetaffinity(0, &one)
}

// control runs fn on a socket's descriptor.
func control(t *testing.T, sock *net.UDPConn, fn func(fd int) error) {
	t.Helper()
	raw, err := sock.SyscallConn()
	testhelp.Must(t, err)
	testhelp.Must(t, errors.Join(raw.Control(func(fd uintptr) { err = fn(int(fd)) }), err))
}

// arrival is a datagram, and where it arrived.
type arrival struct {
	payload string
	from    netip.AddrPort
	marked  bool
	inRing  bool
}

// look receives a datagram from the ring or from the socket, if there is one.
func (r *receiver) look(t *testing.T) (a arrival, ok bool) {
	t.Helper()
	var p rxring.Packet
	r.rx.Edge()
	r.rx.Behind(r.rx.Passed())
	if r.rx.Next(&p) {
		a = arrival{string(p.Data), netip.AddrPortFrom(netip.AddrFrom16(p.IP).Unmap(), p.Port), p.Marked, true}
		r.mac = p.MAC
		r.rx.Release()
		return a, true
	}
	payload, from, ok := readNow(t, r.sock)
	return arrival{payload: payload, from: from}, ok
}

// readNow reads a datagram from a socket without waiting.
func readNow(t *testing.T, sock *net.UDPConn) (payload string, from netip.AddrPort, ok bool) {
	t.Helper()
	b := make([]byte, 1<<16)
	control(t, sock, func(fd int) error {
		n, sender, err := unix.Recvfrom(fd, b, unix.MSG_DONTWAIT)
		if errors.Is(err, unix.EAGAIN) {
			return nil
		}
		switch sender := sender.(type) {
		case *unix.SockaddrInet4:
			from = netip.AddrPortFrom(netip.AddrFrom4(sender.Addr), uint16(sender.Port))
		case *unix.SockaddrInet6:
			from = netip.AddrPortFrom(netip.AddrFrom16(sender.Addr).Unmap(), uint16(sender.Port))
		}
		payload, ok = string(b[:max(n, 0)]), err == nil
		return err
	})
	return payload, from, ok
}

// next waits for a datagram.
func (r *receiver) next(t *testing.T) (a arrival) {
	t.Helper()
	testhelp.Eventually(t, "a datagram at "+r.at.String(), func() (ok bool) {
		a, ok = r.look(t)
		return ok
	})
	return a
}

// counts are the numbers of datagrams in the ring and at the socket.
type counts struct{ taken, passed uint64 }

func (r *receiver) counts(t *testing.T) (c counts) {
	t.Helper()
	var err error
	c.taken, err = r.ring.Taken()
	testhelp.Must(t, err)
	c.passed = r.rx.Passed()
	return c
}

// since returns the difference to earlier counts.
func (c counts) since(before counts) counts {
	return counts{c.taken - before.taken, c.passed - before.passed}
}

// families has the pairs and the endpoints to which all kinds of packets are sent.
var families = []struct {
	name string
	cfg  netlab.PairConfig
	at   func(*netlab.Pair) netip.Addr
}{
	{"IPv4", netlab.PairConfig{MTU: 9000}, func(p *netlab.Pair) netip.Addr { return p.AddrA.Addr() }},
	{"IPv6", netlab.PairConfig{MTU: 9000, IPv6: true}, func(p *netlab.Pair) netip.Addr { return p.Addr6A.Addr() }},
	{
		"link-local",
		netlab.PairConfig{MTU: 9000, Addr6A: netip.MustParsePrefix("fe80::a/64"), Addr6B: netip.MustParsePrefix("fe80::b/64")},
		func(p *netlab.Pair) netip.Addr { return p.Addr6A.Addr().WithZone(p.NameA) },
	},
}

// inEachFamily runs a test with a receiver for each kind of address, and a socket that sends to it.
func inEachFamily(t *testing.T, test func(t *testing.T, p *netlab.Pair, r *receiver, sender *net.UDPConn)) {
	t.Helper()
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			p := newRingPair(t, f.cfg)
			onOneProcessor(t)
			r := receiveAt(t, p, netip.AddrPortFrom(f.at(p), testPort))
			test(t, p, r, connect(t, p.B, r.at)) // both ends have the same name
		})
	}
}

// pattern is a payload that differs for each number and length, if it is not too short.
func pattern(n, length int) string {
	b := binary.BigEndian.AppendUint32(nil, uint32(n))
	for len(b) < length {
		b = append(b, byte(n+len(b)+len(b)/251))
	}
	return string(b[:length])
}

// Packets up to a size go into the ring, complete and with their source. Longer and empty ones go to the socket.
func TestRingBySize(t *testing.T) {
	inEachFamily(t, func(t *testing.T, _ *netlab.Pair, r *receiver, sender *net.UDPConn) {
		from := sender.LocalAddr().(*net.UDPAddr).AddrPort()
		from = netip.AddrPortFrom(from.Addr().WithZone(""), from.Port())
		for n, c := range []struct {
			length int
			inRing bool
		}{
			{8, true},
			{1, true},
			{0, false},
			{shortArrival, true},
			{shortArrival + 1, true},
			{longArrival, true},
			{longArrival + 1, false},
			{8000, false},
			{16, true},
		} {
			before := r.counts(t)
			payload := pattern(n, c.length)
			_, err := sender.Write([]byte(payload))
			testhelp.Must(t, err)
			if got, want := r.next(t), (arrival{payload, from, false, c.inRing}); got != want {
				t.Errorf("%d bytes from %s: in the ring %t, %d bytes from %s, right %t", c.length, from, got.inRing, len(got.payload), got.from, got.payload == payload)
			}
			want := counts{passed: 1}
			if c.inRing {
				want = counts{taken: 1}
			}
			if got := r.counts(t).since(before); got != want {
				t.Errorf("%d bytes are counted as %+v, want %+v", c.length, got, want)
			}
		}
	})
}

// Only CE is a congestion mark, whatever the other bits of the traffic class are (RFC 3168 5).
func TestRingMarks(t *testing.T) {
	inEachFamily(t, func(t *testing.T, _ *netlab.Pair, r *receiver, sender *net.UDPConn) {
		for class, marked := range map[int]bool{0: false, 1: false, 2: false, 3: true, 0xfc: false, 0xff: true, 0xb8: false, 0x13: true, 0x30: false} {
			control(t, sender, func(fd int) error {
				if r.at.Addr().Is4() {
					return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TOS, class)
				}
				return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_TCLASS, class)
			})
			_, err := sender.Write([]byte("marked?"))
			testhelp.Must(t, err)
			if got := r.next(t); !got.inRing || got.marked != marked {
				t.Errorf("class %#x: in the ring %t, marked %t, want %t", class, got.inRing, got.marked, marked)
			}
		}
	})
}

// A GSO batch goes to the socket as a whole.
func TestRingLeavesRuns(t *testing.T) {
	const segment = 100
	p := newRingPair(t, netlab.PairConfig{Offloads: true, IPv6: true})
	for _, a := range []netip.Addr{p.AddrA.Addr(), p.Addr6A.Addr()} {
		r := receiveAt(t, p, netip.AddrPortFrom(a, testPort))
		control(t, r.sock, func(fd int) error { return unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_GRO, 1) })
		sender := connect(t, p.B, r.at)
		control(t, sender, func(fd int) error { return unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT, segment) })
		payload := pattern(1, 10*segment)
		_, err := sender.Write([]byte(payload))
		testhelp.Must(t, err)
		if got := r.next(t); got.inRing || got.payload != payload {
			t.Errorf("%s: a run of %d bytes arrived as %d bytes, in the ring %t", a, len(payload), len(got.payload), got.inRing)
		}
		// A single datagram is not a batch.
		_, err = sender.Write([]byte(payload[:segment]))
		testhelp.Must(t, err)
		if got := r.next(t); !got.inRing || got.payload != payload[:segment] {
			t.Errorf("%s: %d bytes arrived as %d, in the ring %t", a, segment, len(got.payload), got.inRing)
		}
		if got, want := r.counts(t), (counts{1, 1}); got != want {
			t.Errorf("%s: %+v, want %+v", a, got, want)
		}
	}
}

// While no process polls the ring, packets go to the socket.
func TestRingAsleep(t *testing.T) {
	p := newRingPair(t, netlab.PairConfig{})
	r := receiveAt(t, p, netip.AddrPortFrom(p.AddrA.Addr(), testPort))
	sender := connect(t, p.B, r.at)
	want := counts{}
	for n, asleep := range []bool{false, true, true, false, false, true, false} {
		sleep := rxring.Awake
		if asleep {
			sleep = rxring.AtSocket
		}
		r.rx.Sleeps(sleep)
		payload := pattern(n, 64)
		_, err := sender.Write([]byte(payload))
		testhelp.Must(t, err)
		if got := r.next(t); got.inRing == asleep || got.payload != payload {
			t.Errorf("asleep %t: %q in the ring %t, want %q", asleep, got.payload, got.inRing, payload)
		}
		if asleep {
			want.passed++
		} else {
			want.taken++
		}
		if got := r.counts(t); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

// Packets that arrive while the ring is full go to the socket, until the records that were read are released.
func TestRingFull(t *testing.T) {
	p := newRingPair(t, netlab.PairConfig{MTU: 9000})
	for port, length := range map[uint16]int{testPort: longArrival, testPort + 1: shortArrival} {
		r := receiveAt(t, p, netip.AddrPortFrom(p.AddrA.Addr(), port))
		sender := connect(t, p.B, r.at)
		sent := 0
		send := func() {
			_, err := sender.Write([]byte(pattern(sent, length)))
			testhelp.Must(t, err)
			sent++
			testhelp.Eventually(t, "the end of the packet's way", func() bool {
				c := r.counts(t)
				return c.taken+c.passed == uint64(sent)
			})
		}
		for r.rx.Passed() == 0 && sent < RingBytes/length {
			send()
		}
		for range 10 {
			send()
		}
		full := r.counts(t)
		if full.passed != 11 {
			t.Errorf("%d bytes: %+v with a ring of %d bytes, want 11 passed", length, full, RingBytes)
		}
		// Reading alone does not release records.
		var packet rxring.Packet
		left := map[string]bool{}
		for n := range sent {
			left[pattern(n, length)] = true
		}
		r.rx.Edge()
		for n := range full.taken {
			r.rx.Behind(r.rx.Passed())
			if !r.rx.Next(&packet) || string(packet.Data) != pattern(int(n), length) {
				t.Fatalf("packet %d of the ring is not the one that was sent", n)
			}
			delete(left, string(packet.Data))
		}
		send()
		left[pattern(sent-1, length)] = true
		if r.rx.Passed() != 12 {
			t.Errorf("%d bytes: %d passed, want 12: nothing was released", length, r.rx.Passed())
		}
		testhelp.Eventually(t, "what found the ring full", func() bool {
			if payload, _, ok := readNow(t, r.sock); ok {
				delete(left, payload)
			}
			return len(left) == 0
		})
		r.rx.Release()
		send()
		if got := r.next(t); !got.inRing || got.payload != pattern(sent-1, length) {
			t.Errorf("%d bytes: in the ring %t after its records were released", length, got.inRing)
		}
	}
}

// Two rings on one interface get only the packets of their own sockets.
func TestRingsBesideEachOther(t *testing.T) {
	p := newRingPair(t, netlab.PairConfig{})
	var rings []*receiver
	var senders []*net.UDPConn
	for port := range uint16(2) {
		rings = append(rings, receiveAt(t, p, netip.AddrPortFrom(p.AddrA.Addr(), testPort+port)))
		senders = append(senders, connect(t, p.B, rings[port].at))
	}
	exchange := func(n, to int, inRing bool) {
		t.Helper()
		payload := pattern(n, 64)
		_, err := senders[to].Write([]byte(payload))
		testhelp.Must(t, err)
		if got := rings[to].next(t); got.payload != payload || got.inRing != inRing {
			t.Errorf("datagram %d: %q, in the ring %t, want %t", n, got.payload, got.inRing, inRing)
		}
		if got, ok := rings[1-to].look(t); ok {
			t.Errorf("datagram %d for %s came to %s: %+v", n, rings[to].at, rings[1-to].at, got)
		}
	}
	for n := range 20 {
		exchange(n, n%3%2, true)
	}
	// A closed ring gets no more packets, although its memory is still mapped, and the other ring works on.
	testhelp.Must(t, rings[0].ring.Close())
	for n := range 20 {
		exchange(n, n%3%2, n%3%2 == 1)
	}
	if rings[0].rx.Passed() != 0 || rings[0].rx.Waiting() {
		t.Error("a closed program still runs")
	}
}

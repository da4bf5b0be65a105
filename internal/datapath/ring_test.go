package datapath

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/broker"
	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/testhelp"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// listenIn opens a UDP socket in a namespace until the test ends.
func listenIn(t *testing.T, ns *netlab.Namespace, at netip.AddrPort) *net.UDPConn {
	t.Helper()
	var c *net.UDPConn
	must(t, ns.Do(func() (err error) {
		c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
		return err
	}))
	t.Cleanup(func() { c.Close() })
	return c
}

// sending sends from the pair's side B to a device on side A.
type sending struct {
	t    *testing.T
	conn *net.UDPConn
	to   netip.AddrPort
}

func newSender(t *testing.T, pair *netlab.Pair, d Device) *sending {
	return &sending{t, listenIn(t, pair.B, netip.AddrPortFrom(pair.AddrB.Addr(), 0)), netip.AddrPortFrom(pair.AddrA.Addr(), d.ReceivePort())}
}

// send sends n random bytes, and returns them.
func (s *sending) send(n int) []byte {
	s.t.Helper()
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(n + i)
	}
	_, err := s.conn.WriteToUDPAddrPort(b, s.to)
	must(s.t, err)
	return b
}

// ringed runs the test with an adapter of each datapath that has a ring.
func ringed(t *testing.T, cfg netlab.PairConfig, test func(t *testing.T, pair *netlab.Pair, d Device, p Port)) {
	for _, datapath := range []plan.Datapath{plan.Ring, plan.TCX} {
		t.Run(datapath.String(), func(t *testing.T) {
			pair := netlabtest.Pair(t, cfg)
			d := opened(t, pair, plan.Config{Datapath: datapath})
			test(t, pair, d, d.Ports()[0])
		})
	}
}

// ringOf returns the ring of a port.
func ringOf(p Port) *ringReader {
	if q, ok := p.(*queue); ok {
		return q.ring
	}
	return p.(*socketDevice).ring
}

// recycle releases a packet.
func recycle(d Port, p *provider.RxPacket) {
	for i := range p.N {
		d.Recycle([]uint64{p.Frags[i].ID})
	}
}

// receive waits until the port has packets, and calls see for each.
func receive(t *testing.T, d Port, see func(*provider.RxPacket)) {
	t.Helper()
	var rx [64]provider.RxPacket // AF_XDP needs room for a packet of many frames
	for end := time.Now().Add(long); ; {
		if n := d.Receive(rx[:]); n > 0 {
			for i := range n {
				see(&rx[i])
				recycle(d, &rx[i])
			}
			return
		}
		if time.Now().After(end) {
			t.Fatal("no packet")
		}
	}
}

// rareLooks polls the empty port until it polls the socket only rarely.
func rareLooks(d Port) {
	for range 10 * mostSkipped {
		d.Ready()
	}
}

func inRing(t *testing.T, d Device) uint64 {
	t.Helper()
	s, err := d.Stats()
	must(t, err)
	return s.InRing
}

// TestRingPackets: packets that fit arrive in the ring, and larger ones at the socket, complete and with the right source.
func TestRingPackets(t *testing.T) {
	ringed(t, netlab.PairConfig{MTU: 9000}, testRingPackets)
}

func testRingPackets(t *testing.T, pair *netlab.Pair, d Device, port Port) {
	s := newSender(t, pair, d)
	to := wire.EndpointFrom(netip.AddrPortFrom(pair.AddrA.Addr(), d.ReceivePort()))
	from := s.conn.LocalAddr().(*net.UDPAddr).AddrPort()
	for _, n := range []int{wire.BaseHeaderLen, 64, 232, 233, 1472, 2024, 2025, 8972} {
		before, left := inRing(t, d), clock.Machine()
		sent := s.send(n)
		receive(t, port, func(p *provider.RxPacket) {
			if p.Arrived < left.Add(-clocksDiffer) || p.Arrived > clock.Machine().Add(clocksDiffer) {
				t.Errorf("%d bytes arrived %v after they left", n, p.Arrived.Sub(left))
			}
			if p.From != wire.EndpointFrom(from) || p.To != to || p.N != 1 || !bytes.Equal(p.Frags[0].Data, sent) {
				t.Errorf("%d bytes: %d from %v to %v", n, p.Len, p.From, p.To)
			}
		})
		if got, want := inRing(t, d)-before == 1, n <= 2024; got != want {
			t.Errorf("%d bytes: by the ring %t, want %t", n, got, want)
		}
	}
	s.send(wire.BaseHeaderLen - 1)
	testhelp.Eventually(t, "a packet without a header is counted", func() bool {
		var rx [1]provider.RxPacket
		port.Receive(rx[:])
		st, err := d.Stats()
		must(t, err)
		return st.Foreign == 1
	})
	if u, ok := d.(*socketDevice); ok {
		if free := u.rxPool.Free(); free != receiveFrames-udpBatch {
			t.Errorf("%d receive frames are free, of %d that are not posted", free, receiveFrames-udpBatch)
		}
	}
	if ringOf(port).Waiting() {
		t.Error("recycled records still occupy the ring")
	}
}

// TestRingOrder: a packet that arrived at the socket is received before later packets in the ring.
func TestRingOrder(t *testing.T) {
	ringed(t, netlab.PairConfig{MTU: 9000}, testRingOrder)
}

func testRingOrder(t *testing.T, pair *netlab.Pair, d Device, port Port) {
	s := newSender(t, pair, d)
	for range 100 {
		rareLooks(port)
		s.send(5000)
		s.send(100)
		testhelp.Eventually(t, "the ring has a packet", ringOf(port).Waiting)
		var order []int
		for len(order) < 2 {
			receive(t, port, func(p *provider.RxPacket) { order = append(order, p.Len) })
		}
		if order[0] != 5000 {
			t.Fatalf("packets of %v bytes came in this order", order)
		}
	}
}

// TestRingOrderBeyondItsEnd fills the ring. Packets that arrive while the ring is full are received after the packets in the ring, and
// before packets that enter the ring later.
func TestRingOrderBeyondItsEnd(t *testing.T) {
	ringed(t, netlab.PairConfig{}, testRingOrderBeyondItsEnd)
}

func testRingOrderBeyondItsEnd(t *testing.T, pair *netlab.Pair, d Device, port Port) {
	s := newSender(t, pair, d)
	const length, inAll = 1400, 1000
	number, next := uint32(0), uint32(0)
	send := func(n int) {
		for range n {
			b := make([]byte, length)
			binary.BigEndian.PutUint32(b, number)
			number++
			_, err := s.conn.WriteToUDPAddrPort(b, s.to)
			must(t, err)
		}
	}
	rareLooks(port)
	send(inAll / 2) // twice the size of the ring
	take := func() {
		receive(t, port, func(p *provider.RxPacket) {
			if got := binary.BigEndian.Uint32(p.Frags[0].Data); got != next {
				t.Fatalf("packet %d came in place of %d", got, next)
			}
			next++
		})
	}
	for next < inAll/4 {
		take()
	}
	send(inAll / 2) // fills the free space, and exceeds it
	for next < inAll {
		take()
	}
	if n := inRing(t, d); n < inAll/4 || n >= inAll {
		t.Errorf("%d of %d packets came by the ring", n, inAll)
	}
}

// TestRingWakes: a sleeper wakes for each packet, whether the packet arrives before or after it fell asleep.
func TestRingWakes(t *testing.T) {
	ringed(t, netlab.PairConfig{MTU: 9000}, testRingWakes)
}

func testRingWakes(t *testing.T, pair *netlab.Pair, d Device, port Port) {
	s := newSender(t, pair, d)
	asked, got := make(chan struct{}), make(chan int)
	go func() {
		defer close(got)
		var rx [64]provider.RxPacket // AF_XDP needs room for a packet of many frames
		for range asked {
			n := 0
			for n == 0 {
				port.Wait(clock.Never, false)
				n = port.Receive(rx[:])
			}
			for i := range n {
				recycle(port, &rx[i])
			}
			got <- n
		}
	}()
	for i := range 3000 {
		asked <- struct{}{}
		length := 64 + i%8
		if i%8 == 0 {
			length = 3000 // too long for the ring
		}
		s.send(length)
		select {
		case n := <-got:
			if n != 1 {
				t.Fatalf("packet %d came as %d", i, n)
			}
		case <-time.After(long):
			netlabtest.Hang(t, "packet %d woke no sleeper", i)
		}
	}
	close(asked)
	<-got
}

// TestRingBesideLocal: packets of other adapters of this machine arrive by loopback, where no program sees them, and are received.
func TestRingBesideLocal(t *testing.T) {
	ringed(t, netlab.PairConfig{}, testRingBesideLocal)
}

func testRingBesideLocal(t *testing.T, pair *netlab.Pair, d Device, port Port) {
	s := &sending{t, listenIn(t, pair.A, netip.AddrPortFrom(pair.AddrA.Addr(), 0)), netip.AddrPortFrom(pair.AddrA.Addr(), d.ReceivePort())}
	for range 20 {
		rareLooks(port)
		s.send(100)
		receive(t, port, func(p *provider.RxPacket) {
			if p.Len != 100 {
				t.Errorf("%d bytes", p.Len)
			}
		})
	}
	if n := inRing(t, d); n != 0 {
		t.Errorf("%d packets came by the ring", n)
	}
}

// TestRingOfABroker: a client that comes after the one with AF_XDP gets a ring of the same broker, on the UDP port of its own
// socket. When the broker ends, the client continues with plain sockets, and reports that.
func TestRingOfABroker(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	for _, datapath := range []plan.Datapath{plan.Auto, plan.Ring} {
		directory := brokersOf(t, pair, false)
		stop := serveBroker(t, pair, directory, datapath)
		path := broker.At(directory, pair.NameA)
		if datapath == plan.Auto {
			wantReason(t, opened(t, pair, plan.Config{Broker: path}), plan.Generic, "leased from a broker")
		}
		d := opened(t, pair, plan.Config{Broker: path}).(*socketDevice)
		wantReason(t, d, plan.Ring, "a ring that the broker at "+path+" has filled")
		s := newSender(t, pair, d)
		d.Watch(func(error) {}, func(int, func(*provider.Engine)) {})
		take := func() {
			s.send(100)
			receive(t, d, func(*provider.RxPacket) {})
		}
		take()
		if inRing(t, d) != 1 {
			t.Error("a packet did not come by the ring")
		}
		stop()
		testhelp.Eventually(t, "the device says that the broker has ended", func() bool { return d.Info().Datapath == plan.UDP })
		take()
		wantReason(t, d, plan.UDP, "has ended")
		if inRing(t, d) != 1 {
			t.Error("a packet came by the ring of a broker that has ended")
		}
	}
}

// socketFor opens a socket for a request to a broker until the test ends.
func socketFor(t *testing.T, ns *netlab.Namespace, kind int, at netip.AddrPort, option int) int {
	t.Helper()
	fd := -1
	must(t, ns.Do(func() (err error) {
		if fd, err = unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, 0); err != nil || !at.IsValid() {
			return err
		}
		if option != 0 {
			if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, 1); err != nil {
				return err
			}
		}
		return unix.Bind(fd, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()})
	}))
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// socketBeside opens two sockets of one port until the test ends, each bound to another interface, and returns the one on loopback.
func socketBeside(t *testing.T, pair *netlab.Pair, at netip.AddrPort) int {
	t.Helper()
	must(t, pair.A.Do(func() error {
		c := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
			failed := raw.Control(func(fd uintptr) { err = unix.BindToDevice(int(fd), pair.NameA) })
			return errors.Join(failed, err)
		}}
		l, err := c.ListenPacket(t.Context(), "udp4", at.String())
		if err == nil {
			t.Cleanup(func() { must(t, l.Close()) })
		}
		return err
	}))
	return socketFor(t, pair.A, unix.SOCK_DGRAM, at, unix.SO_BINDTOIFINDEX) // index 1, which is loopback
}

// TestRingsForOwnSocketsOnly: a broker gives a ring only for a socket that has the UDP port alone, at the address and in the
// namespace of the interface.
func TestRingsForOwnSocketsOnly(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	own, any4 := pair.AddrA.Addr(), netip.IPv4Unspecified()
	at := func(a netip.Addr, port uint16) netip.AddrPort { return netip.AddrPortFrom(a, port) }
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	defer w.Close()
	for _, c := range []struct {
		name   string
		socket int
		port   uint16
		want   string
	}{
		{"not bound", socketFor(t, pair.A, unix.SOCK_DGRAM, netip.AddrPort{}, 0), 50000, "bound to 0.0.0.0:0"},
		{"every address", socketFor(t, pair.A, unix.SOCK_DGRAM, at(any4, 50001), 0), 50001, "bound to 0.0.0.0:50001"},
		{"another port", socketFor(t, pair.A, unix.SOCK_DGRAM, at(own, 50002), 0), 50003, "not to " + at(own, 50003).String()},
		{"TCP", socketFor(t, pair.A, unix.SOCK_STREAM, at(own, 50004), 0), 50004, "no UDP socket"},
		{"shared address", socketFor(t, pair.A, unix.SOCK_DGRAM, at(own, 50005), unix.SO_REUSEADDR), 50005, "SO_REUSEADDR"},
		{"shared port", socketFor(t, pair.A, unix.SOCK_DGRAM, at(own, 50006), unix.SO_REUSEPORT), 50006, "SO_REUSEPORT"},
		{"only for loopback, beside one of the interface", socketBeside(t, pair, at(own, 50011)), 50011, "belongs to interface 1, not to 0"},
		{"a port of somebody else", socketFor(t, pair.A, unix.SOCK_DGRAM, at(own, 53), 0), 53, "UDP port 53 was asked for"},
		{"a pipe", int(r.Fd()), 50007, "non-socket"},
		{"loopback", socketFor(t, pair.A, unix.SOCK_DGRAM, at(netip.MustParseAddr("127.0.0.1"), 50008), 0), 50008, "not to"},
	} {
		must(t, pair.A.Do(func() error {
			q := broker.Request{Address: own, UDPPort: c.port, Datapath: broker.Ring, Socket: c.socket}
			l, err := OpenBrokeredRing(&q, Terms{Interface: pair.NameA, UDPPort: wire.DefaultPort})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", c.name, err, c.want)
			}
			if err == nil {
				return l.Close()
			}
			return nil
		}))
	}
	elsewhere := socketFor(t, pair.B, unix.SOCK_DGRAM, at(pair.AddrB.Addr(), 50009), 0)
	q := broker.Request{Address: pair.AddrB.Addr(), UDPPort: 50009, Datapath: broker.Ring, Socket: elsewhere}
	must(t, pair.A.Do(func() error {
		if _, err := OpenBrokeredRing(&q, Terms{Interface: pair.NameA, UDPPort: wire.DefaultPort}); err == nil || !strings.Contains(err.Error(), "another network namespace") {
			t.Errorf("a socket of another namespace: %v", err)
		}
		return nil
	}))
	here := socketFor(t, pair.A, unix.SOCK_DGRAM, at(own, 50010), 0)
	q = broker.Request{Address: own, UDPPort: 50010, Datapath: broker.Ring, Socket: here}
	must(t, pair.A.Do(func() error {
		if _, err := OpenBrokeredRing(&q, Terms{Interface: "lo", UDPPort: wire.DefaultPort}); err == nil || !strings.Contains(err.Error(), "this broker offers lo only") {
			t.Errorf("an address of another interface: %v", err)
		}
		l, err := OpenBrokeredRing(&q, Terms{Interface: pair.NameA, UDPPort: wire.DefaultPort})
		if err != nil {
			t.Errorf("nothing is wrong: %v", err)
			return nil
		}
		return l.Close()
	}))
}

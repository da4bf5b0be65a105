package datapath

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/provider"
)

// smallBuffer gives a socket the receive buffer of a process without privileges.
func smallBuffer(t *testing.T, fd int) {
	t.Helper()
	must(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 100<<10))
}

// After the socket has dropped packets, packets in the ring wait for them only for a moment, also while other packets arrive at the
// socket.
func TestRingAfterDrops(t *testing.T) {
	ringed(t, netlab.PairConfig{MTU: 9000}, func(t *testing.T, pair *netlab.Pair, d Device, port Port) {
		s := newSender(t, pair, d)
		switch x := d.(type) {
		case *socketDevice:
			smallBuffer(t, x.in.FD())
		case *xdpDevice:
			smallBuffer(t, x.udp.FD())
		}
		rareLooks(port)
		for range 200 {
			s.send(8000)
		}
		var rx [64]provider.RxPacket
		long, short := 0, 0
		look := func() {
			n := port.Receive(rx[:])
			for i := range n {
				if rx[i].Len == 8000 {
					long++
				} else {
					short++
				}
				recycle(port, &rx[i])
			}
		}
		look()
		look()
		worst := 0 // from here on no packet is lost
		long, short = 0, 0
		for i := range 300 {
			s.send(8000)
			s.send(100)
			for range 20 {
				look()
			}
			worst = max(worst, i+1-short)
		}
		if worst > 10 {
			t.Errorf("%d packets of the ring were kept back while %d came by the socket", worst, long)
		}
	})
}

// If the program leaves packets to the socket and the kernel drops them before the socket, packets in the ring do not wait for
// ever.
func TestRingBesideRefused(t *testing.T) {
	ringed(t, netlab.PairConfig{}, func(t *testing.T, pair *netlab.Pair, d Device, port Port) {
		s := newSender(t, pair, d)
		var raw int
		must(t, pair.B.Do(func() (err error) {
			raw, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP)
			return err
		}))
		defer func() { must(t, unix.Close(raw)) }()
		bad := []byte{0xc0, 0, byte(s.to.Port() >> 8), byte(s.to.Port()), 0x10, 0, 0, 0, 1, 2, 3, 4} // claims to be longer than it is
		to := &unix.SockaddrInet4{Addr: s.to.Addr().As4()}
		rareLooks(port)
		must(t, unix.Sendto(raw, bad, 0, to))
		s.send(100)
		var rx [64]provider.RxPacket
		for looks := range 20000 {
			if looks%32 == 0 {
				must(t, unix.Sendto(raw, bad, 0, to))
			}
			n := port.Receive(rx[:])
			for i := range n {
				recycle(port, &rx[i])
			}
			if n > 0 {
				return
			}
		}
		t.Fatalf("a packet of the ring is not delivered; the ring has something: %t", ringOf(port).Waiting())
	})
}

// Packets that the socket dropped are not counted as missing packets of this machine.
func TestLocalInAfterDrops(t *testing.T) {
	const local = 5
	pair := netlabtest.Pair(t, netlab.PairConfig{MTU: 9000})
	d := opened(t, pair, plan.Config{Datapath: plan.TCX}).(*xdpDevice)
	port, s := d.Ports()[0], newSender(t, pair, d)
	smallBuffer(t, d.udp.FD())
	for range 200 {
		s.send(8000)
	}
	got := 0
	look := func() {
		var rx [64]provider.RxPacket
		n := port.Receive(rx[:])
		for i := range n {
			recycle(port, &rx[i])
		}
		got += n
	}
	for range 1000 {
		look()
	}
	here := listenIn(t, pair.A, netip.AddrPortFrom(pair.AddrA.Addr(), 0))
	must(t, pair.A.Do(func() error {
		for range local {
			if _, err := here.WriteToUDP(make([]byte, 100), net.UDPAddrFromAddrPort(s.to)); err != nil {
				return err
			}
		}
		return nil
	}))
	before := got
	for end := time.Now().Add(patience); got < before+local && time.Now().Before(end); {
		look()
	}
	st, err := d.Stats()
	must(t, err)
	if st.LocalIn != local || st.Socket.RxDropped == 0 {
		t.Errorf("LocalIn is %d after %d packets of this machine, %d dropped", st.LocalIn, local, st.Socket.RxDropped)
	}
}

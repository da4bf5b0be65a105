package datapath

import (
	"net/netip"
	"testing"

	"github.com/ndxdp/ndxdp/internal/broker"
	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/rxring"
	"github.com/ndxdp/ndxdp/internal/testhelp"
	"github.com/ndxdp/ndxdp/internal/udp"
	"github.com/ndxdp/ndxdp/wire"
)

// If a broker's client closes its socket, its ring gets no packets of the next socket with this port, although the client still has
// the ring.
func TestBrokeredRingEndsWithItsPort(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	at := netip.AddrPortFrom(pair.AddrA.Addr(), 50000)
	var owner *udp.Socket
	var l *BrokeredRing
	must(t, pair.A.Do(func() error {
		network, err := udp.NewNetwork()
		if err != nil {
			return err
		}
		defer network.Close()
		if owner, err = network.Open(udp.Config{Local: at}); err != nil {
			return err
		}
		l, err = OpenBrokeredRing(&broker.Request{Address: at.Addr(), UDPPort: at.Port(), Datapath: broker.Ring, Socket: owner.FD()}, Terms{Interface: pair.NameA, UDPPort: wire.DefaultPort})
		return err
	}))
	defer l.Close()
	g, fds := l.Grant()
	ring, err := rxring.Open(fds[0], fds[1], g.RingBytes)
	must(t, err)
	defer ring.Close()
	ring.Sleeps(rxring.Awake)
	from := listenIn(t, pair.B, netip.AddrPortFrom(pair.AddrB.Addr(), 0))
	send := func(text string) {
		t.Helper()
		_, err := from.WriteToUDPAddrPort([]byte(text), at)
		must(t, err)
	}
	var p rxring.Packet
	send("for the client")
	testhelp.Eventually(t, "a packet in the ring", func() bool {
		ring.Edge()
		return ring.Next(&p)
	})
	ring.Release()

	must(t, owner.Close())
	next := listenIn(t, pair.A, at)
	send("for another program")
	b := make([]byte, 100)
	n, err := next.Read(b)
	must(t, err)
	if got := string(b[:n]); got != "for another program" {
		t.Errorf("the socket that has the port got %q", got)
	}
	ring.Edge()
	if ring.Next(&p) {
		t.Errorf("the client that closed its socket read %q", p.Data)
	}
}

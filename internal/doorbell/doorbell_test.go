package doorbell

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/ports"
	"github.com/ndxdp/ndxdp/internal/udp"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// here is an address that only this test process uses, with a port that is free there.
func here() netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 1 + byte(os.Getpid()>>16), byte(os.Getpid() >> 8), byte(os.Getpid())}), 14791)
}

const port = 7001

func newNetwork(t *testing.T) *udp.Network {
	t.Helper()
	n, err := udp.NewNetwork()
	must(t, err)
	t.Cleanup(func() { must(t, n.Close()) })
	if n.Namespace() == 0 {
		t.Skip("needs a kernel with SO_NETNS_COOKIE (Linux 5.14)")
	}
	return n
}

func rung(b *Bell) bool {
	select {
	case <-b.Rung():
		return true
	default:
		return false
	}
}

// The first packet rings the bell, and waits for the adapter that takes over the socket. The ND port is claimed until the bell is
// closed.
func TestFirstPacketWaits(t *testing.T) {
	network, at, packet := newNetwork(t), here(), []byte("a request")
	b, err := Hang(at, port)
	must(t, err)
	if rung(b) {
		t.Error("it rings before a packet has come")
	}
	c, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(at))
	must(t, err)
	_, err = c.Write(packet)
	must(t, errors.Join(err, c.Close()))
	<-b.Rung()
	h, err := Take(network, at)
	must(t, err)
	must(t, h.Socket.Configure(udp.Config{Local: at, ReceiveBuffer: 1 << 20}))
	buf := make([]byte, 100)
	n, _, err := unix.Recvfrom(h.Socket.FD(), buf, 0)
	if must(t, err); !bytes.Equal(buf[:n], packet) {
		t.Errorf("the adapter received %q", buf[:n])
	}
	other := ports.NewSpace(network, at)
	if err := other.Claim(port); !errors.Is(err, ports.ErrTaken) {
		t.Errorf("another adapter claims the ND port: %v", err)
	}
	must(t, b.Close())
	must(t, b.Close())
	must(t, other.Claim(port))
	must(t, errors.Join(other.Close(), h.Close()))
}

// If an adapter is opened before the first packet, the bell rings as well, and the adapter gets the kept packet once.
func TestTakenBeforeTheFirstPacket(t *testing.T) {
	network, at := newNetwork(t), here()
	b, err := Hang(at, port)
	must(t, err)
	h, err := Take(network, at)
	must(t, err)
	<-b.Rung()
	if again, err := Take(network, at); again != nil || err != nil {
		t.Errorf("taken twice: %v", err)
	}
	must(t, errors.Join(b.Close(), h.Close()))
}

// A closed bell releases everything. Until then no other program can use its ports.
func TestClosedBellsHoldNothing(t *testing.T) {
	network, at := newNetwork(t), here()
	for range 2 {
		b, err := Hang(at, port)
		must(t, err)
		if _, err := Hang(at, port); !errors.Is(err, ports.ErrTaken) {
			t.Errorf("hung twice: %v", err)
		}
		must(t, b.Close())
		<-b.Rung()
		if h, err := Take(network, at); h != nil || err != nil {
			t.Errorf("taken from a closed bell: %v", err)
		}
	}
}

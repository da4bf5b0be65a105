package datapath

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/datapath/sharing"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/ports"
	"github.com/ndxdp/ndxdp/internal/testhelp"
	"github.com/ndxdp/ndxdp/internal/udp"
	"github.com/ndxdp/ndxdp/provider"
)

// shortly shortens the time until a squatted name is detected, until the test ends.
func shortly(t *testing.T) {
	patience, again := sharing.SquatPatience, sharing.LookAgain
	sharing.SquatPatience, sharing.LookAgain = 50*time.Millisecond, 5*time.Millisecond
	t.Cleanup(func() { sharing.SquatPatience, sharing.LookAgain = patience, again })
}

// squat takes the name of a well-known port until the test ends.
func squat(t *testing.T, at netip.AddrPort, listens bool) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	must(t, unix.Bind(fd, &unix.SockaddrUnix{Name: "@ndxdp/" + at.String() + "/udp"}))
	if listens {
		must(t, unix.Listen(fd, 16))
	}
}

// openAt opens plain sockets until the test ends.
func openAt(t *testing.T, at netip.AddrPort) Device {
	t.Helper()
	d, err := Open(plan.Config{Address: at.Addr(), UDPPort: at.Port(), Datapath: plan.UDP})
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	return d
}

// wellKnown returns a well-known port on loopback that no program uses.
func wellKnown(t *testing.T) netip.AddrPort {
	t.Helper()
	return netip.AddrPortFrom(netlabtest.Loopback()[0], netlabtest.FreePort(t))
}

// TestSquattedName: if a process takes the name of the well-known port and does not receive there, adapters still use the port, and
// the process is reported.
func TestSquattedName(t *testing.T) {
	shortly(t)
	for _, c := range []struct {
		listens bool
		by      string
	}{
		{false, "a socket that does not listen"},
		{true, fmt.Sprintf("process %d of user %d", os.Getpid(), os.Geteuid())},
	} {
		at := wellKnown(t)
		squat(t, at, c.listens)
		first := openAt(t, at)
		if got := first.ReceivePort(); got != at.Port() {
			t.Errorf("%+v: the first adapter receives on UDP port %d, want %d", c, got, at.Port())
		}
		if why := first.Info().Reason; !strings.Contains(why, "is squatted by "+c.by) {
			t.Errorf("%+v: Info says %q", c, why)
		}
		if got := openAt(t, at).ReceivePort(); got == at.Port() {
			t.Errorf("%+v: two adapters receive on the well-known port", c)
		}
	}
}

// TestSquattedNameOfAnEndedAdapter: a waiting adapter takes the well-known port although another process has taken its name
// meanwhile.
func TestSquattedNameOfAnEndedAdapter(t *testing.T) {
	shortly(t)
	at := wellKnown(t)
	squat(t, at, true)
	held := holdPort(t, at)
	waits := openAt(t, at)
	waits.Watch(func(error) {}, func(int, func(*provider.Engine)) {})
	must(t, held.Close())
	testhelp.Eventually(t, "the well-known port is taken and the squatter named", func() bool {
		return strings.Contains(waits.Info().Reason, "is squatted by process ")
	})
	testhelp.Eventually(t, "the well-known port is taken", func() bool {
		l, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
		if err == nil {
			_ = l.Close()
		}
		return err != nil
	})
}

// holdPort binds a UDP port like a program that is not an adapter.
func holdPort(t *testing.T, at netip.AddrPort) *net.UDPConn {
	t.Helper()
	l, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// TestSquattedPort: an adapter that got the name of the well-known port, and not the port, reports that another program uses the
// port, until the port is free.
func TestSquattedPort(t *testing.T) {
	at := wellKnown(t)
	network, err := udp.NewNetwork()
	must(t, err)
	defer network.Close()
	name := ports.NewHolding(network, at)
	must(t, name.Try())
	held := holdPort(t, at)
	d := openAt(t, at)
	d.Watch(func(error) {}, func(int, func(*provider.Engine)) {})
	must(t, name.Close())
	says := func() bool { return strings.Contains(d.Info().Reason, "another program has UDP port") }
	testhelp.Eventually(t, "the program is told of", says)
	must(t, held.Close())
	testhelp.Eventually(t, "nothing is told any more", func() bool { return !says() })
}

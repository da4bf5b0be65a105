package ndhealth

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/datapath"
	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/host"
	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/nd"
)

// must stops the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// looker is an environment variable for the process that examines an interface. It has the interface's address.
const looker = "NDXDP_TEST_LOOKER"

// TestLooksAreInNobodysWay: another process examines an interface again and again. Meanwhile every adapter opened there gets the
// well-known port of its address. The test is not parallel: a process that another test starts has our sockets for a moment.
func TestLooksAreInNobodysWay(t *testing.T) {
	if at := os.Getenv(looker); at != "" {
		lookAgainAndAgain(t, netip.MustParseAddr(at))
		return
	}
	const opened = 500
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), looker+"="+pair.AddrA.Addr().String())
	said, err := cmd.StdoutPipe()
	must(t, err)
	ending, err := cmd.StdinPipe()
	must(t, err)
	must(t, pair.A.StartProcess(cmd))
	answers := bufio.NewReader(said)
	if line, err := answers.ReadString('\n'); err != nil || line != "looking\n" {
		t.Errorf("the process printed %q, %v", line, err)
	}
	must(t, pair.A.Do(func() error {
		for i := range opened {
			d, err := datapath.Open(plan.Config{Address: pair.AddrA.Addr(), UDPPort: nd.DefaultUDPPort, Datapath: plan.UDP})
			if err != nil {
				return err
			}
			if got := d.ReceivePort(); got != nd.DefaultUDPPort {
				t.Errorf("adapter %d receives on port %d", i, got)
			}
			if err := d.Close(); err != nil {
				return err
			}
		}
		return nil
	}))
	must(t, ending.Close())
	rest, err := io.ReadAll(answers)
	if err = errors.Join(err, cmd.Wait()); err != nil {
		t.Errorf("%v\n%s", err, rest)
	}
}

// lookAgainAndAgain examines the interface with an address until its standard input ends. Most of the time it only checks who uses
// the port.
func lookAgainAndAgain(t *testing.T, addr netip.Addr) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	nic, err := host.InterfaceOf(addr)
	must(t, err)
	name := nic.Name
	i, err := net.InterfaceByName(name)
	must(t, err)
	for looks := 0; ; looks++ {
		if looks%10 == 0 {
			_, err := Examine(t.Context(), Config{Interface: name})
			must(t, err)
		}
		must(t, useOf(i.Index, netip.AddrPortFrom(addr, nd.DefaultUDPPort)).err)
		if looks == 0 {
			fmt.Println("looking")
		}
		select {
		case <-ended:
			return
		default:
		}
	}
}

// TestPortUse: an adapter, and each kind of socket that keeps an adapter from its port, is detected, and no other socket is. The
// test is not parallel either.
func TestPortUse(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	own := "process " + strconv.Itoa(os.Getpid()) + " ("
	six := netip.MustParseAddr("fd00::99:1")
	look := func(at netip.Addr) portUse { return useOf(pair.IfindexA, netip.AddrPortFrom(at, nd.DefaultUDPPort)) }
	inA := func(f func() error) {
		t.Helper()
		if err := pair.A.Do(f); err != nil {
			t.Fatal(err)
		}
	}
	inA(func() error {
		for _, c := range []struct {
			network, at string
			device      int
			four, six   bool // the port is in use for our IPv4 address, and for an IPv6 address
		}{
			{"udp4", pair.AddrA.Addr().String(), 0, true, false},
			{"udp4", "0.0.0.0", 0, true, false},
			{"udp4", "127.0.0.1", 0, false, false},
			{"udp", "::", 0, true, true},
			{"udp6", "::", 0, false, true},
			{"udp6", "::1", 0, false, false},
			{"udp4", "0.0.0.0", pair.IfindexA, true, false},
		} {
			s := listen(t, c.network, c.at, c.device)
			for at, want := range map[netip.Addr]bool{pair.AddrA.Addr(): c.four, six: c.six} {
				if u := look(at); u.err != nil || u.shared || u.taken != want || strings.HasPrefix(u.used, own) != want {
					t.Errorf("%s socket at %s, device %d: of %s is said %+v, want %t", c.network, c.at, c.device, at, u, want)
				}
			}
			if err := s.Close(); err != nil {
				return err
			}
			if u := look(pair.AddrA.Addr()); u != (portUse{}) {
				t.Errorf("after %s at %s: %+v", c.network, c.at, u)
			}
		}
		return nil
	})
	elsewhere := udpSocket{local: netip.IPv4Unspecified(), device: 3}
	if at := pair.AddrA.Addr(); !elsewhere.keeps(0, at) || !elsewhere.keeps(3, at) || elsewhere.keeps(4, at) {
		t.Error("a socket that is bound to a VRF keeps the port from another one, or not from its own")
	}
	inA(func() error {
		d, err := datapath.Open(plan.Config{Address: pair.AddrA.Addr(), UDPPort: nd.DefaultUDPPort, Datapath: plan.UDP})
		if err != nil {
			return err
		}
		if u := look(pair.AddrA.Addr()); u != (portUse{shared: true}) {
			t.Errorf("beside an adapter: %+v", u)
		}
		if u := look(netip.MustParseAddr("10.99.0.77")); u != (portUse{}) {
			t.Errorf("at another address: %+v", u)
		}
		err = d.Close()
		if u := look(pair.AddrA.Addr()); u != (portUse{}) {
			t.Errorf("after an adapter: %+v", u)
		}
		return err
	})
}

// listen opens a socket on the ND port.
func listen(t *testing.T, network, at string, device int) net.PacketConn {
	t.Helper()
	cfg := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		failed := c.Control(func(fd uintptr) {
			if device != 0 {
				err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX, device)
			}
		})
		return errors.Join(failed, err)
	}}
	c, err := cfg.ListenPacket(context.Background(), network, net.JoinHostPort(at, strconv.Itoa(nd.DefaultUDPPort)))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestSquattedNames: a process that has the name of the well-known port without the port is detected and reported, also beside an
// adapter that works without the name. The test is not parallel: a process that another test starts has our sockets for a moment.
func TestSquattedNames(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	at := netip.AddrPortFrom(pair.AddrA.Addr(), nd.DefaultUDPPort)
	must(t, pair.A.Do(func() error {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		must(t, err)
		defer unix.Close(fd)
		must(t, unix.Bind(fd, &unix.SockaddrUnix{Name: "@ndxdp/" + at.String() + "/udp"}))
		if u := useOf(pair.IfindexA, at); u != (portUse{squatter: "a socket that does not listen"}) {
			t.Errorf("a name: %+v", u)
		}
		d, err := datapath.Open(plan.Config{Address: at.Addr(), UDPPort: at.Port(), Datapath: plan.UDP})
		must(t, err)
		if u := useOf(pair.IfindexA, at); u != (portUse{shared: true, squatter: "a socket that does not listen"}) {
			t.Errorf("a name beside an adapter: %+v", u)
		}
		must(t, d.Close())
		must(t, unix.Listen(fd, 1))
		if u := useOf(pair.IfindexA, at); u != (portUse{squatter: fmt.Sprintf("process %d of user %d", os.Getpid(), os.Geteuid())}) {
			t.Errorf("a name that somebody listens at: %+v", u)
		}
		return nil
	}))
	sockets := []udpSocket{{uid: uint32(os.Geteuid()) + 7}}
	must(t, pair.A.Do(func() error {
		d, err := datapath.Open(plan.Config{Address: at.Addr(), UDPPort: at.Port(), Datapath: plan.UDP})
		must(t, err)
		if u := (portUse{shared: true}).judge(sockets, at); u.shared || !u.taken || u.used != fmt.Sprintf("a process of user %d", sockets[0].uid) {
			t.Errorf("a port of another user's than the name: %+v", u)
		}
		return d.Close()
	}))
}

package ndnet

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/testhelp"
	"github.com/ndxdp/ndxdp/nd"
)

// ownNetwork is an environment variable for a test that runs in its own network namespace.
const ownNetwork = "NDNET_TEST_OWN_NETWORK"

// inOwnNetwork executes the test again in another process, in an empty network namespace with lo up. It reports whether this is
// that process.
func inOwnNetwork(t *testing.T) bool {
	t.Helper()
	netlabtest.NeedRoot(t)
	if os.Getenv(ownNetwork) != "" {
		lo, err := netlink.LinkByName("lo")
		must(t, err)
		must(t, netlink.LinkSetUp(lo))
		return true
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), ownNetwork+"=yes")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// device makes an interface that is up, with addresses, and returns it.
func device(t *testing.T, name string, addresses ...string) netlink.Link {
	t.Helper()
	link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: name + "-peer"}
	must(t, netlink.LinkAdd(link))
	other, err := netlink.LinkByName(link.PeerName)
	must(t, err)
	must(t, netlink.LinkSetUp(other))
	must(t, netlink.LinkSetUp(link))
	for _, a := range addresses {
		address(t, netlink.AddrAdd, link, a, unix.IFA_F_NODAD)
	}
	return link
}

// address adds or removes an address of an interface.
func address(t *testing.T, do func(netlink.Link, *netlink.Addr) error, link netlink.Link, a string, flags int) {
	t.Helper()
	p := netip.MustParsePrefix(a)
	must(t, do(link, &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}, Flags: flags}))
}

// acceptAll serves connections until Accept fails, and returns the error.
func acceptAll(l net.Listener) (ended chan error) {
	ended = make(chan error, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				ended <- err
				return
			}
			_ = c.Close()
		}
	}()
	return ended
}

// reached waits until connections to an address are accepted.
func reached(t *testing.T, address string) {
	t.Helper()
	var failed error
	defer func() {
		if t.Failed() {
			t.Logf("%s: %v", address, failed)
		}
	}()
	testhelp.Eventually(t, "a connection to "+address, func() bool {
		var c net.Conn
		if c, failed = (&Dialer{Timeout: patience}).Dial("nd", address); failed != nil {
			return false
		}
		must(t, c.Close())
		return true
	})
}

// TestEverywhereFollowsTheMachine: a listener on all addresses serves new addresses, addresses that leave the tentative state, and
// addresses that come back with their interface. The removal of an address ends no Accept.
func TestEverywhereFollowsTheMachine(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	one := device(t, "one", "10.77.0.1/24", "10.77.0.2/24", "fd77::1/64")
	l, err := Listen("nd", ":0")
	must(t, err)
	ended := acceptAll(l)
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	for _, host := range []string{"127.0.0.1", "10.77.0.1", "10.77.0.2", "fd77::1"} {
		reached(t, net.JoinHostPort(host, port))
	}
	address(t, netlink.AddrDel, one, "10.77.0.2/24", 0)
	reached(t, "10.77.0.1:"+port)
	address(t, netlink.AddrAdd, one, "10.77.0.3/24", 0)
	reached(t, "10.77.0.3:"+port)
	address(t, netlink.AddrAdd, one, "10.77.0.2/24", 0) // the address is back
	reached(t, "10.77.0.2:"+port)

	must(t, netlink.LinkDel(one))
	reached(t, "127.0.0.1:"+port)
	one = device(t, "one", "10.77.0.1/24")
	reached(t, "10.77.0.1:"+port)
	must(t, netlink.LinkSetDown(one))
	must(t, netlink.LinkSetUp(one))
	reached(t, "10.77.0.1:"+port)

	two := device(t, "two")
	address(t, netlink.AddrAdd, two, "fd78::1/64", 0) // tentative until duplicate address detection has finished
	reached(t, "[fd78::1]:"+port)

	select {
	case err := <-ended:
		t.Errorf("Accept failed before Close: %v", err)
	default:
	}
	must(t, l.Close())
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept after Close: %v", err)
	}
	if err := l.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the second Close: %v", err)
	}
}

// TestEverywhereTriesAgain: if another process uses the port of an address, the listener listens there once the port is free.
func TestEverywhereTriesAgain(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	device(t, "one", "10.77.0.1/24")
	before, err := Listen("nd", "10.77.0.1:0")
	must(t, err)
	port := strconv.Itoa(before.Addr().(*net.TCPAddr).Port)
	l, err := (&ListenConfig{Adapters: Adapters{Datapath: nd.DatapathUDP}}).Listen(t.Context(), "nd", ":"+port)
	must(t, err)
	ended := acceptAll(l)
	reached(t, "127.0.0.1:"+port)
	must(t, before.Close())
	reached(t, "10.77.0.1:"+port)
	must(t, l.Close())
	<-ended
}

// TestEverywhereChoosesAPortThatIsFreeOnEachAddress: a port that is free on the first address and in use on another one is not chosen.
func TestEverywhereChoosesAPortThatIsFreeOnEachAddress(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	p, err := nd.OpenProvider()
	must(t, err)
	defer p.Close()
	list, err := p.QueryAddressList()
	must(t, err)
	first, second := list[0], list[1]
	next, err := Listen("nd", netip.AddrPortFrom(first, 0).String())
	must(t, err)
	must(t, next.Close()) // its port is the next free one there
	port := next.Addr().(*net.TCPAddr).AddrPort().Port()
	other, err := Listen("nd", netip.AddrPortFrom(second, port).String())
	must(t, err)
	defer other.Close()
	l, err := Listen("nd", ":0")
	must(t, err)
	ended := acceptAll(l)
	chosen := l.Addr().(*net.TCPAddr).AddrPort().Port()
	if chosen == port {
		t.Errorf("the listener chose port %d, which is in use on %s", port, second)
	}
	for _, a := range list {
		c, err := (&Dialer{Timeout: patience}).Dial("nd", netip.AddrPortFrom(a, chosen).String())
		must(t, err)
		must(t, c.Close())
	}
	must(t, l.Close())
	<-ended
}

// TestEverywhereOnManyAddresses: on a host with many addresses, each address needs three descriptors until a client connects to it.
func TestEverywhereOnManyAddresses(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	const addresses, each, atOnce = 100, 3, 16
	two := device(t, "two")
	for i := range addresses {
		address(t, netlink.AddrAdd, two, fmt.Sprintf("10.77.0.%d/32", i+1), 0)
	}
	before := descriptors(t)
	began := time.Now()
	l, err := Listen("nd", ":0")
	must(t, err)
	t.Logf("%d addresses opened in %v", addresses, time.Since(began))
	ended := acceptAll(l)
	if n := descriptors(t) - before; n > each*addresses+atOnce*ownDatapaths {
		t.Errorf("%d addresses take %d descriptors", addresses, n)
	}
	reached(t, fmt.Sprintf("10.77.0.%d:%d", addresses, l.Addr().(*net.TCPAddr).Port))
	must(t, l.Close())
	<-ended
}

func descriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(open)
}

// Before an adapter is opened for an address, the listener stops listening if the address is removed, and listens again when it is
// back. If an adapter is opened there for another purpose before a packet arrives, the listener still listens.
func TestEverywhereBeforeTheFirstPacket(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	two := device(t, "two")
	for i := range ownDatapaths + 2 {
		address(t, netlink.AddrAdd, two, fmt.Sprintf("10.77.0.%d/32", i+1), 0)
	}
	last := fmt.Sprintf("10.77.0.%d", ownDatapaths+2)
	l, err := Listen("nd", ":0")
	must(t, err)
	ended := acceptAll(l)
	port := l.Addr().(*net.TCPAddr).Port
	address(t, netlink.AddrDel, two, last+"/32", 0)
	e := l.(*everywhere)
	testhelp.Eventually(t, "the address to be left", func() bool { return !listens(e, last) })
	address(t, netlink.AddrAdd, two, last+"/32", 0)
	testhelp.Eventually(t, "the address to be listened on again", func() bool { return listens(e, last) })
	a, err := nd.OpenAdapter(nd.AdapterConfig{Address: netip.MustParseAddr(last)})
	must(t, err)
	reached(t, fmt.Sprintf("%s:%d", last, port))
	must(t, errors.Join(a.Close(), l.Close()))
	<-ended
}

func listens(e *everywhere, on string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, ok := e.open[netip.MustParseAddr(on)]
	return ok
}

package netlabtest

import (
	"errors"
	"flag"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab"
)

// NeedRoot skips a test without the privileges that networks and AF_XDP take, and says which these are. internal/testrun counts
// the tests that call it.
func NeedRoot(t testing.TB) {
	t.Helper()
	t.Attr("needs", "root")
	if os.Geteuid() != 0 {
		t.Skip("needs root: CAP_SYS_ADMIN and CAP_NET_ADMIN to make namespaces, CAP_NET_RAW and CAP_BPF for AF_XDP and XDP")
	}
}

// overlapping is how many parallel tests run at once where tests wait for time-outs, processes and the kernel and hardly compute.
const overlapping = 16

// Overlap lets parallel tests wait beside each other, however few processors there are, unless the command line says how many
// may run (-parallel). It is for TestMain, before tests run.
func Overlap() {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		if err := f.Value.Set(strconv.Itoa(overlapping)); err != nil {
			panic(err) // a number is a number
		}
	}
}

// closer is a network that was made, or that could not be made.
type closer interface{ Close() error }

// lasting keeps a network until the test ends.
func lasting[T closer](t testing.TB, network T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := network.Close(); err != nil {
			t.Error(err)
		}
	})
	return network
}

// Namespace makes an empty network namespace.
func Namespace(t testing.TB) *netlab.Namespace {
	t.Helper()
	NeedRoot(t)
	n, err := netlab.New()
	return lasting(t, n, err)
}

// Pair makes two hosts on one link.
func Pair(t testing.TB, cfg netlab.PairConfig) *netlab.Pair {
	t.Helper()
	NeedRoot(t)
	p, err := netlab.NewPair(cfg)
	return lasting(t, p, err)
}

// Star makes a router between hosts.
func Star(t testing.TB, cfg netlab.StarConfig) *netlab.Star {
	t.Helper()
	NeedRoot(t)
	s, err := netlab.NewStar(cfg)
	return lasting(t, s, err)
}

// loopbacks counts the pairs of addresses that Loopback gave.
var loopbacks atomic.Uint32

// Loopback is two addresses of this machine that no other test uses now, which takes neither privileges nor configuration: all of
// 127.0.0.0/8 is there. Adapters over plain sockets want an address of their own: whatever their port, they answer strangers
// from the same one (PROTOCOL §2), and an adapter that cannot have it leaves them without an answer.
func Loopback() (pair [2]netip.Addr) {
	n := 1<<23 | uint32(os.Getpid())&0x7ff<<12 | loopbacks.Add(1)&0x7ff<<1 // beyond 127.128.0.0, where nobody else is
	for side := range pair {
		at := n | uint32(side)
		pair[side] = netip.AddrFrom4([4]byte{127, byte(at >> 16), byte(at >> 8), byte(at)})
	}
	return pair
}

// FreePort is a UDP port that nobody has at any IPv4 address of this machine now. It needs no privileges.
func FreePort(t testing.TB) uint16 {
	t.Helper()
	c, err := net.ListenUDP("udp4", nil)
	if err != nil {
		t.Fatal(err)
	}
	at, err := netip.ParseAddrPort(c.LocalAddr().String())
	if err = errors.Join(err, c.Close()); err != nil {
		t.Fatal(err)
	}
	return at.Port()
}

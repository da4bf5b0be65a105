package netlabtest

import (
	"flag"
	"os"
	"strconv"
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

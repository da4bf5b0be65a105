package netlabtest

import (
	"flag"
	"os"
	"strconv"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab"
)

// NeedRoot skips a test if the process lacks the privileges for networks and AF_XDP, and names them. internal/testrun counts the
// tests that call it.
func NeedRoot(t testing.TB) {
	t.Helper()
	t.Attr("needs", "root")
	if os.Geteuid() != 0 {
		t.Skip("needs root: CAP_SYS_ADMIN and CAP_NET_ADMIN to make namespaces, CAP_NET_RAW and CAP_BPF for AF_XDP and XDP")
	}
}

// overlapping is the number of parallel tests in packages whose tests mostly wait for time-outs, processes and the kernel.
const overlapping = 16

// Overlap raises the number of parallel tests beyond the number of processors, unless the command line sets it (-parallel).
// TestMain calls it before tests run.
func Overlap() {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		if err := f.Value.Set(strconv.Itoa(overlapping)); err != nil {
			panic(err) // a formatted number is always valid
		}
	}
}

// closer is a network.
type closer interface{ Close() error }

// lasting closes a network at the end of the test.
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

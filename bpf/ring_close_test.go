package bpf

import (
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/testhelp"
)

// atIngress counts the programs at the ingress of A.
func atIngress(t *testing.T, p *netlab.Pair) (n int) {
	t.Helper()
	testhelp.Must(t, p.A.Do(func() error {
		found, err := link.QueryPrograms(link.QueryOptions{Target: p.IfindexA, Attach: ebpf.AttachTCXIngress})
		if err == nil {
			n = len(found.Programs)
		}
		return err
	}))
	return n
}

// Close detaches the program at once: all packets go to the socket, and none to a ring that is still mapped.
func TestRingCloses(t *testing.T) {
	p := newRingPair(t, netlab.PairConfig{})
	r := receiveAt(t, p, netip.AddrPortFrom(p.AddrA.Addr(), testPort))
	sender := connect(t, p.B, r.at)
	exchange := func(n int, inRing bool) {
		t.Helper()
		_, err := sender.Write([]byte(pattern(n, 64)))
		testhelp.Must(t, err)
		if got := r.next(t); got.payload != pattern(n, 64) || got.inRing != inRing {
			t.Errorf("datagram %d is in the ring: %t, want %t", n, got.inRing, inRing)
		}
	}
	exchange(1, true)
	if n := atIngress(t, p); n != 1 {
		t.Errorf("%d programs are attached, want 1", n)
	}
	for range 2 {
		testhelp.Must(t, r.ring.Close())
	}
	if n := atIngress(t, p); n != 0 {
		t.Errorf("%d programs are attached after Close", n)
	}
	for n := range 100 {
		exchange(n, false)
	}
	if r.rx.Waiting() || r.rx.Passed() != 0 {
		t.Errorf("the program still runs after Close: %d passed", r.rx.Passed())
	}
	if n, err := r.ring.Taken(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("%d taken, %v", n, err)
	}
	if packets, page := r.ring.FDs(); packets != -1 || page != -1 {
		t.Errorf("descriptors %d and %d after Close", packets, page)
	}
	// Another ring can be attached afterwards.
	again := receiveAt(t, p, netip.AddrPortFrom(p.AddrA.Addr(), testPort+1))
	if n, err := again.ring.Taken(); n != 0 || err != nil {
		t.Errorf("a new ring has taken %d, %v", n, err)
	}
}

// Closing after the interface is gone is not an error.
func TestRingCloseAfterInterface(t *testing.T) {
	p := newRingPair(t, netlab.PairConfig{})
	r := receiveAt(t, p, netip.AddrPortFrom(p.AddrA.Addr(), testPort))
	testhelp.Must(t, p.Close())
	testhelp.Must(t, r.ring.Close())
}

func TestRingCloseWhileInUse(t *testing.T) {
	ring := loadRingForTest(t, netip.AddrPortFrom(local4, testPort), false).ring
	var users sync.WaitGroup
	for range 4 {
		users.Go(func() {
			for {
				if _, err := ring.Taken(); err != nil {
					return
				}
				_, _ = ring.FDs()
			}
		})
	}
	testhelp.Must(t, ring.Close())
	users.Wait()
}

// An error names what was to be attached, and where.
func TestRingRefuses(t *testing.T) {
	p := newRingPair(t, netlab.PairConfig{})
	const nowhere = 1 << 30
	for _, c := range []struct {
		ifindex int
		at      string
		want    []string
	}{
		{nowhere, "10.99.0.1:7", []string{"attach a ring", "1073741824"}},
		{-1, "10.99.0.1:7", []string{"attach a ring", "-1"}},
		{p.IfindexA, "0.0.0.0:7", []string{"attach a ring", "0.0.0.0:7", p.NameA}},
		{p.IfindexA, "[::]:7", []string{"attach a ring", "[::]:7", p.NameA}},
		{p.IfindexA, "224.0.0.1:7", []string{"attach a ring", "224.0.0.1:7", p.NameA}},
		{p.IfindexA, "[ff02::1]:7", []string{"attach a ring", "[ff02::1]:7", p.NameA}},
		{p.IfindexA, "10.99.0.1:0", []string{"attach a ring", "10.99.0.1:0", p.NameA}},
		{p.IfindexA, "", []string{"attach a ring", p.NameA}},
	} {
		var at netip.AddrPort
		if c.at != "" {
			at = netip.MustParseAddrPort(c.at)
		}
		err := p.A.Do(func() error {
			ring, err := AttachRing(c.ifindex, at)
			if err == nil {
				testhelp.Must(t, ring.Close())
			}
			return err
		})
		wantError(t, err, c.want...)
	}
	if n := atIngress(t, p); n != 0 {
		t.Errorf("%d programs are attached, and none was", n)
	}
}

// wantError checks that there is an error with all of the words.
func wantError(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one with %q", words)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q, want %q in it", err, w)
		}
	}
}

// ringRightsEnv makes this test binary attach a ring to lo, and print the result.
const ringRightsEnv = "NDXDP_TEST_RING_RIGHTS"

// A root process without capabilities gets an error that names the missing capabilities and their purpose.
func TestRingWithoutRights(t *testing.T) {
	requireRing(t)
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	child.Env = append(os.Environ(), ringRightsEnv+"=1")
	done := make(chan error)
	var said []byte
	go func() {
		runtime.LockOSThread() // not unlocked: the thread ends without the dropped capabilities
		var err error
		for _, capability := range []uintptr{capNetAdmin, capSysAdmin, capBPF} {
			err = errors.Join(err, unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0))
		}
		if err == nil {
			said, err = child.Output()
		}
		done <- err
	}()
	testhelp.Must(t, <-done)
	wantError(t, errors.New(string(said)), "attach a ring", "127.0.0.1:7", "lo", "CAP_BPF", "CAP_NET_ADMIN")
}

package datapath

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/internal/datapath/follow"
	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/host"
	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/xdp"
)

// resolveTimeout is how long the resolution of a neighbour may take.
const resolveTimeout = 3 * time.Second

// newResolver is a datapath on side A of a pair that supports only the resolution of peers.
func newResolver(t *testing.T, pair *netlab.Pair) *xdpDevice {
	t.Helper()
	return newResolverOf(t, pair, pair.AddrA.Addr())
}

// newResolverOf is newResolver with another address of side A.
func newResolverOf(t *testing.T, pair *netlab.Pair, local netip.Addr) *xdpDevice {
	t.Helper()
	d := &xdpDevice{}
	must(t, pair.A.Do(func() (err error) {
		if d.kernel, err = host.OpenKernel(); err == nil {
			d.resolver, err = host.NewResolver(d.kernel, pair.IfindexA, local)
		}
		return err
	}))
	t.Cleanup(func() { must(t, d.kernel.Leave()) })
	d.info.Interface = pair.NameA
	d.state = follow.NewState(pair.IfindexA, local, host.LinkFacts{Name: pair.NameA, Up: true})
	return d
}

func TestResolve(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	d := newResolver(t, pair)
	peer := pair.AddrB.Addr()
	if _, ok := d.state.Cached(peer); ok {
		t.Error("known before it was resolved")
	}
	must(t, d.Resolve(t.Context(), peer))
	if mac, ok := d.state.Cached(peer); !ok || string(mac[:]) != string(pair.MACB) {
		t.Errorf("resolved to %x, want %x", mac, pair.MACB)
	}
	// For a peer behind a gateway, the link-layer address is the gateway's.
	far := netip.MustParseAddr("198.51.100.7")
	must(t, pair.A.Do(func() error {
		_, dst, err := net.ParseCIDR("198.51.100.0/24")
		if err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{LinkIndex: pair.IfindexA, Dst: dst, Gw: peer.AsSlice()})
	}))
	must(t, d.Resolve(t.Context(), far))
	if mac, _ := d.state.Cached(far); string(mac[:]) != string(pair.MACB) {
		t.Errorf("resolved to %x, want the gateway %x", mac, pair.MACB)
	}
}

// TestResolvedStands: the kernel is asked at most once a second for a peer. Later it may give another answer.
func TestResolvedStands(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	d := newResolver(t, pair)
	now := clock.Machine()
	d.resolver.Now = func() clock.Time { return now }
	peer := pair.AddrB.Addr()
	must(t, d.Resolve(t.Context(), peer))
	must(t, pair.A.Do(func() error {
		routes, err := d.kernel.Netlink.RouteList(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: pair.IfindexA}}, netlink.FAMILY_V4)
		for i := range routes {
			err = errors.Join(err, d.kernel.Netlink.RouteDel(&routes[i]))
		}
		return err
	}))
	now = now.Add(time.Second - 1)
	must(t, d.Resolve(t.Context(), peer))
	now = now.Add(1)
	if err := d.Resolve(t.Context(), peer); !errors.Is(err, host.ErrNoRoute) {
		t.Errorf("%v, want %v", err, host.ErrNoRoute)
	}
}

func TestResolveErrors(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	d := newResolver(t, pair)
	for _, c := range []struct {
		dst  string
		want error
		say  string
	}{
		{"192.0.2.1", host.ErrNoRoute, "192.0.2.1"},
		{"10.99.0.1", host.ErrNoRoute, "an address of this machine"}, // a resolver has no socket for it
		{"10.99.0.255", host.ErrNotOneHost, "10.99.0.255"},
		{"224.0.0.251", host.ErrNotOneHost, "224.0.0.251"},
	} {
		err := d.Resolve(t.Context(), netip.MustParseAddr(c.dst))
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.say) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %v", c.dst, err, c.want)
		}
	}
}

func TestResolveNobody(t *testing.T) {
	t.Parallel()
	d := newResolver(t, netlabtest.Pair(t, netlab.PairConfig{}))
	nobody := netip.MustParseAddr("10.99.0.77")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := d.Resolve(ctx, nobody); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, host.ErrNoNeighbour) {
		t.Errorf("canceled: %v", err)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("canceled after %v", took)
	}
	began = time.Now()
	err := d.Resolve(t.Context(), nobody)
	if !errors.Is(err, host.ErrNoNeighbour) || !strings.Contains(err.Error(), "10.99.0.77 on nd0") {
		t.Errorf("%v, want %v", err, host.ErrNoNeighbour)
	}
	if took := time.Since(began); took < resolveTimeout-100*time.Millisecond || took > resolveTimeout+2*time.Second {
		t.Errorf("it took %v, want %v", took, resolveTimeout)
	}
}

// A neighbour is found although an earlier resolution by the kernel fails meanwhile: that resolution may have begun before the
// attempt, so its failure does not count.
func TestResolveAsksAgain(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	d := newResolver(t, pair)
	must(t, pair.A.Do(func() error { // fails soon
		const of = "/proc/sys/net/ipv4/neigh/nd0/"
		return errors.Join(os.WriteFile(of+"mcast_solicit", []byte("1"), 0), os.WriteFile(of+"retrans_time_ms", []byte("20"), 0))
	}))
	late := netip.MustParseAddr("10.99.0.77")
	d.resolver.Ask(late)
	resolved := make(chan error, 1)
	go func() { resolved <- d.Resolve(t.Context(), late) }()
	deadline := time.Now().Add(patience)
	for failed := false; !failed; time.Sleep(time.Millisecond) {
		n, err := d.resolver.Look(late)
		must(t, err)
		failed = n.State&unix.NUD_FAILED != 0
		if time.Now().After(deadline) {
			t.Fatal("the kernel does not give up")
		}
	}
	must(t, pair.B.Do(func() error {
		return netlink.AddrAdd(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: pair.IfindexB}}, &netlink.Addr{IPNet: &net.IPNet{IP: late.AsSlice(), Mask: net.CIDRMask(24, 32)}})
	}))
	must(t, <-resolved)
}

// If another AF_XDP socket has the queue, the error says so, after the time that the kernel may need to free the queue.
func TestOpenQueueBusy(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	must(t, pair.A.Do(func() error {
		umem, err := xdp.NewUMEM(xdp.UMEMConfig{RxFrames: 8192, TxFrames: 64})
		must(t, err)
		other, err := xdp.Open(umem, xdp.Config{Ifindex: pair.IfindexA, Mode: xdp.ModeCopy, RxFrames: 8192, TxFrames: 64})
		must(t, err)
		defer func() { must(t, errors.Join(other.Close(), umem.Close())) }()
		_, err = Open(plan.Config{Address: pair.AddrA.Addr(), Datapath: plan.Generic})
		if !errors.Is(err, xdp.ErrQueueBusy) || !strings.Contains(err.Error(), "queue 0") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %v", err, xdp.ErrQueueBusy)
		}
		t.Log(err)
		instead, err := Open(plan.Config{Address: pair.AddrA.Addr()})
		must(t, err)
		wantReason(t, instead, plan.Ring, "AF_XDP needs the interface's queue", "held by another AF_XDP socket")
		must(t, instead.Close())
		return nil
	}))
	opened := func() (d Device) { // nothing of the failed attempt is left
		must(t, pair.A.Do(func() (err error) {
			d, err = Open(plan.Config{Address: pair.AddrA.Addr()})
			return err
		}))
		return d
	}()
	must(t, opened.Close())
	must(t, opened.Close())
	if _, err := opened.Stats(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("statistics of a closed datapath: %v", err)
	}
}

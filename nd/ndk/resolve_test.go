package ndk

import (
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/nd"
)

// If a queue pair is closed, its pending Connect ends, also during the resolution of the neighbour, which takes 3 s here.
func TestQPClosedWhileConnectResolves(t *testing.T) {
	t.Parallel()
	_, b, addr := overVeth(t, nd.DatapathUDP, "generic")
	e, other := newEnd(t, b, 64), newEnd(t, b, 64)
	nobody := netip.AddrPortFrom(addr[1].Next(), 9)
	began := time.Now()
	p := ways[0].dials(t, e, nobody, hello)
	want(t, "connect", p.inline, StatusPending)
	if at, s := e.ctr.LocalAddress(); s != StatusSuccess || at.Port() == 0 {
		t.Errorf("local address %v, %s", at, s.Name())
	}
	want(t, "second connect", ways[0].dials(t, &end{a: b, qp: e.qp, ctr: other.connector(t)}, nobody, hello).inline, StatusConnectionActive)
	closing := make(chan struct{})
	want(t, "close", e.qp.Close(func(any) { close(closing) }, nil), StatusPending) // the queue pair's connector is open
	want(t, "connect", p.finish(t), StatusCancelled)
	if took := time.Since(began); took > 2500*time.Millisecond {
		t.Errorf("it took %v: it waited for the search", took)
	}
	closed(t, e.ctr.Close)
	e.ctr = nil
	receive(t, "close of the queue pair", closing)
}

// connectToRival connects to a peer that refuses because a connection with the same addresses and ports exists. again connects once more.
func connectToRival(t *testing.T) (again func() Status, st Status) {
	t.Helper()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	at := netip.AddrPortFrom(pair.AddrB.Addr(), 7000)
	netlabtest.RefuseAsExisting(t, pair.B, netip.AddrPortFrom(at.Addr(), 14791))
	var a *Adapter
	must(t, pair.A.Do(func() error {
		a = openAdapter(t, AdapterConfig{Address: pair.AddrA.Addr(), Datapath: "generic"})
		return nil
	}))
	e := newEnd(t, a, 64)
	c := e.connector(t)
	dial := func() Status {
		return ask(t, func(done Completion, context any) Status {
			return c.Connect(e.qp, netip.AddrPortFrom(pair.AddrA.Addr(), 7200), at, hello, done, context)
		}).finish(t)
	}
	return dial, dial()
}

func TestConnectMeetsAnEarlierConnection(t *testing.T) {
	t.Parallel()
	again, st := connectToRival(t)
	want(t, "connect", st, StatusAddressAlreadyExists)
	want(t, "connect again", again(), StatusConnectionInvalid) // Done
}

// An ICMP error of a router gives Connect the same status as in package nd, whose tests cover all cases.
func TestRouterSaysUnreachable(t *testing.T) {
	t.Parallel()
	star := netlabtest.Star(t, netlab.StarConfig{})
	far := star.Hosts[1].Addr.Addr()
	var a *Adapter
	must(t, star.Hosts[0].NS.Do(func() (err error) {
		a, err = OpenAdapter(AdapterConfig{Address: star.Hosts[0].Addr.Addr(), Datapath: "generic"})
		return err
	}))
	closesInTime(t, a)
	refused := far.Next()
	must(t, star.Router.Do(func() error {
		return netlink.RouteAdd(&netlink.Route{Dst: netlink.NewIPNet(refused.AsSlice()), Type: unix.RTN_UNREACHABLE})
	}))
	want(t, "unreachable", ways[0].dials(t, newEnd(t, a, 64), netip.AddrPortFrom(refused, 9), hello).finish(t), StatusHostUnreachable)
	want(t, "no adapter", ways[1].dials(t, newEnd(t, a, 64), netip.AddrPortFrom(far, 9), hello).finish(t), StatusConnectionRefused)
}

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

// A queue pair that is closed ends the Connect that has it, also while the neighbour is looked for, which takes 3 s here.
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
	want(t, "close", e.qp.Close(func(any) { close(closing) }, nil), StatusPending) // its connector is open
	want(t, "connect", p.finish(t), StatusCancelled)
	if took := time.Since(began); took > 2500*time.Millisecond {
		t.Errorf("it took %v: it waited for the search", took)
	}
	closed(t, e.ctr.Close)
	e.ctr = nil
	receive(t, "close of the queue pair", closing)
}

// The peer still has the connection of an adapter that ended without a word, and its successor connects from the same address (C13).
func TestConnectMeetsAnEarlierConnection(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	open := func(ns *netlab.Namespace, addr netip.Addr) (a *Adapter) {
		must(t, ns.Do(func() (err error) {
			a, err = OpenAdapter(AdapterConfig{Address: addr, Datapath: "generic"})
			return err
		}))
		closesInTime(t, a)
		return a
	}
	link := func(change func(netlink.Link) error) {
		must(t, pair.B.Do(func() error {
			l, err := netlink.LinkByName(pair.NameB)
			if err != nil {
				return err
			}
			return change(l)
		}))
	}
	_, at, requests := listens(t, open(pair.B, pair.AddrB.Addr()))
	src := netip.AddrPortFrom(pair.AddrA.Addr(), 7200)
	dials := func(e *end) *pending {
		return ask(t, func(done Completion, context any) Status {
			return e.connector(t).Connect(e.qp, src, at, hello, done, context)
		})
	}
	before := open(pair.A, src.Addr())
	first := dials(newEnd(t, before, 64))
	asked := receive(t, "connect event", requests)
	defer closed(t, asked.Close)
	link(netlink.LinkSetDown)
	must(t, before.verbs.Close()) // its objects are closed by the test
	want(t, "connect", first.finish(t), StatusDeviceRemoved)
	link(netlink.LinkSetUp)
	e := newEnd(t, open(pair.A, src.Addr()), 64)
	want(t, "connect of the successor", dials(e).finish(t), StatusAddressAlreadyExists)
	want(t, "connect again", dials(e).finish(t), StatusConnectionInvalid) // Done
}

// What a router says is the status of a Connect here as it is in package nd, whose tests have all of it.
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

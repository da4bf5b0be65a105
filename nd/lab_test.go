package nd

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/testhelp"
	"github.com/ndxdp/ndxdp/provider"
)

var (
	must       = testhelp.Must
	eventually = testhelp.Eventually
)

// patience bounds every wait for an event that comes soon, and on a busy machine later.
const patience = time.Minute

// tryOpen opens an adapter in a namespace.
func tryOpen(ns *netlab.Namespace, cfg AdapterConfig) (a *Adapter, err error) {
	err = ns.Do(func() (err error) {
		a, err = OpenAdapter(cfg)
		return err
	})
	return a, err
}

// openIn opens an adapter in a namespace until the test ends.
func openIn(t testing.TB, ns *netlab.Namespace, cfg AdapterConfig) *Adapter {
	t.Helper()
	a, err := tryOpen(ns, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// common is a rig that many tests share, because opening adapters takes longer than most tests. A test that counts, closes adapters
// or changes links has its own rig.
var common struct {
	sync.Mutex
	rig *rig
}

func commonRig(t *testing.T) *rig {
	t.Helper()
	common.Lock()
	defer common.Unlock()
	if common.rig != nil {
		return common.rig
	}
	netlabtest.NeedRoot(t)
	pair, err := netlab.NewPair(netlab.PairConfig{})
	must(t, err)
	r := &rig{addr: [2]netip.Addr{pair.AddrA.Addr(), pair.AddrB.Addr()}, pair: pair}
	r.a, err = tryOpen(pair.A, AdapterConfig{Address: r.addr[0]})
	must(t, err)
	r.b, err = tryOpen(pair.B, AdapterConfig{Address: r.addr[1]})
	must(t, err)
	common.rig = r
	return r
}

// closeCommonRig runs after all tests.
func closeCommonRig() error {
	r := common.rig
	if r == nil {
		return nil
	}
	return errors.Join(r.a.Close(), r.b.Close(), r.pair.Close())
}

// wantStatus checks that err has exactly this status.
func wantStatus(t testing.TB, what string, err error, want Status) {
	t.Helper()
	switch {
	case want == StatusSuccess && err == nil:
	case want == StatusSuccess:
		t.Errorf("%s: %v, want success", what, err)
	case !errors.Is(err, want):
		t.Errorf("%s: %v, want %s", what, err, want.Name())
	}
}

// start runs a blocking call in the background.
func start(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

// finish waits for a call that start has started.
func finish(t testing.TB, what string, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		netlabtest.Hang(t, "%s: did not return within %v", what, patience)
		return nil
	}
}

func (c *Connector) state() (s provider.ConnectorState) {
	c.do(func(*provider.Engine) { s = c.k.State() })
	return s
}

// silenceAt makes ND packets to an address of a namespace stay unanswered: a socket that ignores them has the UDP port. Without a
// socket the kernel would answer with an ICMP error.
func silenceAt(t testing.TB, ns *netlab.Namespace, addr netip.Addr) {
	t.Helper()
	must(t, ns.Do(func() (err error) {
		// A process that another test starts has inherited our sockets, also closed ones, until it executes its own program.
		eventually(t, "the port is free", func() bool {
			var s *net.UDPConn
			if s, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, DefaultUDPPort))); err == nil {
				t.Cleanup(func() { must(t, s.Close()) })
			}
			return !errors.Is(err, unix.EADDRINUSE)
		})
		return err
	}))
}

// waitState waits until a connector is in a state.
func waitState(t testing.TB, c *Connector, want provider.ConnectorState) {
	t.Helper()
	eventually(t, "connector "+want.String(), func() bool { return c.state() == want })
}

// removeInterface removes the interface of a, and waits until the adapter has noticed.
func (r *rig) removeInterface(t testing.TB) {
	t.Helper()
	must(t, r.pair.A.Do(func() error {
		return netlink.LinkDel(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: r.pair.IfindexA}})
	}))
	eventually(t, "the adapter is removed", func() bool { return r.a.Removed() != nil })
}

// setLink sets the veth end in a namespace up or down.
func (r *rig) setLink(t testing.TB, ns *netlab.Namespace, up bool) {
	t.Helper()
	must(t, ns.Do(func() error {
		link, err := netlink.LinkByName(netlab.DefaultName)
		if err != nil {
			return err
		}
		if up {
			return netlink.LinkSetUp(link)
		}
		return netlink.LinkSetDown(link)
	}))
}

// listen makes a listener on a free port.
func listen(t testing.TB, a *Adapter, backlog int) (*Listener, netip.AddrPort) {
	t.Helper()
	l, err := a.CreateListener()
	must(t, err)
	must(t, l.Bind(netip.AddrPortFrom(a.verbs.Addr, 0)))
	must(t, l.Listen(backlog))
	at, err := l.LocalAddress()
	must(t, err)
	t.Cleanup(func() { must(t, l.Close()) })
	return l, at
}

var helloParams = ConnectParams{InboundReadLimit: 8, OutboundReadLimit: 8, PrivateData: []byte("hello")}

// join connects two ends. The first is the active side.
func (r *rig) join(t testing.TB, client, server *end) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	l, at := listen(t, server.ctr.adapter, 0)
	accepted := start(func() error {
		err := l.GetConnectionRequest(ctx, server.ctr)
		if err == nil {
			err = server.ctr.Accept(ctx, server.qp, helloParams)
		}
		return errors.Join(err, l.Close())
	})
	must(t, client.ctr.Connect(ctx, client.qp, at, helloParams))
	must(t, client.ctr.CompleteConnect(ctx))
	must(t, finish(t, "accept", accepted))
}

// pendingConnect starts Connect from client to at, and waits until server's connector has the request.
func (r *rig) pendingConnect(t testing.TB, client, server *end) <-chan error {
	t.Helper()
	l, at := listen(t, server.ctr.adapter, 0)
	connected := start(func() error { return client.ctr.Connect(t.Context(), client.qp, at, helloParams) })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must(t, l.GetConnectionRequest(ctx, server.ctr))
	return connected
}

// wantResult checks the next result of an end.
func (e *end) wantResult(t testing.TB, context uint64, kind RequestType, want Status) Result {
	t.Helper()
	r := e.result(t)
	if r.RequestID != context || r.Type != kind || r.Status != want {
		t.Fatalf("result %+v (%s %s), want context %d, %s, %s", r, r.Type, r.Status.Name(), context, kind, want.Name())
	}
	return r
}

// wantNoResult checks that the completion queue is empty now.
func (e *end) wantNoResult(t testing.TB) {
	t.Helper()
	var res [1]Result
	if e.cq.GetResults(res[:]) != 0 {
		t.Fatalf("unexpected result %+v (%s %s)", res[0], res[0].Type, res[0].Status.Name())
	}
}

// anyPort returns the address of the end's adapter with port 0.
func (e *end) anyPort() netip.AddrPort { return netip.AddrPortFrom(e.ctr.adapter.verbs.Addr, 0) }

// sync waits for the present poll of an adapter's engine. Afterwards data that peers wrote are visible here.
func (a *Adapter) sync() { a.do(func(*provider.Engine) {}) }

package nd

import (
	"net/netip"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/provider"
)

func TestPorts(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	at := func(port uint16) netip.AddrPort { return netip.AddrPortFrom(r.addr[1], port) }
	anywhere := func(port uint16) netip.AddrPort { return netip.AddrPortFrom(netip.IPv4Unspecified(), port) }
	listener := func() *Listener {
		l, err := r.b.CreateListener()
		must(t, err)
		t.Cleanup(func() { must(t, l.Close()) })
		return l
	}
	connector := func() *Connector {
		c, err := r.b.CreateConnector()
		must(t, err)
		t.Cleanup(func() { must(t, c.Close()) })
		return c
	}
	t.Run("bind twice", func(t *testing.T) {
		l, c := listener(), connector()
		must(t, l.Bind(at(7100)))
		wantStatus(t, "listener", l.Bind(at(7101)), ErrAddressAssociated)
		must(t, c.Bind(at(7102)))
		wantStatus(t, "connector", c.Bind(at(7103)), ErrAddressAssociated)
		must(t, l.Close())
		must(t, c.Close())
	})
	t.Run("sharing violation", func(t *testing.T) {
		l, l2, c := listener(), listener(), connector()
		must(t, l.Bind(at(7110)))
		wantStatus(t, "listener", l2.Bind(at(7110)), ErrSharingViolation)
		wantStatus(t, "connector", c.Bind(at(7110)), ErrSharingViolation)
		wantStatus(t, "wildcard", l2.Bind(anywhere(7110)), ErrSharingViolation)
		must(t, l2.Bind(anywhere(7111)))
		wantStatus(t, "beneath the wildcard", c.Bind(at(7111)), ErrSharingViolation)
		wantOneLine(t, c.Bind(at(7111)), "ND port 7111 is in use by connectors or listeners that are not closed (1)")
		must(t, l2.Listen(0))
		wantOneLine(t, c.Bind(at(7111)), "a listener of this adapter has ND port 7111")
		must(t, c.Bind(at(7112))) // the failed attempts did not bind it
		for _, close := range []func() error{l.Close, l2.Close, c.Close} {
			must(t, close())
		}
		must(t, listener().Bind(at(7110))) // free after close
		must(t, connector().Bind(at(7112)))
		must(t, listener().Bind(anywhere(7111)))
	})
	t.Run("foreign address", func(t *testing.T) {
		wantStatus(t, "listener", listener().Bind(netip.AddrPortFrom(r.addr[0], 7120)), ErrInvalidAddress)
		wantStatus(t, "connector", connector().Bind(netip.AddrPortFrom(r.addr[0], 7120)), ErrInvalidAddress)
		wantStatus(t, "zero", connector().Bind(netip.AddrPort{}), ErrInvalidAddress)
	})
	t.Run("ephemeral", func(t *testing.T) {
		seen := map[uint16]bool{}
		for range 64 {
			l := listener()
			must(t, l.Bind(at(0)))
			must(t, l.Listen(0))
			a, err := l.LocalAddress()
			must(t, err)
			if a.Port() < 49152 || seen[a.Port()] || a.Addr() != r.addr[1] {
				t.Errorf("local address %v: outside 49152 to 65535, given twice, or another address", a)
			}
			seen[a.Port()] = true
		}
	})
}

func TestListenerStates(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	anywhere := netip.AddrPortFrom(netip.IPv4Unspecified(), 7130)
	l, err := r.b.CreateListener()
	must(t, err)
	t.Cleanup(func() { must(t, l.Close()) })
	c, err := r.b.CreateConnector()
	must(t, err)
	_, err = l.LocalAddress()
	wantStatus(t, "address of an idle one", err, ErrInvalidDeviceState)
	wantStatus(t, "listen unbound", l.Listen(0), ErrInvalidDeviceState)
	wantStatus(t, "request unbound", l.GetConnectionRequest(t.Context(), c), ErrInvalidDeviceState)
	must(t, l.Bind(anywhere))
	_, err = l.LocalAddress()
	wantStatus(t, "address before listening", err, ErrInvalidDeviceState)
	must(t, l.Listen(5))
	wantStatus(t, "listen twice", l.Listen(5), ErrInvalidDeviceState)
	if a, err := l.LocalAddress(); err != nil || a != anywhere {
		t.Errorf("address %v, %v", a, err)
	}
}

// takeEphemeralPorts takes all ephemeral ports at the first address of a rig. It does not bind ports by number, because each such
// port has a socket, and parallel tests would run out of descriptors. It calls the engine, because as many connectors of the API
// would take too long.
func takeEphemeralPorts(t *testing.T, r *rig) {
	t.Helper()
	anyPort := provider.EndpointFrom(netip.AddrPortFrom(r.addr[0], 0))
	r.a.do(func(e *provider.Engine) {
		for port := 49152; port <= 65535; port++ {
			if _, o := e.NewSharedEndpoint(anyPort); o != provider.OutcomeSuccess {
				t.Errorf("%d ports taken: %v", port-49152, o)
			}
		}
	})
}

func TestNoEphemeralPortLeft(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1500, DatapathAuto)
	last, err := r.a.CreateConnector()
	must(t, err)
	takeEphemeralPorts(t, r)
	wantStatus(t, "bind", last.Bind(netip.AddrPortFrom(r.addr[0], 0)), ErrTooManyAddresses)
	e := newEnd(t, r.a, 4096)
	err = e.ctr.Connect(t.Context(), e.qp, netip.AddrPortFrom(r.addr[1], 7000), ConnectParams{})
	wantStatus(t, "connect", err, ErrTooManyAddresses)
}

// Connections accepted by a listener keep its port until their connectors are closed.
func TestListenerPortIsFreeWhenItsLastConnectorIs(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1500, DatapathAuto) // of its own: another test of a shared adapter could take the port as soon as it is free
	client, server := newEnd(t, r.a, 4096), newEnd(t, r.b, 4096)
	r.join(t, client, server) // closes its listener
	at, err := server.ctr.LocalAddress()
	must(t, err)
	free := func() error {
		l, err := r.b.CreateListener()
		must(t, err)
		defer l.Close()
		return l.Bind(at)
	}
	wantStatus(t, "connected", free(), ErrSharingViolation)
	disconnectBoth(t, client, server)
	wantStatus(t, "disconnected", free(), ErrSharingViolation)
	wantOneLine(t, free(), "bind "+at.String(), "in use by connectors or listeners that are not closed (1)", "the port of the listener they arrived over")
	must(t, server.ctr.Close())
	wantStatus(t, "closed", free(), StatusSuccess)
}

// connectToRival connects to a peer that has a connection with another host between the same endpoints.
func connectToRival(t *testing.T) (e *end, at netip.AddrPort, err error) {
	t.Helper()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	netlabtest.RefuseAsExisting(t, pair.B, netip.AddrPortFrom(pair.AddrB.Addr(), DefaultUDPPort))
	e = newEnd(t, openIn(t, pair.A, AdapterConfig{Address: pair.AddrA.Addr()}), 4096)
	at = netip.AddrPortFrom(pair.AddrB.Addr(), 7000)
	must(t, e.ctr.Bind(netip.AddrPortFrom(pair.AddrA.Addr(), 7200)))
	return e, at, e.ctr.Connect(t.Context(), e.qp, at, ConnectParams{})
}

func TestFourTupleExists(t *testing.T) {
	t.Parallel()
	e, at, err := connectToRival(t)
	wantStatus(t, "connect", err, ErrAddressAlreadyExists)
	wantOneLine(t, err, at.String())
	wantStatus(t, "connector after it", e.ctr.Connect(t.Context(), e.qp, at, ConnectParams{}), ErrConnectionInvalid) // C13
}

// If a host disappears silently and comes back with the same ND port, it is accepted within a second, also if the listener has not
// processed its first request.
func TestClientReturnsToTheQueue(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1500, DatapathAuto)
	l, at := listen(t, r.b, 0)
	local := netip.AddrPortFrom(r.addr[0], 7200)
	before := newEnd(t, r.a, 4096)
	must(t, before.ctr.Bind(local))
	connected := start(func() error { return before.ctr.Connect(t.Context(), before.qp, at, ConnectParams{}) })
	eventually(t, "request queued", func() bool { return r.b.Stats().Connections.Open == 1 })
	r.setLink(t, r.pair.B, false)
	must(t, r.a.Close())
	wantStatus(t, "first", finish(t, "connect", connected), ErrDeviceRemoved)
	r.setLink(t, r.pair.B, true)
	must(t, r.pair.AwaitCarrier())

	client, server := newEnd(t, openIn(t, r.pair.A, AdapterConfig{Address: r.addr[0]}), 4096), newEnd(t, r.b, 4096)
	must(t, client.ctr.Bind(local))
	connected = start(func() error {
		return client.ctr.Connect(t.Context(), client.qp, at, ConnectParams{PrivateData: []byte("again")})
	})
	eventually(t, "the first attempt has ended", func() (over bool) {
		r.b.do(func(e *provider.Engine) {
			over = l.l.Queued() == 1 && e.Stats().Contested == 1 && e.Stats().Connections == 2
		})
		return over
	})
	must(t, l.GetConnectionRequest(t.Context(), server.ctr))
	if data, err := server.ctr.PrivateData(); err != nil || string(data) != "again" {
		t.Errorf("private data %q, %v", data, err)
	}
	accepted := start(func() error { return server.ctr.Accept(t.Context(), server.qp, ConnectParams{}) })
	must(t, finish(t, "connect", connected))
	must(t, client.ctr.CompleteConnect(t.Context()))
	must(t, finish(t, "accept", accepted))
}

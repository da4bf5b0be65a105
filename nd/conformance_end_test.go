package nd

import (
	"net/netip"
	"testing"

	"github.com/ndxdp/ndxdp/provider"
)

// anyPort returns the first adapter's address with port 0.
func (r *rig) anyPort() netip.AddrPort { return netip.AddrPortFrom(r.addr[0], 0) }

// connected makes a call on a connection.
func connected(call func(t *testing.T, client, server *end) error) provoke {
	return func(t *testing.T, r *rig) error {
		client, server := r.connect(t, 4096)
		return call(t, client, server)
	}
}

func notifyDisconnect(t *testing.T, e *end) func() error {
	return func() error { return e.ctr.NotifyDisconnect(t.Context()) }
}

func (e *end) notified() bool { return e.ctr.notifications() > 0 }

func disconnect(t *testing.T, e *end) func() error {
	return func() error { return e.ctr.Disconnect(t.Context()) }
}

var endRows = map[string]provoke{
	"IND2Connector/NotifyDisconnect/ND_SUCCESS": connected(func(t *testing.T, client, server *end) error {
		err := endings(t, notifyDisconnect(t, client), client.notified, func() { must(t, server.ctr.Close()) })
		wantStatus(t, "after the event", client.ctr.NotifyDisconnect(t.Context()), StatusSuccess)
		return err
	}),
	"IND2Connector/NotifyDisconnect/ND_PENDING": connected(func(t *testing.T, client, _ *end) error {
		return waits(t, notifyDisconnect(t, client), client.notified, client.ctr.CancelOverlappedRequests)
	}),
	"IND2Connector/NotifyDisconnect/ND_CONNECTION_INVALID": completes(func(t *testing.T, client, _ *end) error {
		return client.ctr.NotifyDisconnect(t.Context())
	}),
	"IND2Connector/NotifyDisconnect/ND_CANCELED": connected(func(t *testing.T, client, _ *end) error {
		return endings(t, notifyDisconnect(t, client), client.notified, func() { must(t, client.ctr.Close()) })
	}),

	"IND2Connector/Disconnect/ND_SUCCESS": connected(func(t *testing.T, client, server *end) error {
		peer := start(disconnect(t, server))
		err := client.ctr.Disconnect(t.Context())
		wantStatus(t, "peer", finish(t, "disconnect", peer), StatusSuccess)
		return err
	}),
	"IND2Connector/Disconnect/ND_PENDING": connected(func(t *testing.T, client, _ *end) error {
		return waits(t, disconnect(t, client), in(client.ctr, provider.CtrDisconnecting), client.ctr.CancelOverlappedRequests)
	}),
	"IND2Connector/Disconnect/ND_CANCELED": connected(func(t *testing.T, client, _ *end) error {
		return endings(t, disconnect(t, client), in(client.ctr, provider.CtrDisconnecting), func() { must(t, client.qp.Close()) })
	}),
	"IND2Connector/Disconnect/ND_CONNECTION_INVALID": completes(func(t *testing.T, client, _ *end) error {
		return client.ctr.Disconnect(t.Context())
	}),
	"IND2Connector/Disconnect/ND_IO_TIMEOUT": func(t *testing.T, _ *rig) error {
		client, _ := newImpatientRig(t).connect(t, 4096)
		return client.ctr.Disconnect(t.Context()) // the peer's application never disconnects
	},
	"IND2Connector/Disconnect/ND_CONNECTION_ABORTED": connected(func(t *testing.T, client, server *end) error {
		return endings(t, disconnect(t, client), in(server.ctr, provider.CtrPeerGone), func() {
			must(t, server.qp.Write(1, []SGE{{Buffer: server.mr.Bytes()[:8]}}, 0, 0, 0)) // an access violation, which ends the connection
		})
	}),
}

// listens makes a call on a new listener of the second adapter.
func listens(call func(t *testing.T, l *Listener, r *rig) error) provoke {
	return func(t *testing.T, r *rig) error {
		l, err := r.b.CreateListener()
		must(t, err)
		t.Cleanup(func() { must(t, l.Close()) })
		return call(t, l, r)
	}
}

// gets waits for a request on a listener.
func gets(call func(t *testing.T, l *Listener, at netip.AddrPort, server *end, r *rig) error) provoke {
	return func(t *testing.T, r *rig) error {
		l, at := listen(t, r.b, 0)
		return call(t, l, at, newEnd(t, r.b, 64), r)
	}
}

var listenRows = map[string]provoke{
	"IND2Listener/Bind/ND_SUCCESS": listens(func(t *testing.T, l *Listener, r *rig) error {
		err := l.Bind(netip.AddrPortFrom(netip.IPv4Unspecified(), 0))
		must(t, l.Listen(0))
		if at, failed := l.LocalAddress(); failed != nil || at.Port() < 49152 {
			t.Errorf("address %v, %v", at, failed)
		}
		return err
	}),
	"IND2Listener/Bind/ND_SHARING_VIOLATION": listens(func(t *testing.T, l *Listener, r *rig) error {
		_, at := listen(t, r.b, 0)
		return l.Bind(at)
	}),
	"IND2Listener/Bind/ND_TOO_MANY_ADDRESSES": func(t *testing.T, _ *rig) error {
		r := noPorts(t)
		l, err := r.a.CreateListener()
		must(t, err)
		return l.Bind(r.anyPort())
	},
	"IND2Listener/Bind/ND_INVALID_ADDRESS": listens(func(_ *testing.T, l *Listener, r *rig) error { return l.Bind(r.anyPort()) }),
	"IND2Listener/Bind/STATUS_ADDRESS_ALREADY_ASSOCIATED": listens(func(t *testing.T, l *Listener, r *rig) error {
		must(t, l.Bind(netip.AddrPortFrom(r.addr[1], 0)))
		return l.Bind(netip.AddrPortFrom(r.addr[1], 0))
	}),
	"IND2Listener/Listen/ND_SUCCESS": listens(func(t *testing.T, l *Listener, r *rig) error {
		must(t, l.Bind(netip.AddrPortFrom(r.addr[1], 0)))
		return l.Listen(3)
	}),
	"IND2Listener/Listen/ND_INVALID_DEVICE_STATE": listens(func(t *testing.T, l *Listener, r *rig) error {
		wantStatus(t, "not bound", l.Listen(0), ErrInvalidDeviceState)
		must(t, l.Bind(netip.AddrPortFrom(r.addr[1], 0)))
		must(t, l.Listen(0))
		return l.Listen(0)
	}),
	"IND2Listener/GetLocalAddress/ND_SUCCESS": gets(func(t *testing.T, l *Listener, at netip.AddrPort, _ *end, _ *rig) error {
		got, err := l.LocalAddress()
		if got != at || at.Port() == 0 {
			t.Errorf("address %v, want %v", got, at)
		}
		return err
	}),
	"IND2Listener/GetLocalAddress/ND_INVALID_DEVICE_STATE": listens(func(_ *testing.T, l *Listener, _ *rig) error {
		_, err := l.LocalAddress()
		return err
	}),
	"IND2Listener/GetConnectionRequest/ND_SUCCESS": gets(func(t *testing.T, l *Listener, at netip.AddrPort, server *end, r *rig) error {
		client := newEnd(t, r.a, 64)
		start(func() error { return client.ctr.Connect(t.Context(), client.qp, at, helloParams) })
		err := l.GetConnectionRequest(t.Context(), server.ctr)
		if server.ctr.state() != provider.CtrRequested {
			t.Errorf("connector %v", server.ctr.state())
		}
		return err
	}),
	"IND2Listener/GetConnectionRequest/ND_PENDING": gets(func(t *testing.T, l *Listener, _ netip.AddrPort, server *end, _ *rig) error {
		return waits(t, func() error { return l.GetConnectionRequest(t.Context(), server.ctr) }, in(server.ctr, provider.CtrWaitReq),
			l.CancelOverlappedRequests)
	}),
	"IND2Listener/GetConnectionRequest/ND_CANCELED": gets(func(t *testing.T, l *Listener, _ netip.AddrPort, server *end, _ *rig) error {
		return endings(t, func() error { return l.GetConnectionRequest(t.Context(), server.ctr) }, in(server.ctr, provider.CtrWaitReq),
			func() { must(t, l.Close()) })
	}),
	"IND2Listener/GetConnectionRequest/ND_INVALID_DEVICE_STATE": listens(func(t *testing.T, l *Listener, r *rig) error {
		return l.GetConnectionRequest(t.Context(), newEnd(t, r.b, 64).ctr)
	}),
	"IND2Listener/GetConnectionRequest/ND_INVALID_PARAMETER_1": gets(func(t *testing.T, l *Listener, _ netip.AddrPort, _ *end, r *rig) error {
		wantStatus(t, "foreign", l.GetConnectionRequest(t.Context(), newEnd(t, r.a, 64).ctr), ErrInvalidParameterN(1))
		return l.GetConnectionRequest(t.Context(), nil)
	}),
	"IND2Listener/GetConnectionRequest/ND_CONNECTION_ACTIVE": gets(func(t *testing.T, l *Listener, _ netip.AddrPort, _ *end, r *rig) error {
		_, server, _ := r.requested(t)
		return l.GetConnectionRequest(t.Context(), server.ctr)
	}),
}

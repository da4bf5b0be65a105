package nd

import (
	"net/netip"
	"testing"

	"github.com/ndxdp/ndxdp/provider"
)

// binds binds a new connector.
func binds(bind func(t *testing.T, c *Connector, r *rig) error) provoke {
	return func(t *testing.T, r *rig) error { return bind(t, newEnd(t, r.a, 64).ctr, r) }
}

// taken is an address of the first adapter with a port that a listener has.
func (r *rig) taken(t *testing.T) netip.AddrPort {
	_, at := listen(t, r.a, 0)
	return at
}

// noPorts is an adapter whose ephemeral ports are all taken.
func noPorts(t *testing.T) *rig {
	r, _ := newLoopRig(t, DatapathUDP)
	takeEphemeralPorts(t, r)
	return r
}

// connects calls Connect on a new connector, to a listener that does not answer unless the test makes it.
func connects(connect func(t *testing.T, e *end, at netip.AddrPort, r *rig) error) provoke {
	return func(t *testing.T, r *rig) error {
		_, at := listen(t, r.b, 0)
		return connect(t, newEnd(t, r.a, 64), at, r)
	}
}

// connectTo connects to a fixed address.
func connectTo(dest string) provoke {
	return connects(func(t *testing.T, e *end, _ netip.AddrPort, _ *rig) error {
		return e.ctr.Connect(t.Context(), e.qp, netip.MustParseAddrPort(dest), ConnectParams{})
	})
}

var connectRows = map[string]provoke{
	"IND2Connector/Bind/ND_SUCCESS": binds(func(t *testing.T, c *Connector, r *rig) error {
		return c.Bind(netip.AddrPortFrom(r.addr[0], 0))
	}),
	"IND2Connector/Bind/ND_SHARING_VIOLATION": binds(func(t *testing.T, c *Connector, r *rig) error { return c.Bind(r.taken(t)) }),
	"IND2Connector/Bind/ND_TOO_MANY_ADDRESSES": func(t *testing.T, _ *rig) error {
		r := noPorts(t)
		return newEnd(t, r.a, 64).ctr.Bind(netip.AddrPortFrom(r.addr[0], 0))
	},
	"IND2Connector/Bind/ND_INVALID_ADDRESS": binds(func(t *testing.T, c *Connector, r *rig) error {
		return c.Bind(netip.AddrPortFrom(r.addr[1], 0))
	}),
	"IND2Connector/Bind/STATUS_ADDRESS_ALREADY_ASSOCIATED": binds(func(t *testing.T, c *Connector, r *rig) error {
		must(t, c.Bind(netip.AddrPortFrom(r.addr[0], 0)))
		return c.Bind(netip.AddrPortFrom(r.addr[0], 0))
	}),

	"IND2Connector/Connect/ND_SUCCESS": func(t *testing.T, r *rig) error {
		client, server, connected := r.requested(t)
		start(func() error { return server.ctr.Accept(t.Context(), server.qp, helloParams) })
		err := finish(t, "connect", connected)
		if client.ctr.state() != provider.CtrAccepted {
			t.Errorf("connector %v", client.ctr.state())
		}
		return err
	},
	"IND2Connector/Connect/ND_PENDING": connects(func(t *testing.T, e *end, at netip.AddrPort, _ *rig) error {
		return waits(t, func() error { return e.ctr.Connect(t.Context(), e.qp, at, helloParams) },
			in(e.ctr, provider.CtrConnecting), e.ctr.CancelOverlappedRequests)
	}),
	"IND2Connector/Connect/ND_INVALID_BUFFER_SIZE": connects(func(t *testing.T, e *end, at netip.AddrPort, _ *rig) error {
		return e.ctr.Connect(t.Context(), e.qp, at, ConnectParams{PrivateData: make([]byte, provider.MaxPrivateData+1)})
	}),
	"IND2Connector/Connect/ND_CANCELED": connects(func(t *testing.T, e *end, at netip.AddrPort, _ *rig) error {
		return endings(t, func() error { return e.ctr.Connect(t.Context(), e.qp, at, helloParams) },
			in(e.ctr, provider.CtrConnecting), func() { must(t, e.qp.Close()) })
	}),
	"IND2Connector/Connect/ND_CONNECTION_ACTIVE": func(t *testing.T, r *rig) error {
		client, _, _ := r.requested(t)
		return client.ctr.Connect(t.Context(), newEnd(t, r.a, 64).qp, unreachable, ConnectParams{})
	},
	"IND2Connector/Connect/ND_NETWORK_UNREACHABLE":  connectTo("192.0.2.1:7000"),
	"IND2Connector/Connect/ND_HOST_UNREACHABLE":     connectTo("10.99.0.78:7000"),
	"IND2Connector/Connect/STATUS_BAD_NETWORK_NAME": connectTo("0.0.0.0:7000"),
	"IND2Connector/Connect/ND_INVALID_ADDRESS":      connectTo("[2001:db8::1]:7000"),
	"IND2Connector/Connect/ND_CONNECTION_REFUSED": connects(func(t *testing.T, e *end, _ netip.AddrPort, r *rig) error {
		return e.ctr.Connect(t.Context(), e.qp, netip.AddrPortFrom(r.addr[1], 7998), ConnectParams{})
	}),
	"IND2Connector/Connect/ND_IO_TIMEOUT": func(t *testing.T, _ *rig) error {
		r := newImpatientRig(t)
		must(t, r.b.Close())
		silenceAt(t, r.pair.B, r.addr[1])
		e := newEnd(t, r.a, 64)
		return e.ctr.Connect(t.Context(), e.qp, netip.AddrPortFrom(r.addr[1], 7000), ConnectParams{})
	},
	"IND2Connector/Connect/ND_ADDRESS_ALREADY_EXISTS": func(t *testing.T, _ *rig) error {
		_, _, err := connectToRival(t)
		return err
	},
	"IND2Connector/Connect/ND_TOO_MANY_ADDRESSES": func(t *testing.T, _ *rig) error {
		r := noPorts(t)
		e := newEnd(t, r.a, 64)
		return e.ctr.Connect(t.Context(), e.qp, netip.AddrPortFrom(r.addr[1], 7000), ConnectParams{})
	},
	"IND2Connector/Connect/ND_CONNECTION_INVALID": func(t *testing.T, r *rig) error {
		_, server, _ := r.requested(t)
		return server.ctr.Connect(t.Context(), server.qp, unreachable, ConnectParams{})
	},
	"IND2Connector/Connect/ND_INVALID_DEVICE_STATE": func(t *testing.T, r *rig) error {
		client, server := r.connect(t, 64)
		disconnectBoth(t, client, server)
		return newEnd(t, r.a, 64).ctr.Connect(t.Context(), client.qp, unreachable, ConnectParams{})
	},
	"IND2Connector/Connect/ND_INVALID_PARAMETER_1": connects(func(t *testing.T, e *end, at netip.AddrPort, r *rig) error {
		foreign := newEnd(t, r.b, 64).qp
		wantStatus(t, "foreign", e.ctr.Connect(t.Context(), foreign, at, ConnectParams{}), ErrInvalidParameterN(1))
		return e.ctr.Connect(t.Context(), nil, at, ConnectParams{})
	}),
}

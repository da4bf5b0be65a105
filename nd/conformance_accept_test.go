package nd

import (
	"context"
	"testing"

	"github.com/ndxdp/ndxdp/provider"
)

// completes makes a call on the active side after the peer has accepted.
func completes(call func(t *testing.T, client, server *end) error) provoke {
	return func(t *testing.T, r *rig) error {
		client, server, _ := r.accepted(t)
		return call(t, client, server)
	}
}

// answers makes a call on the passive side after a request has arrived.
func answers(call func(t *testing.T, client, server *end) error) provoke {
	return func(t *testing.T, r *rig) error {
		client, server, _ := r.requested(t)
		return call(t, client, server)
	}
}

// accept is Accept with the parameters of the tests.
func (e *end) accept(ctx context.Context) error { return e.ctr.Accept(ctx, e.qp, helloParams) }

// abandoned is a request whose sender has given up. The passive side knows of that.
func abandoned(call func(t *testing.T, server *end) error) provoke {
	return answers(func(t *testing.T, client, server *end) error {
		client.ctr.CancelOverlappedRequests()
		eventually(t, "the abandonment is known", func() (known bool) {
			server.ctr.adapter.do(func(*provider.Engine) { known = server.ctr.k.Aborted() })
			return known
		})
		return call(t, server)
	})
}

// cut is a call of the handshake that blocks because the peer's link is down.
func cut(call func(t *testing.T, r *rig, client, server *end) error) provoke {
	return func(t *testing.T, _ *rig) error {
		r := newImpatientRig(t)
		client, server, _ := r.accepted(t)
		r.setLink(t, r.pair.B, false)
		return call(t, r, client, server)
	}
}

var acceptRows = map[string]provoke{
	"IND2Connector/CompleteConnect/ND_SUCCESS": completes(func(t *testing.T, client, _ *end) error {
		err := client.ctr.CompleteConnect(t.Context())
		wantStatus(t, "write", client.qp.Write(1, nil, 0, 0, 0), StatusSuccess)
		return err
	}),
	"IND2Connector/CompleteConnect/ND_CONNECTION_INVALID": answers(func(t *testing.T, client, _ *end) error {
		return client.ctr.CompleteConnect(t.Context())
	}),
	"IND2Connector/CompleteConnect/ND_PENDING": cut(func(t *testing.T, _ *rig, client, _ *end) error {
		return waits(t, func() error { return client.ctr.CompleteConnect(t.Context()) }, in(client.ctr, provider.CtrCompleting),
			client.ctr.CancelOverlappedRequests)
	}),
	"IND2Connector/CompleteConnect/ND_IO_TIMEOUT": cut(func(t *testing.T, _ *rig, client, _ *end) error {
		return client.ctr.CompleteConnect(t.Context())
	}),
	"IND2Connector/CompleteConnect/ND_CONNECTION_ABORTED": completes(func(t *testing.T, client, server *end) error {
		server.ctr.CancelOverlappedRequests()
		return client.ctr.CompleteConnect(t.Context())
	}),
	"IND2Connector/CompleteConnect/ND_CANCELED": cut(func(t *testing.T, _ *rig, client, _ *end) error {
		return endings(t, func() error { return client.ctr.CompleteConnect(t.Context()) }, in(client.ctr, provider.CtrCompleting),
			func() { must(t, client.qp.Close()) })
	}),

	"IND2Connector/Accept/ND_SUCCESS": func(t *testing.T, r *rig) error {
		client, _, done := r.accepted(t)
		must(t, client.ctr.CompleteConnect(t.Context()))
		return finish(t, "accept", done)
	},
	"IND2Connector/Accept/ND_PENDING": answers(func(t *testing.T, _, server *end) error {
		return waits(t, func() error { return server.accept(t.Context()) }, in(server.ctr, provider.CtrAccepting),
			server.ctr.CancelOverlappedRequests)
	}),
	"IND2Connector/Accept/ND_CANCELED": answers(func(t *testing.T, _, server *end) error {
		return endings(t, func() error { return server.accept(t.Context()) }, in(server.ctr, provider.CtrAccepting),
			func() { must(t, server.qp.Close()) })
	}),
	"IND2Connector/Accept/ND_CONNECTION_ACTIVE": func(t *testing.T, r *rig) error {
		_, server, _ := r.requested(t)
		_, other, _ := r.accepted(t)
		return server.ctr.Accept(t.Context(), other.qp, helloParams)
	},
	"IND2Connector/Accept/ND_CONNECTION_ABORTED": abandoned(func(t *testing.T, server *end) error { return server.accept(t.Context()) }),
	"IND2Connector/Accept/ND_INVALID_BUFFER_SIZE": answers(func(t *testing.T, _, server *end) error {
		return server.ctr.Accept(t.Context(), server.qp, ConnectParams{PrivateData: make([]byte, provider.MaxPrivateData+1)})
	}),
	"IND2Connector/Accept/ND_IO_TIMEOUT": func(t *testing.T, _ *rig) error {
		r := newImpatientRig(t)
		_, _, done := r.accepted(t)
		r.setLink(t, r.pair.A, false)
		return finish(t, "accept", done)
	},
	"IND2Connector/Accept/ND_CONNECTION_REFUSED": func(t *testing.T, r *rig) error {
		client, _, done := r.accepted(t)
		must(t, client.ctr.Reject(nil))
		return finish(t, "accept", done)
	},
	"IND2Connector/Accept/ND_CONNECTION_INVALID": completes(func(t *testing.T, _, server *end) error {
		return server.ctr.Accept(t.Context(), newEnd(t, server.ctr.adapter, 64).qp, helloParams)
	}),
	"IND2Connector/Accept/ND_INVALID_DEVICE_STATE": func(t *testing.T, r *rig) error {
		client, spent := r.connect(t, 64)
		disconnectBoth(t, client, spent)
		_, server, _ := r.requested(t)
		return server.ctr.Accept(t.Context(), spent.qp, helloParams)
	},
	"IND2Connector/Accept/ND_INVALID_PARAMETER_1": answers(func(t *testing.T, client, server *end) error {
		wantStatus(t, "foreign", server.ctr.Accept(t.Context(), client.qp, helloParams), ErrInvalidParameterN(1))
		return server.ctr.Accept(t.Context(), nil, helloParams)
	}),

	"IND2Connector/Reject/ND_SUCCESS": func(t *testing.T, r *rig) error {
		_, server, connected := r.requested(t)
		err := server.ctr.Reject([]byte("no"))
		wantStatus(t, "connect", finish(t, "connect", connected), ErrConnectionRefused)
		return err
	},
	"IND2Connector/Reject/ND_CONNECTION_ABORTED": abandoned(func(_ *testing.T, server *end) error { return server.ctr.Reject(nil) }),
	"IND2Connector/Reject/ND_INVALID_BUFFER_SIZE": answers(func(_ *testing.T, _, server *end) error {
		return server.ctr.Reject(make([]byte, provider.MaxPrivateData+1))
	}),
	"IND2Connector/Reject/ND_CONNECTION_INVALID": completes(func(_ *testing.T, _, server *end) error { return server.ctr.Reject(nil) }),
}

// over is a connection that both sides have ended.
func over(call func(t *testing.T, c *Connector) error) provoke {
	return func(t *testing.T, r *rig) error {
		client, server := r.connect(t, 64)
		disconnectBoth(t, client, server)
		return call(t, client.ctr)
	}
}

var askRows = map[string]provoke{
	"IND2Connector/GetReadLimits/ND_SUCCESS": completes(func(t *testing.T, client, _ *end) error {
		in, out, err := client.ctr.ReadLimits()
		if in != helloParams.InboundReadLimit || out != helloParams.OutboundReadLimit {
			t.Errorf("limits %d and %d", in, out)
		}
		return err
	}),
	"IND2Connector/GetReadLimits/ND_CONNECTION_INVALID": answers(func(_ *testing.T, client, _ *end) error {
		_, _, err := client.ctr.ReadLimits()
		return err
	}),
	"IND2Connector/GetPrivateData/ND_SUCCESS": answers(func(t *testing.T, _, server *end) error {
		buf := make([]byte, 100)
		n, err := server.ctr.GetPrivateData(buf)
		if string(buf[:n]) != "hello" {
			t.Errorf("%q", buf[:n])
		}
		return err
	}),
	"IND2Connector/GetPrivateData/ND_BUFFER_OVERFLOW": answers(func(t *testing.T, _, server *end) error {
		n, err := server.ctr.GetPrivateData(nil) // D1
		wantStatus(t, "nil", err, ErrBufferOverflow)
		if n != 5 {
			t.Errorf("%d bytes needed, want 5", n)
		}
		buf := []byte("12345")
		n, err = server.ctr.GetPrivateData(buf[:3])
		if n != 5 || string(buf) != "hel45" {
			t.Errorf("%d bytes needed, %q", n, buf)
		}
		return err
	}),
	"IND2Connector/GetPrivateData/ND_CONNECTION_INVALID": answers(func(_ *testing.T, client, _ *end) error {
		_, err := client.ctr.GetPrivateData(nil)
		return err
	}),
	"IND2Connector/GetLocalAddress/ND_SUCCESS": answers(func(t *testing.T, client, server *end) error {
		at, err := client.ctr.LocalAddress()
		if peer, failed := server.ctr.PeerAddress(); failed != nil || peer != at {
			t.Errorf("the peer knows %v, %v, want %v", peer, failed, at)
		}
		return err
	}),
	"IND2Connector/GetLocalAddress/ND_CONNECTION_INVALID": binds(func(t *testing.T, c *Connector, r *rig) error {
		over(func(t *testing.T, c *Connector) error {
			_, err := c.LocalAddress()
			wantStatus(t, "over", err, ErrConnectionInvalid)
			return nil
		})(t, r)
		must(t, c.Bind(r.anyPort()))
		_, err := c.LocalAddress()
		return err
	}),
	"IND2Connector/GetPeerAddress/ND_SUCCESS": completes(func(t *testing.T, client, server *end) error {
		at, err := client.ctr.PeerAddress()
		if local, failed := server.ctr.LocalAddress(); failed != nil || local != at {
			t.Errorf("the peer is %v, %v, want %v", local, failed, at)
		}
		return err
	}),
	"IND2Connector/GetPeerAddress/ND_CONNECTION_INVALID": answers(func(_ *testing.T, client, _ *end) error {
		_, err := client.ctr.PeerAddress()
		return err
	}),
}

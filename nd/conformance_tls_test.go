package nd

import (
	"context"
	"crypto/tls"
	"net/netip"
	"sync"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/testhelp"
	"github.com/ndxdp/ndxdp/provider"
)

// old is a configuration without TLS 1.3.
var old = &tls.Config{MaxVersion: tls.VersionTLS12}

// shakes makes an end with TLS connect to a listener with TLS that accepts what comes. change spoils the configurations.
func shakes(change func(dialer, listener *tls.Config)) provoke {
	return func(t *testing.T, r *rig) error {
		dialer, listener := mutual(testhelp.NewAuthority(t))
		change(dialer, listener)
		l, at := tlsListener(t, r.b, listener, TLSRequired)
		client, server := r.ends(t)
		must(t, client.ctr.UseTLS(dialer))
		ctx, cancel := context.WithCancel(t.Context())
		served := start(func() error {
			if err := l.GetConnectionRequest(ctx, server.ctr); err != nil {
				return err
			}
			return server.ctr.Accept(ctx, server.qp, helloParams)
		})
		t.Cleanup(func() { cancel(); _ = finish(t, "the server", served) })
		return finish(t, "connect", start(func() error { return client.ctr.Connect(t.Context(), client.qp, at, helloParams) }))
	}
}

// needsTLS is an adapter with RequireTLS.
func needsTLS(t *testing.T) *Adapter {
	t.Helper()
	_, port := newLoopRig(t, DatapathUDP)
	a, err := OpenAdapter(AdapterConfig{Address: netlabtest.Loopback()[0], UDPPort: port, Datapath: DatapathUDP, RequireTLS: true})
	must(t, err)
	t.Cleanup(func() { must(t, a.Close()) })
	return a
}

var tlsRows = map[string]provoke{
	"IND2Connector/UseTLS/ND_SUCCESS": binds(func(t *testing.T, c *Connector, r *rig) error {
		must(t, c.UseTLS(&tls.Config{}))
		must(t, c.Bind(netip.AddrPortFrom(r.addr[0], 0)))
		return c.UseTLS(nil)
	}),
	"IND2Connector/UseTLS/ND_INVALID_PARAMETER": binds(func(_ *testing.T, c *Connector, _ *rig) error { return c.UseTLS(old) }),
	"IND2Connector/UseTLS/ND_CONNECTION_ACTIVE": func(t *testing.T, r *rig) error {
		client, _, _ := r.requested(t)
		wantStatus(t, "nothing", client.ctr.UseTLS(nil), ErrConnectionActive)
		return client.ctr.UseTLS(&tls.Config{})
	},
	"IND2Connector/UseTLS/ND_CONNECTION_INVALID": func(t *testing.T, r *rig) error {
		_, server, _ := r.requested(t)
		wantStatus(t, "passive", server.ctr.UseTLS(nil), ErrConnectionInvalid)
		a, b := r.connect(t, 64)
		disconnectBoth(t, a, b)
		return a.ctr.UseTLS(&tls.Config{})
	},
	"IND2Connector/UseTLS/ND_DEVICE_REMOVED": afterRemoval(func(_ context.Context, _, idle *end, _ *Listener) error {
		return idle.ctr.UseTLS(&tls.Config{})
	}),
	"IND2Connector/TLS/(value)": func(t *testing.T, r *rig) error {
		dialer, listener := mutual(testhelp.NewAuthority(t))
		l, at := tlsListener(t, r.b, listener, TLSAllowed)
		for _, cfg := range []*tls.Config{dialer, nil} {
			client, server := r.ends(t)
			must(t, client.ctr.UseTLS(cfg))
			start(func() error { return client.ctr.Connect(t.Context(), client.qp, at, helloParams) })
			must(t, l.GetConnectionRequest(t.Context(), server.ctr))
			if s, ok := server.ctr.TLS(); ok != (cfg != nil) || ok && s.PeerCertificates[0].Subject.CommonName != "dialer" {
				t.Errorf("%v: %+v", ok, s)
			}
		}
		return nil
	},
	"IND2Connector/Connect/ND_INVALID_PARAMETER": func(t *testing.T, _ *rig) error {
		e := newEnd(t, needsTLS(t), 64)
		return e.ctr.Connect(t.Context(), e.qp, unreachable, helloParams)
	},
	"IND2Connector/Connect:TLS/ND_SUCCESS":            shakes(func(_, _ *tls.Config) {}),
	"IND2Connector/Connect:TLS/ND_CONNECTION_ABORTED": shakes(func(d, _ *tls.Config) { d.ServerName = "node8" }),
	"IND2Connector/Connect:TLS/ND_CONNECTION_REFUSED": func(t *testing.T, r *rig) error {
		_, listener := mutual(testhelp.NewAuthority(t))
		for _, c := range []struct{ dialer, listener *tls.Config }{{&tls.Config{}, nil}, {nil, listener}} {
			_, at := tlsListener(t, r.b, c.listener, TLSRequired)
			e := newEnd(t, r.a, 64)
			must(t, e.ctr.UseTLS(c.dialer))
			wantStatus(t, "only one side uses TLS", e.ctr.Connect(t.Context(), e.qp, at, helloParams), ErrConnectionRefused)
		}
		return shakes(func(d, _ *tls.Config) { d.Certificates = nil })(t, r)
	},
	"IND2Connector/Connect:TLS/ND_CANCELED": func(t *testing.T, r *rig) error {
		dialer, listener := mutual(testhelp.NewAuthority(t))
		asked, answer := make(chan struct{}), make(chan struct{})
		tell := sync.OnceFunc(func() { close(asked) }) // a ClientHello that is late may begin another handshake
		listener.GetCertificate, listener.Certificates = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			tell()
			<-answer
			return nil, ErrCanceled
		}, nil
		_, at := tlsListener(t, r.b, listener, TLSRequired)
		t.Cleanup(func() { close(answer) })
		e := newEnd(t, r.a, 64)
		must(t, e.ctr.UseTLS(dialer))
		return endings(t, func() error { return e.ctr.Connect(t.Context(), e.qp, at, helloParams) }, func() bool {
			select {
			case <-asked:
				return e.ctr.state() == provider.CtrConnecting
			default:
				return false
			}
		}, e.ctr.CancelOverlappedRequests)
	},

	"IND2Listener/UseTLS/ND_SUCCESS": listens(func(t *testing.T, l *Listener, r *rig) error {
		_, cfg := mutual(testhelp.NewAuthority(t))
		must(t, l.UseTLS(cfg, TLSAllowed))
		must(t, l.Bind(netip.AddrPortFrom(r.addr[1], 0)))
		return l.UseTLS(nil, TLSRequired)
	}),
	"IND2Listener/UseTLS/ND_INVALID_PARAMETER": listens(func(t *testing.T, l *Listener, _ *rig) error {
		wantStatus(t, "policy", l.UseTLS(nil, 2), ErrInvalidParameter)
		wantStatus(t, "no certificate", l.UseTLS(&tls.Config{}, TLSRequired), ErrInvalidParameter)
		return l.UseTLS(old, TLSRequired)
	}),
	"IND2Listener/UseTLS/ND_INVALID_DEVICE_STATE": gets(func(t *testing.T, l *Listener, _ netip.AddrPort, _ *end, _ *rig) error {
		wantStatus(t, "listening", l.UseTLS(nil, TLSRequired), ErrInvalidDeviceState)
		must(t, l.Close())
		return l.UseTLS(nil, TLSRequired)
	}),
	"IND2Listener/UseTLS/ND_DEVICE_REMOVED": afterRemoval(func(_ context.Context, _, _ *end, l *Listener) error {
		return l.UseTLS(nil, TLSRequired)
	}),
	"IND2Listener/Listen/ND_INVALID_PARAMETER": func(t *testing.T, _ *rig) error {
		_, cfg := mutual(testhelp.NewAuthority(t))
		a := needsTLS(t)
		l, err := a.CreateListener()
		must(t, err)
		t.Cleanup(func() { must(t, l.Close()) })
		must(t, l.Bind(netip.AddrPortFrom(a.verbs.Addr, 0)))
		wantStatus(t, "no TLS", l.Listen(0), ErrInvalidParameter)
		must(t, l.UseTLS(cfg, TLSAllowed))
		return l.Listen(0)
	},
}

package ndk

import (
	"crypto/tls"
	"errors"
	"net/netip"
	"sync"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/testhelp"
)

// old is a configuration without TLS 1.3.
var old = &tls.Config{MaxVersion: tls.VersionTLS12}

// within returns the status that an error of UseTLS wraps.
func within(err error) (s Status) {
	errors.As(err, &s)
	return s
}

// mutual returns configurations that verify each other, by a name, because tests have several addresses.
func mutual(t *testing.T) (dialer, listener *tls.Config) {
	t.Helper()
	dialer, listener = testhelp.NewAuthority(t).Mutual()
	dialer.ServerName = "node7"
	return dialer, listener
}

// idleListener makes a listener that does not listen.
func idleListener(t *testing.T, a *Adapter) *Listener {
	t.Helper()
	l, s := a.CreateListener(func(any, *Connector) {}, nil, nil, nil)
	created(t, l, s)
	t.Cleanup(func() { closed(t, l.Close) })
	return l
}

// secureListener accepts what comes for the queue pair of an end. seen receives the connectors of its requests.
func (r *rig) secureListener(t *testing.T, cfg *tls.Config, policy TLSPolicy) (at netip.AddrPort, seen <-chan *Connector) {
	t.Helper()
	server, requests := newEnd(t, r.b, 64), make(chan *Connector, 4)
	l, s := r.b.CreateListener(func(_ any, c *Connector) {
		requests <- c
		c.Accept(server.qp, hello, nil, nil, func(any, Status) {}, nil)
	}, nil, nil, nil)
	created(t, l, s)
	t.Cleanup(func() {
		for len(requests) > 0 {
			closed(t, (<-requests).Close)
		}
		closed(t, l.Close)
	})
	must(t, l.UseTLS(cfg, policy))
	want(t, "listen", l.Listen(netipPort(r.b, 0), nil, nil), StatusSuccess)
	at, s = l.LocalAddress()
	want(t, "local address", s, StatusSuccess)
	return at, requests
}

// shake makes an end with TLS connect to a listener with TLS. change spoils the configurations.
func (r *rig) shake(t *testing.T, change func(dialer, listener *tls.Config)) (*end, Status) {
	t.Helper()
	dialer, listener := mutual(t)
	change(dialer, listener)
	at, seen := r.secureListener(t, listener, TLSRequired)
	e := newEnd(t, r.a, 64)
	must(t, e.connector(t).UseTLS(dialer))
	s := e.dial(t, at).finish(t)
	if s != StatusSuccess && len(seen) != 0 {
		t.Error("the listener heard of a peer that TLS refused")
	}
	return e, s
}

// needsTLS is an adapter with RequireTLS.
func needsTLS(t *testing.T) *Adapter {
	t.Helper()
	return openAdapter(t, AdapterConfig{Address: netlabtest.Loopback()[0], UDPPort: netlabtest.FreePort(t), Datapath: "udp", RequireTLS: true})
}

// tlsRows has the statuses of TLS.
var tlsRows = map[string]provoke{
	"Connector/NDK_FN_CONNECT:TLS/STATUS_SUCCESS": func(t *testing.T, r *rig) Status {
		_, s := r.shake(t, func(_, _ *tls.Config) {})
		return s
	},
	"Connector/NDK_FN_CONNECT:TLS/STATUS_CONNECTION_ABORTED": func(t *testing.T, r *rig) Status {
		_, s := r.shake(t, func(d, _ *tls.Config) { d.ServerName = "node8" })
		return s
	},
	"Connector/NDK_FN_CONNECT:TLS/STATUS_CONNECTION_REFUSED": func(t *testing.T, r *rig) Status {
		_, listener := mutual(t)
		for _, c := range []struct{ dialer, listener *tls.Config }{{&tls.Config{}, nil}, {nil, listener}} {
			at, _ := r.secureListener(t, c.listener, TLSRequired)
			e := newEnd(t, r.a, 64)
			must(t, e.connector(t).UseTLS(c.dialer))
			want(t, "only one side uses TLS", e.dial(t, at).finish(t), StatusConnectionRefused)
		}
		_, s := r.shake(t, func(d, _ *tls.Config) { d.Certificates = nil })
		return s
	},
	"Connector/NDK_FN_CONNECT:TLS/STATUS_INVALID_PARAMETER": func(t *testing.T, _ *rig) Status {
		return newEnd(t, needsTLS(t), 64).dial(t, netip.AddrPortFrom(loopback[1], 9)).inline
	},
	"Connector/NDK_FN_CONNECT:TLS/STATUS_CANCELLED": func(t *testing.T, r *rig) Status {
		dialer, listener := mutual(t)
		asked, answer := make(chan struct{}), make(chan struct{})
		tell := sync.OnceFunc(func() { close(asked) }) // a ClientHello that is late may begin another handshake
		listener.GetCertificate, listener.Certificates = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			tell()
			<-answer
			return nil, StatusCancelled
		}, nil
		at, _ := r.secureListener(t, listener, TLSRequired)
		t.Cleanup(func() { close(answer) })
		e := newEnd(t, r.a, 64)
		must(t, e.connector(t).UseTLS(dialer))
		p := e.dial(t, at)
		receive(t, "the handshake", asked)
		closed(t, e.ctr.Close)
		e.ctr = nil
		return p.finish(t)
	},

	"Connector/UseTLS/STATUS_SUCCESS": func(t *testing.T, r *rig) Status {
		c := newEnd(t, r.a, 64).connector(t)
		must(t, c.UseTLS(&tls.Config{}))
		return within(c.UseTLS(nil))
	},
	"Connector/UseTLS/STATUS_INVALID_PARAMETER": func(t *testing.T, r *rig) Status {
		return within(newEnd(t, r.a, 64).connector(t).UseTLS(old))
	},
	"Connector/UseTLS/STATUS_CONNECTION_ACTIVE": func(t *testing.T, r *rig) Status {
		client, _, _ := r.requested(t)
		want(t, "nothing", within(client.ctr.UseTLS(nil)), StatusConnectionActive)
		return within(client.ctr.UseTLS(&tls.Config{}))
	},
	"Connector/UseTLS/STATUS_CONNECTION_INVALID": func(t *testing.T, r *rig) Status {
		_, server, _ := r.requested(t)
		want(t, "passive", within(server.ctr.UseTLS(nil)), StatusConnectionInvalid)
		a, b := r.connected(t)
		parted(t, a, b)
		return within(a.ctr.UseTLS(&tls.Config{}))
	},
	"Connector/UseTLS/STATUS_DEVICE_REMOVED": func(t *testing.T, _ *rig) Status {
		r := newVethRig(t)
		c := newEnd(t, r.a, 64).connector(t)
		r.removeInterface(t)
		return within(c.UseTLS(&tls.Config{}))
	},
	"Connector/TLS/(value)": func(t *testing.T, r *rig) Status {
		dialer, listener := mutual(t)
		at, seen := r.secureListener(t, listener, TLSAllowed)
		for _, cfg := range []*tls.Config{dialer, nil} {
			e := newEnd(t, r.a, 64)
			must(t, e.connector(t).UseTLS(cfg))
			e.dial(t, at)
			c := receive(t, "connect event", seen)
			if s, ok := c.TLS(); ok != (cfg != nil) || ok && s.PeerCertificates[0].Subject.CommonName != "dialer" {
				t.Errorf("%v: %+v", ok, s)
			}
			closed(t, c.Close)
		}
		return noStatus
	},
	"Connector/TLSError/(value)": func(t *testing.T, r *rig) Status {
		for name, c := range map[string]struct {
			change func(d, l *tls.Config)
			is     func(error) bool
		}{
			"nothing": {func(_, _ *tls.Config) {}, func(err error) bool { return err == nil }},
			"here":    {func(d, _ *tls.Config) { d.ServerName = "node8" }, func(err error) bool { return errors.As(err, new(*tls.CertificateVerificationError)) }},
			"there":   {func(d, _ *tls.Config) { d.Certificates = nil }, func(err error) bool { return errors.As(err, new(tls.AlertError)) }},
		} {
			if e, _ := r.shake(t, c.change); !c.is(e.ctr.TLSError()) {
				t.Errorf("%s: %v", name, e.ctr.TLSError())
			}
		}
		return noStatus
	},
	"Listener/UseTLS/STATUS_SUCCESS": func(t *testing.T, r *rig) Status {
		_, cfg := mutual(t)
		l := idleListener(t, r.b)
		must(t, l.UseTLS(cfg, TLSAllowed))
		return within(l.UseTLS(nil, TLSRequired))
	},
	"Listener/UseTLS/STATUS_INVALID_PARAMETER": func(t *testing.T, r *rig) Status {
		l := idleListener(t, r.b)
		want(t, "policy", within(l.UseTLS(nil, 2)), StatusInvalidParameter)
		want(t, "no certificate", within(l.UseTLS(&tls.Config{}, TLSRequired)), StatusInvalidParameter)
		return within(l.UseTLS(old, TLSRequired))
	},
	"Listener/UseTLS/STATUS_INVALID_DEVICE_STATE": func(t *testing.T, r *rig) Status {
		l, _, _ := listens(t, r.b)
		return within(l.UseTLS(nil, TLSRequired))
	},
	"Listener/UseTLS/STATUS_DEVICE_REMOVED": func(t *testing.T, _ *rig) Status {
		r := newVethRig(t)
		l := idleListener(t, r.a)
		r.removeInterface(t)
		return within(l.UseTLS(nil, TLSRequired))
	},
	"Listener/NDK_FN_LISTEN/STATUS_INVALID_PARAMETER": func(t *testing.T, _ *rig) Status {
		_, cfg := mutual(t)
		a := needsTLS(t)
		l := idleListener(t, a)
		want(t, "no TLS", l.Listen(netipPort(a, 0), nil, nil), StatusInvalidParameter)
		must(t, l.UseTLS(cfg, TLSAllowed))
		return l.Listen(netipPort(a, 0), nil, nil)
	},
}

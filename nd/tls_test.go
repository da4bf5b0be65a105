package nd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/testhelp"
)

// mutual returns configurations that verify each other, by a name, because tests have loopback addresses of their own.
func mutual(authority *testhelp.Authority) (dialer, listener *tls.Config) {
	dialer, listener = authority.Mutual()
	dialer.ServerName = "node7"
	return dialer, listener
}

// tlsListener listens with a TLS configuration.
func tlsListener(t *testing.T, a *Adapter, cfg *tls.Config, policy TLSPolicy) (*Listener, netip.AddrPort) {
	t.Helper()
	l, err := a.CreateListener()
	must(t, err)
	t.Cleanup(func() { must(t, l.Close()) })
	must(t, l.UseTLS(cfg, policy))
	must(t, l.Bind(netip.AddrPortFrom(a.QueryAddressList()[0], 0)))
	must(t, l.Listen(0))
	at, err := l.LocalAddress()
	must(t, err)
	return l, at
}

// The application sees the verified peer before Accept, and the private data, which travel encrypted, as without TLS. All operations move
// bytes. A rejection has its private data.
func TestTLSConnection(t *testing.T) {
	r, _ := newLoopRig(t, DatapathUDP)
	dialer, listener := mutual(testhelp.NewAuthority(t))
	l, at := tlsListener(t, r.b, listener, TLSRequired)
	for _, accept := range []bool{true, false} {
		client, server := newEnd(t, r.a, 1<<20), newEnd(t, r.b, 1<<20)
		must(t, client.ctr.UseTLS(dialer))
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		connected := start(func() error {
			return client.ctr.Connect(ctx, client.qp, at, ConnectParams{InboundReadLimit: 4, OutboundReadLimit: 4, PrivateData: []byte("hello")})
		})
		must(t, l.GetConnectionRequest(ctx, server.ctr))
		state, ok := server.ctr.TLS()
		if !ok || len(state.VerifiedChains) == 0 || state.PeerCertificates[0].Subject.CommonName != "dialer" {
			t.Fatalf("before Accept: %v, %+v", ok, state.PeerCertificates)
		}
		if data, err := server.ctr.PrivateData(); err != nil || string(data) != "hello" {
			t.Errorf("private data %q, %v", data, err)
		}
		if !accept {
			must(t, server.ctr.Reject([]byte("not you")))
			wantStatus(t, "rejected", finish(t, "connect", connected), ErrConnectionRefused)
			if data, err := client.ctr.PrivateData(); err != nil || string(data) != "not you" {
				t.Errorf("the reason is %q, %v", data, err)
			}
			continue
		}
		accepted := start(func() error {
			return server.ctr.Accept(ctx, server.qp, ConnectParams{InboundReadLimit: 4, OutboundReadLimit: 4})
		})
		must(t, finish(t, "connect", connected))
		if state, ok := client.ctr.TLS(); !ok || state.PeerCertificates[0].Subject.CommonName != "listener" || state.NegotiatedProtocol != "ndxdp" {
			t.Errorf("after Connect: %v, %+v", ok, state)
		}
		must(t, client.ctr.CompleteConnect(ctx))
		must(t, finish(t, "accept", accepted))
		for i := range client.mr.Bytes() {
			client.mr.Bytes()[i] = byte(i * 7)
		}
		must(t, client.qp.Write(1, []SGE{client.mr.SGE(0, 1<<19)}, server.mr.Address(), server.mr.RemoteToken(), 0))
		client.wantResult(t, 1, RequestWrite, StatusSuccess)
		must(t, client.qp.Read(2, []SGE{client.mr.SGE(1<<19, 1<<19)}, server.mr.Address(), server.mr.RemoteToken(), 0))
		client.wantResult(t, 2, RequestRead, StatusSuccess)
		r.a.Stats() // tells the race detector that the engine is done
		if b := client.mr.Bytes(); string(b[:1<<19]) != string(b[1<<19:]) {
			t.Error("other bytes came back")
		}
		wantStatus(t, "UseTLS on a connection", client.ctr.UseTLS(nil), ErrConnectionActive)
	}
}

// Each refusal has its status, its cause for errors.As, and advice. The listener sees no request of a peer that it refuses.
func TestTLSRefusals(t *testing.T) {
	r, _ := newLoopRig(t, DatapathUDP)
	authority, stranger := testhelp.NewAuthority(t), testhelp.NewAuthority(t)
	expired := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }
	denied := errors.New("this identity has no access")
	for name, c := range map[string]struct {
		change func(dialer, listener *tls.Config)
		status Status
		alert  tls.AlertError // of the peer; 0 if the own check failed
		says   string
	}{
		"unknown authority of the listener": {func(d, _ *tls.Config) { d.RootCAs = stranger.Pool() }, ErrConnectionAborted, 0, "add the authority"},
		"unknown authority of the dialer":   {func(_, l *tls.Config) { l.ClientCAs = stranger.Pool() }, ErrConnectionRefused, 48, "ClientCAs"},
		"expired listener": {func(_, l *tls.Config) {
			l.Certificates = []tls.Certificate{authority.Issue("listener", expired)}
		}, ErrConnectionAborted, 0, "renew the peer's certificate"},
		"expired dialer": {func(d, _ *tls.Config) {
			d.Certificates = []tls.Certificate{authority.Issue("dialer", expired)}
		}, ErrConnectionRefused, 45, "renew it"},
		"another name":   {func(d, _ *tls.Config) { d.ServerName = "node8" }, ErrConnectionAborted, 0, "set ServerName"},
		"no certificate": {func(d, _ *tls.Config) { d.Certificates = nil }, ErrConnectionRefused, 116, "set Certificates"},
		"another protocol": {func(d, l *tls.Config) {
			d.NextProtos, l.NextProtos = []string{"a"}, []string{"b"}
		}, ErrConnectionRefused, 120, "NextProtos"},
		"not for dialers": {func(d, _ *tls.Config) {
			d.Certificates = []tls.Certificate{authority.Issue("dialer", func(c *x509.Certificate) { c.ExtKeyUsage = c.ExtKeyUsage[:1] })}
		}, ErrConnectionRefused, 42, "its own error says why"},
		"identity refused": {func(_, l *tls.Config) {
			l.VerifyConnection = func(tls.ConnectionState) error { return denied }
		}, ErrConnectionRefused, 42, "its own error says why"},
		"identity of the listener refused": {func(d, _ *tls.Config) {
			d.VerifyConnection = func(tls.ConnectionState) error { return denied }
		}, ErrConnectionAborted, 0, denied.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			dialer, listener := mutual(authority)
			c.change(dialer, listener)
			l, at := tlsListener(t, r.b, listener, TLSAllowed)
			client, server := newEnd(t, r.a, 64), newEnd(t, r.b, 64)
			must(t, client.ctr.UseTLS(dialer))
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			request := start(func() error { return l.GetConnectionRequest(ctx, server.ctr) })
			err := client.ctr.Connect(ctx, client.qp, at, ConnectParams{})
			wantStatus(t, "connect", err, c.status)
			wantOneLine(t, err, "connect", c.says)
			var alert tls.AlertError
			if got := errors.As(err, &alert); c.alert != 0 && (!got || alert != c.alert) {
				t.Errorf("alert %d in %v, want %d", alert, err, c.alert)
			}
			if got := errors.As(err, new(*tls.CertificateVerificationError)); got != (c.alert == 0 && !strings.Contains(name, "refused")) {
				t.Errorf("a certificate was refused here: %v: %v", got, err)
			}
			if _, ok := client.ctr.TLS(); ok && c.alert == 0 {
				t.Error("a peer that was not verified has a state of TLS")
			}
			// The connector may try again, without TLS as well, and the first request that arrives is this one.
			must(t, client.ctr.UseTLS(nil))
			connected := start(func() error { return client.ctr.Connect(ctx, client.qp, at, ConnectParams{}) })
			must(t, finish(t, "request", request))
			if _, ok := server.ctr.TLS(); ok {
				t.Error("a plain request has a state of TLS")
			}
			must(t, server.ctr.Reject(nil))
			wantStatus(t, "plain", finish(t, "connect", connected), ErrConnectionRefused)
		})
	}
}

// Policies of both sides that do not fit end with ErrConnectionRefused and a cause of their own.
func TestTLSPolicyMismatch(t *testing.T) {
	r, _ := newLoopRig(t, DatapathUDP)
	dialer, listener := mutual(testhelp.NewAuthority(t))
	for _, c := range []struct {
		dialer, listener *tls.Config
		why              Cause
	}{{dialer, nil, CausePeerHasNoTLS}, {nil, listener, CausePeerWantsTLS}} {
		_, at := tlsListener(t, r.b, c.listener, TLSRequired)
		client := newEnd(t, r.a, 64)
		must(t, client.ctr.UseTLS(c.dialer))
		err := client.ctr.Connect(t.Context(), client.qp, at, ConnectParams{})
		wantCause(t, "connect", err, ErrConnectionRefused, c.why)
		wantOneLine(t, err, "connect", "TLS configuration")
	}
}

// Configurations that cannot work are refused by UseTLS, with what is wrong.
func TestUselessTLSConfigs(t *testing.T) {
	r, _ := newLoopRig(t, DatapathUDP)
	old := &tls.Config{MaxVersion: tls.VersionTLS12}
	c, err := r.a.CreateConnector()
	must(t, err)
	defer c.Close()
	l, err := r.a.CreateListener()
	must(t, err)
	defer l.Close()
	for says, err := range map[string]error{
		"MaxVersion":         c.UseTLS(old),
		"TLS 1.3":            l.UseTLS(old, TLSRequired),
		"no certificate":     l.UseTLS(&tls.Config{}, TLSRequired),
		"TLSPolicy(2)":       l.UseTLS(&tls.Config{}, 2),
		"set Certificates, ": l.UseTLS(&tls.Config{}, TLSAllowed),
	} {
		wantStatus(t, says, err, ErrInvalidParameter)
		wantOneLine(t, err, "use TLS", says)
	}
	must(t, l.UseTLS(nil, TLSRequired))
	must(t, l.Bind(netip.AddrPortFrom(r.addr[0], 0)))
	must(t, l.Listen(0))
	_, listener := mutual(testhelp.NewAuthority(t))
	wantStatus(t, "UseTLS after Listen", l.UseTLS(listener, TLSRequired), ErrInvalidDeviceState)
}

// An adapter with RequireTLS makes and accepts encrypted connections only.
func TestRequireTLS(t *testing.T) {
	r, port := newLoopRig(t, DatapathUDP)
	here := netlabtest.Loopback()[0]
	a, err := OpenAdapter(AdapterConfig{Address: here, UDPPort: port, Datapath: DatapathUDP, RequireTLS: true})
	must(t, err)
	defer func() { must(t, a.Close()) }()
	dialer, listener := mutual(testhelp.NewAuthority(t))
	_, at := tlsListener(t, r.b, listener, TLSAllowed)
	client := newEnd(t, a, 64)
	err = client.ctr.Connect(t.Context(), client.qp, at, ConnectParams{})
	wantStatus(t, "connect without TLS", err, ErrInvalidParameter)
	wantOneLine(t, err, "RequireTLS", "UseTLS")
	for name, use := range map[string]func(l *Listener) error{
		"off":     func(*Listener) error { return nil },
		"allowed": func(l *Listener) error { return l.UseTLS(listener, TLSAllowed) },
	} {
		l, err := a.CreateListener()
		must(t, err)
		must(t, use(l))
		must(t, l.Bind(netip.AddrPortFrom(here, 0)))
		err = l.Listen(0)
		wantStatus(t, name, err, ErrInvalidParameter)
		wantOneLine(t, err, "listen", "RequireTLS")
		must(t, l.Close())
	}
	tlsListener(t, a, listener, TLSRequired)
	must(t, client.ctr.UseTLS(dialer))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantStatus(t, "connect with TLS begins", client.ctr.Connect(ctx, client.qp, at, ConnectParams{}), ErrCanceled)
}

// Dial and Listen encrypt with EndpointConfig.TLS, and a listener may allow both.
func TestEndpointTLS(t *testing.T) {
	r, _ := newLoopRig(t, DatapathUDP)
	dialer, listener := mutual(testhelp.NewAuthority(t))
	l, err := Listen(netip.AddrPortFrom(r.addr[1], 0), EndpointConfig{Adapter: r.b, TLS: listener, AllowPlain: true})
	must(t, err)
	defer func() { must(t, l.Close()) }()
	at, err := l.Address()
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, cfg := range []*tls.Config{dialer, nil} {
		var server *Endpoint
		accepted := start(func() (err error) { server, err = l.Accept(ctx); return err })
		client, err := Dial(ctx, at, EndpointConfig{Adapter: r.a, TLS: cfg})
		must(t, err)
		must(t, finish(t, "accept", accepted))
		sent := start(func() error { return client.Send(ctx, []byte("message")) })
		got := make([]byte, 64)
		n, err := server.Receive(ctx, got)
		must(t, err)
		must(t, finish(t, "send", sent))
		_, ours := client.Connector.TLS()
		_, theirs := server.Connector.TLS()
		if encrypted := cfg != nil; ours != encrypted || theirs != encrypted || string(got[:n]) != "message" {
			t.Errorf("encrypted: %v and %v, want %v; %q", ours, theirs, encrypted, got[:n])
		}
		must(t, client.Close())
		must(t, server.Close())
	}
}

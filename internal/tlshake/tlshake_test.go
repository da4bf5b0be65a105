package tlshake

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/aead"
	"github.com/ndxdp/ndxdp/internal/shaker"
	"github.com/ndxdp/ndxdp/internal/testhelp"
	"github.com/ndxdp/ndxdp/wire"
)

func TestMain(m *testing.M) { os.Exit(testhelp.ExitStatus(m.Run())) }

const (
	initial   = wire.ShakeInitial
	handshake = wire.ShakeHandshake
)

// end is one side of a handshake in a test, with everything that its Steps brought.
type end struct {
	h       shaker.Handshake
	out, in [2]aead.Secret
	params  []byte
	done    bool
	state   tls.ConnectionState
	err     error
	alert   uint8
}

// meet runs a handshake of two ends until both are done or one failed.
func meet(t *testing.T, client, server *tls.Config) (c, s *end) {
	t.Helper()
	pool := New(2)
	c, s = new(end), new(end)
	type stepOf struct {
		of, to *end
		step   *shaker.Step
	}
	steps := make(chan stepOf, 16)
	clientConfig, err := ClientConfig(client)
	if err != nil {
		t.Fatal(err)
	}
	serverConfig, err := ServerConfig(server)
	if err != nil {
		t.Fatal(err)
	}
	s.h = pool.Server(serverConfig).Begin(addr("192.0.2.1:1"), addr("192.0.2.2:2"), []byte("parameters of the server"), func(step *shaker.Step) { steps <- stepOf{s, c, step} })
	c.h = pool.Client(clientConfig).Begin(wire.Endpoint{}, wire.Endpoint{}, []byte("parameters of the client"), func(step *shaker.Step) { steps <- stepOf{c, s, step} })
	for (!c.done || !s.done) && c.err == nil && s.err == nil {
		m := <-steps
		m.of.take(m.step)
		for _, data := range []struct {
			level wire.ShakeLevel
			bytes []byte
		}{{initial, m.step.Initial}, {handshake, m.step.Handshake}} {
			for half := range bytes.SplitSeq(data.bytes, nil) { // the smallest pieces
				if !m.to.h.Give(data.level, half) {
					t.Fatal("bytes were refused")
				}
			}
		}
	}
	c.h.Close()
	s.h.Close()
	pool.Wait()
	return c, s
}

func (e *end) take(s *shaker.Step) {
	for i := range s.Out {
		if s.Out[i].Suite() != 0 {
			e.out[i] = s.Out[i]
		}
		if s.In[i].Suite() != 0 {
			e.in[i] = s.In[i]
		}
	}
	if s.Params != nil {
		e.params = s.Params
	}
	if s.Done {
		e.done, e.state = true, s.State.(tls.ConnectionState)
	}
	if s.Err != nil {
		e.err, e.alert = s.Err, s.Alert
	}
}

func addr(s string) wire.Endpoint { return wire.EndpointFrom(netip.MustParseAddrPort(s)) }

// Both ends get the same secrets, verified identities, the protocol and each other's parameters.
func TestHandshake(t *testing.T) {
	client, server := newAuthority(t).mutual()
	c, s := meet(t, client, server)
	if c.err != nil || s.err != nil {
		t.Fatal(c.err, s.err)
	}
	for generation := range 2 {
		if c.out[generation] != s.in[generation] || c.in[generation] != s.out[generation] || !c.out[generation].Suite().Known() {
			t.Errorf("secrets of generation %d differ", generation)
		}
		if c.out[generation] == c.in[generation] {
			t.Errorf("both directions have one secret in generation %d", generation)
		}
	}
	if c.out[0] == c.out[1] {
		t.Error("both generations have one secret")
	}
	if string(c.params) != "parameters of the server" || string(s.params) != "parameters of the client" {
		t.Errorf("parameters %q and %q", c.params, s.params)
	}
	for name, state := range map[string]*tls.ConnectionState{"server": &c.state, "client": &s.state} {
		if !state.HandshakeComplete || state.Version != tls.VersionTLS13 || state.NegotiatedProtocol != Protocol || state.DidResume ||
			len(state.VerifiedChains) == 0 || state.PeerCertificates[0].Subject.CommonName != name {
			t.Errorf("the state about the %s: %+v", name, state)
		}
	}
}

// Each kind of refusal ends both handshakes with the alert of RFC 8446, and the own check names its cause.
func TestRefusals(t *testing.T) {
	ca, stranger := newAuthority(t), newAuthority(t)
	refused := errors.New("the application refuses")
	for name, c := range map[string]struct {
		change   func(client, server *tls.Config)
		byClient bool // the client's check fails
		alert    uint8
		verify   bool // with a *tls.CertificateVerificationError
	}{
		"wrong authority of the server": {func(c, _ *tls.Config) { c.RootCAs = stranger.pool() }, true, 42, true},
		"wrong authority of the client": {func(_, s *tls.Config) { s.ClientCAs = stranger.pool() }, false, 48, true},
		"expired server": {func(_, s *tls.Config) {
			s.Certificates = []tls.Certificate{ca.issue("server", time.Now().Add(-time.Minute))}
		}, true, 42, true},
		"expired client": {func(c, _ *tls.Config) {
			c.Certificates = []tls.Certificate{ca.issue("client", time.Now().Add(-time.Minute))}
		}, false, 45, true},
		"wrong name":            {func(c, _ *tls.Config) { c.ServerName = "another" }, true, 42, true},
		"no client certificate": {func(c, _ *tls.Config) { c.Certificates = nil }, false, 116, false},
		"wrong protocol":        {func(c, _ *tls.Config) { c.NextProtos = []string{"h2"} }, false, 120, false},
		"older TLS": {func(_, s *tls.Config) {
			old := s.Clone()
			s.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { old.MaxVersion = tls.VersionTLS12; return old, nil }
		}, false, 80, false},
		"refused by the client's application": {func(c, _ *tls.Config) {
			c.VerifyConnection = func(tls.ConnectionState) error { return refused }
		}, true, 42, false},
		"refused by the server's application": {func(_, s *tls.Config) {
			s.VerifyConnection = func(tls.ConnectionState) error { return refused }
		}, false, 42, false},
	} {
		t.Run(name, func(t *testing.T) {
			client, server := ca.mutual()
			c.change(client, server)
			atClient, atServer := meet(t, client, server)
			failed, other := atServer, atClient
			if c.byClient {
				failed, other = atClient, atServer
			}
			if failed.err == nil || failed.done || other.err != nil {
				t.Fatalf("the client got %v, the server %v", atClient.err, atServer.err)
			}
			var alert tls.AlertError
			if !errors.As(failed.err, &alert) || uint8(alert) != failed.alert || failed.alert != c.alert {
				t.Errorf("alert %d (%v), want %d", failed.alert, failed.err, c.alert)
			}
			if _, is := errors.AsType[*tls.CertificateVerificationError](failed.err); is != c.verify {
				t.Errorf("%T in %v: %v, want %v", (*tls.CertificateVerificationError)(nil), failed.err, is, c.verify)
			}
			if atServer.done {
				t.Error("the server's handshake is done")
			}
		})
	}
}

// The functions of a listener's configuration see who calls, and what they choose is hardened as well.
func TestCallbacksSeeAddresses(t *testing.T) {
	ca := newAuthority(t)
	client, server := ca.mutual()
	chosen, certificate := server.Clone(), server.Certificates[0]
	seen := map[string]string{}
	note := func(name string, hello *tls.ClientHelloInfo) {
		seen[name] = hello.Conn.LocalAddr().String() + " " + hello.Conn.RemoteAddr().String()
	}
	chosen.Certificates, chosen.MinVersion = nil, tls.VersionTLS10
	chosen.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		note("certificate", hello)
		return &certificate, nil
	}
	c, s := meet(t, client, &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		note("config", hello)
		return chosen, nil
	}})
	if c.err != nil || s.err != nil {
		t.Fatal(c.err, s.err)
	}
	for _, name := range []string{"config", "certificate"} {
		if seen[name] != "192.0.2.1:1 192.0.2.2:2" {
			t.Errorf("%s sees %q", name, seen[name])
		}
	}
	if chosen.MinVersion != tls.VersionTLS10 || chosen.NextProtos != nil {
		t.Error("the application's configuration was changed")
	}
}

// A client whose first key share the server does not have sends a second ClientHello on the same level.
func TestHelloRetryRequest(t *testing.T) {
	client, server := newAuthority(t).mutual()
	client.CurvePreferences = []tls.CurveID{tls.X25519, tls.CurveP384}
	server.CurvePreferences = []tls.CurveID{tls.CurveP384}
	c, s := meet(t, client, server)
	if c.err != nil || s.err != nil || !c.done || !s.done || s.state.CurveID != tls.CurveP384 {
		t.Errorf("%v, %v, curve %v", c.err, s.err, s.state.CurveID)
	}
}

func TestConfigsThatCannotWork(t *testing.T) {
	certificate := newAuthority(t).issue("x", time.Time{})
	for name, c := range map[string]struct {
		cfg    *tls.Config
		server bool
		want   error
	}{
		"no client configuration": {nil, false, errNoConfig},
		"no server configuration": {nil, true, errNoConfig},
		"client with TLS 1.2":     {&tls.Config{ServerName: "x", MaxVersion: tls.VersionTLS12}, false, errOldVersion},
		"server with TLS 1.2":     {&tls.Config{Certificates: []tls.Certificate{certificate}, MaxVersion: tls.VersionTLS12}, true, errOldVersion},
		"server without identity": {&tls.Config{}, true, errNoCert},
		"client without a name":   {&tls.Config{}, false, nil},
		"server":                  {&tls.Config{Certificates: []tls.Certificate{certificate}}, true, nil},
	} {
		var got *tls.Config
		var err error
		if c.server {
			got, err = ServerConfig(c.cfg)
		} else {
			got, err = ClientConfig(c.cfg)
		}
		if !errors.Is(err, c.want) || (got == nil) != (err != nil) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if err == nil && (got == c.cfg || got.MinVersion != tls.VersionTLS13 || !got.SessionTicketsDisabled || got.NextProtos[0] != Protocol || c.cfg.MinVersion != 0) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got, err := ClientConfig(&tls.Config{ClientSessionCache: tls.NewLRUClientSessionCache(1), NextProtos: []string{"mine"}}); err != nil || got.ClientSessionCache != nil || got.NextProtos[0] != "mine" {
		t.Errorf("%+v, %v", got, err)
	}
}

// What a configuration refers to may be changed after it was given: the copy keeps its certificates, protocols and authorities.
func TestConfigsAreCopies(t *testing.T) {
	ca, stranger := newAuthority(t), newAuthority(t)
	client, server := ca.mutual()
	client.NextProtos, server.NextProtos = []string{"one"}, []string{"one"}
	atClient, err := ClientConfig(client)
	if err != nil {
		t.Fatal(err)
	}
	atServer, err := ServerConfig(server)
	if err != nil {
		t.Fatal(err)
	}
	for _, cfg := range []*tls.Config{client, server} {
		cfg.Certificates[0] = stranger.issue("another", time.Time{})
		cfg.NextProtos[0] = "another"
	}
	server.ClientCAs.AddCert(stranger.cert)
	client.RootCAs.AddCert(stranger.cert)
	c, s := meet(t, atClient, atServer)
	if c.err != nil || s.err != nil || c.state.NegotiatedProtocol != "one" || c.state.PeerCertificates[0].Subject.CommonName != "server" {
		t.Errorf("%v, %v, protocol %q", c.err, s.err, c.state.NegotiatedProtocol)
	}
	byStranger := atClient.Clone()
	byStranger.Certificates = []tls.Certificate{stranger.issue("client", time.Time{})}
	if _, s := meet(t, byStranger, atServer); s.err == nil {
		t.Error("an authority that was added later counts")
	}
}

// FuzzServer gives a listener any bytes as a ClientHello and behind it.
func FuzzServer(f *testing.F) {
	client, server := newAuthority(f).mutual()
	cfg, err := ServerConfig(server)
	if err != nil {
		f.Fatal(err)
	}
	hello := clientHello(f, client)
	f.Add(hello, []byte{})
	f.Add(hello[:100], hello[100:])
	f.Add(hello, hello)
	f.Add([]byte{1, 0, 0xff, 0xff}, []byte("handshake"))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		pool := New(1)
		h := pool.Server(cfg).Begin(addr("192.0.2.1:1"), addr("192.0.2.2:2"), nil, func(s *shaker.Step) {
			if s.Done {
				t.Error("a client without a certificate is done")
			}
		})
		h.Give(initial, first)
		h.Give(handshake, second)
		pool.Wait()
		h.Close()
		pool.Wait()
	})
}

// BenchmarkServer measures what a listener computes for one ClientHello.
func BenchmarkServer(b *testing.B) {
	client, server := newAuthority(b).mutual()
	cfg, err := ServerConfig(server)
	if err != nil {
		b.Fatal(err)
	}
	hello, pool, steps := clientHello(b, client), New(1), make(chan *shaker.Step)
	for b.Loop() {
		h := pool.Server(cfg).Begin(addr("192.0.2.1:1"), addr("192.0.2.2:2"), nil, func(s *shaker.Step) { steps <- s })
		h.Give(initial, hello)
		if s := <-steps; s.Err != nil {
			b.Fatal(s.Err)
		}
		h.Close()
	}
	pool.Wait()
}

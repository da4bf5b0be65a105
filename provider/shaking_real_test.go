package provider

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/tlshake"
	"github.com/ndxdp/ndxdp/wire"
)

// selfSigned returns a certificate of its own authority for an address of a pair.
func selfSigned(t *testing.T, side int) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{wire.Endpoint{IP: pairIP[side]}.AddrPort().Addr().AsSlice()},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, pool
}

// realMeeting is a meeting whose ends verify each other with crypto/tls. change may spoil the configurations.
func realMeeting(t *testing.T, change func(client, server *tls.Config)) (m *meeting, pool *tlshake.Pool) {
	t.Helper()
	m, pool = newMeeting(t, 8), tlshake.New(2)
	var certs [2]tls.Certificate
	var roots [2]*x509.CertPool
	for i := range certs {
		certs[i], roots[i] = selfSigned(t, i)
	}
	client := &tls.Config{Certificates: certs[:1], RootCAs: roots[1]}
	server := &tls.Config{Certificates: certs[1:], ClientCAs: roots[0], ClientAuth: tls.RequireAndVerifyClientCert}
	change(client, server)
	client, err := tlshake.ClientConfig(client)
	if err != nil {
		t.Fatal(err)
	}
	server, err = tlshake.ServerConfig(server)
	if err != nil {
		t.Fatal(err)
	}
	m.l.shaker = pool.Server(server)
	m.must(m.ctr[0].UseTLS(pool.Client(client)))
	return m, pool
}

// shakeHands runs the engines and the goroutines of a pool until neither has work.
func (m *meeting) shakeHands(pool *tlshake.Pool) {
	for range 20 {
		m.runUntilIdle()
		pool.Wait()
	}
}

// crypto/tls connects two engines: with the usual key exchange, whose ClientHello takes two REQs, and with a second ClientHello. Both ends know
// whom they talk to.
func TestRealTLS(t *testing.T) {
	for name, curves := range map[string][2][]tls.CurveID{
		"usual":             {},
		"HelloRetryRequest": {{tls.X25519, tls.CurveP384}, {tls.CurveP384}},
	} {
		m, pool := realMeeting(t, func(client, server *tls.Config) {
			client.CurvePreferences, server.CurvePreferences = curves[0], curves[1]
		})
		m.get().connect().shakeHands(pool)
		m.got.must(t, OutcomeSuccess)
		m.accept().shakeHands(pool)
		m.connected.must(t, OutcomeSuccess)
		m.complete().shakeHands(pool)
		for side := range 2 {
			state, ok := m.ctr[side].TLS().(tls.ConnectionState)
			peer := wire.Endpoint{IP: pairIP[1-side]}.AddrPort().Addr().AsSlice()
			if !ok || len(state.VerifiedChains) == 0 || !slices.Equal(state.PeerCertificates[0].IPAddresses[0], peer) {
				t.Errorf("%s, side %d: %+v", name, side, state)
			}
			if s := m.eng[side].Stats(); len(s.DropsByName()) != 0 || s.Handshakes != 1 {
				t.Errorf("%s, side %d: %v", name, side, s.DropsByName())
			}
		}
		m.exchange(10_000, 7)
		m.ctr[0].Close()
		m.ctr[1].Close()
		m.clean()
		pool.Wait()
	}
}

// Each refusal of crypto/tls ends the attempt on both sides, with the reason on the refusing side and the alert on its peer. The listener
// hears of nothing.
func TestRealTLSRefused(t *testing.T) {
	other, otherPool := selfSigned(t, 0)
	refused := errors.New("the application refuses")
	for name, c := range map[string]struct {
		change  func(client, server *tls.Config)
		alert   uint8
		byCause bool // the client's own check
	}{
		"authority of the server": {func(c, _ *tls.Config) { c.RootCAs = otherPool }, 42, true},
		"name of the server":      {func(c, _ *tls.Config) { c.ServerName = "another" }, 42, true},
		"authority of the client": {func(c, _ *tls.Config) { c.Certificates = []tls.Certificate{other} }, 48, false},
		"no client certificate":   {func(c, _ *tls.Config) { c.Certificates = nil }, 116, false},
		"protocol":                {func(c, _ *tls.Config) { c.NextProtos = []string{"h3"} }, 120, false},
		"application of the server": {func(_, s *tls.Config) {
			s.VerifyConnection = func(tls.ConnectionState) error { return refused }
		}, 42, false},
	} {
		m, pool := realMeeting(t, c.change)
		m.get().connect().shakeHands(pool)
		want := OutcomeRefused
		if c.byCause {
			want = OutcomeAborted
		}
		m.connected.must(t, want)
		f := m.ctr[0].TLSFailure()
		if f == nil || f.Alert != c.alert || (f.Err != nil) != c.byCause || m.got.times != 0 {
			t.Errorf("%s: %+v, %d requests", name, f, m.got.times)
		}
		m.ctr[1].Close()
		m.clean()
		pool.Wait()
	}
}

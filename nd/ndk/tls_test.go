package ndk_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/netip"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/testhelp"
	"github.com/ndxdp/ndxdp/nd/ndk"
)

// tlsAccept makes a listener with TLS that accepts for the queue pair of s. accepted receives the common name of each peer, known before
// the application accepts; a request that is not encrypted has an empty one.
func (s *side) tlsAccept(t *testing.T, cfg *tls.Config, policy ndk.TLSPolicy) (at netip.AddrPort, accepted <-chan string) {
	t.Helper()
	names := make(chan string, 4)
	listener, st := s.adapter.CreateListener(func(_ any, c *ndk.Connector) {
		name := ""
		if state, ok := c.TLS(); ok {
			name = state.PeerCertificates[0].Subject.CommonName
		}
		names <- name
		c.Reject(nil)
		c.Close(nil, nil)
	}, nil, nil, nil)
	must(st)
	s.closers = append(s.closers, listener.Close)
	testhelp.Must(t, listener.UseTLS(cfg, policy))
	must(listener.Listen(netip.AddrPortFrom(s.addr, 0), nil, nil))
	at, st = listener.LocalAddress()
	must(st)
	if err := listener.UseTLS(cfg, policy); !errors.Is(err, ndk.StatusInvalidDeviceState) {
		t.Errorf("UseTLS after Listen: %v", err)
	}
	return at, names
}

// The connect event of an encrypted request comes with the verified identity. Each refusal has its status, and TLSError its reason.
func TestTLS(t *testing.T) {
	client, server := open("127.0.0.1", make([]byte, 64), 0), open("127.0.0.2", make([]byte, 64), 0)
	defer client.close()
	defer server.close()
	authority := testhelp.NewAuthority(t)
	dialer, listener := authority.Mutual()
	stranger, _ := testhelp.NewAuthority(t).Mutual()
	unknown := stranger.Clone()
	unknown.RootCAs = authority.Pool()
	required, names := server.tlsAccept(t, listener, ndk.TLSRequired)
	plain, _ := server.tlsAccept(t, nil, ndk.TLSRequired)
	for name, c := range map[string]struct {
		to     netip.AddrPort
		cfg    *tls.Config
		status ndk.Status
		check  func(error) bool
	}{
		"accepted":       {required, dialer, ndk.StatusConnectionRefused, func(err error) bool { return err == nil && <-names == "dialer" }},
		"not encrypted":  {required, nil, ndk.StatusConnectionRefused, func(err error) bool { return err == nil }},
		"peer without":   {plain, dialer, ndk.StatusConnectionRefused, func(err error) bool { return err == nil }},
		"unknown dialer": {required, unknown, ndk.StatusConnectionRefused, func(err error) bool { return errors.As(err, new(tls.AlertError)) }},
		"unknown listener": {required, stranger, ndk.StatusConnectionAborted, func(err error) bool {
			return errors.As(err, new(*tls.CertificateVerificationError)) && errors.As(err, new(x509.UnknownAuthorityError))
		}},
	} {
		k, st := client.adapter.CreateConnector(nil, nil)
		must(st)
		testhelp.Must(t, k.UseTLS(c.cfg))
		st = wait(func(done ndk.Completion, context any) ndk.Status {
			return k.Connect(client.qp, netip.AddrPortFrom(client.addr, 0), c.to, limits, done, context)
		})
		if why := k.TLSError(); st != c.status || !c.check(why) {
			t.Errorf("%s: %v, %v, want %v", name, st, why, c.status)
		}
		k.Close(nil, nil)
	}
	if err := func() error {
		k, st := client.adapter.CreateConnector(nil, nil)
		must(st)
		defer k.Close(nil, nil)
		return k.UseTLS(&tls.Config{MaxVersion: tls.VersionTLS12})
	}(); !errors.Is(err, ndk.StatusInvalidParameter) {
		t.Errorf("TLS 1.2: %v", err)
	}
}

// An adapter with RequireTLS refuses connectors and listeners whose connections may be plain, and their ports stay free.
func TestRequireTLS(t *testing.T) {
	s := open("127.0.0.1", make([]byte, 64), 0)
	defer s.close()
	at := netip.AddrPortFrom(netlabtest.Loopback()[0], 7000)
	a, err := ndk.OpenAdapter(ndk.AdapterConfig{Address: at.Addr(), UDPPort: udpPort, Datapath: "udp", RequireTLS: true})
	testhelp.Must(t, err)
	defer a.Close()
	l, st := a.CreateListener(func(any, *ndk.Connector) {}, nil, nil, nil)
	must(st)
	defer l.Close(nil, nil)
	if st := l.Listen(at, nil, nil); st != ndk.StatusInvalidParameter {
		t.Errorf("listen without TLS: %v", st)
	}
	_, listener := testhelp.NewAuthority(t).Mutual()
	testhelp.Must(t, l.UseTLS(listener, ndk.TLSAllowed))
	if st := l.Listen(at, nil, nil); st != ndk.StatusInvalidParameter {
		t.Errorf("listen with TLS allowed: %v", st)
	}
	testhelp.Must(t, l.UseTLS(listener, ndk.TLSRequired))
	if st := l.Listen(at, nil, nil); st != ndk.StatusSuccess {
		t.Errorf("listen with TLS: %v", st)
	}
}

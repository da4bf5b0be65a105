package ndnet

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/testhelp"
	"github.com/ndxdp/ndxdp/nd"
)

// wayOf describes how a connection was made.
func wayOf(c net.Conn) string {
	switch c.(type) {
	case nil:
		return "none"
	case *SecureConn:
		return "ND, encrypted"
	case *Conn:
		return "ND, plain"
	case *tls.Conn:
		return "TCP, encrypted"
	case *net.TCPConn:
		return "TCP, plain"
	}
	return fmt.Sprintf("%T", c)
}

// accepting returns the kinds of the connections that a listener accepts, and echoes what they receive.
func accepting(t *testing.T, l net.Listener) <-chan string {
	t.Helper()
	t.Cleanup(func() { must(t, l.Close()) })
	kinds := make(chan string, 16)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			kinds <- wayOf(c)
			go func() {
				_, _ = io.Copy(c, c) // ends with the connection
				_ = c.Close()
			}()
		}
	}()
	return kinds
}

// Listeners with TLS off, allowed and required meet dialers with and without TLS, over ND and over TCP. A connection is encrypted if and
// only if the dialer asks for it, and a side that requires encryption gets no other connection.
func TestTLSPolicies(t *testing.T) {
	dialer, listener := testhelp.NewAuthority(t).Mutual()
	for name, c := range map[string]struct {
		tls                          *tls.Config
		allow                        bool
		ndPlain, ndTLS               string
		tcpPlain, tcpTLS             string
		plainRefusedBy, tlsRefusedBy error
	}{
		"off":      {nil, false, "ND, plain", "none", "TCP, plain", "none", nil, nd.CausePeerHasNoTLS},
		"allowed":  {listener, true, "ND, plain", "ND, encrypted", "TCP, plain", "TCP, encrypted", nil, nil},
		"required": {listener, false, "none", "ND, encrypted", "none", "TCP, encrypted", nd.CausePeerWantsTLS, nil},
	} {
		t.Run(name, func(t *testing.T) {
			a := onLoopback(t)
			l, err := (&ListenConfig{Adapters: a, TCP: true, TLS: c.tls, AllowPlain: c.allow}).Listen(t.Context(), "tcp", "127.0.0.1:0")
			must(t, err)
			kinds := accepting(t, l)
			at := l.Addr().String()
			for _, by := range []struct {
				how     string
				want    string
				refused error
				dial    func(context.Context) (net.Conn, error)
			}{
				{"ND plain", c.ndPlain, c.plainRefusedBy, func(ctx context.Context) (net.Conn, error) {
					return (&Dialer{Adapters: a}).DialContext(ctx, "tcp", at)
				}},
				{"ND with TLS", c.ndTLS, c.tlsRefusedBy, func(ctx context.Context) (net.Conn, error) {
					return (&Dialer{Adapters: a, TLS: dialer}).DialContext(ctx, "tcp", at)
				}},
				{"TCP plain", c.tcpPlain, nil, func(ctx context.Context) (net.Conn, error) {
					return greeted(new(net.Dialer).DialContext(ctx, "tcp", at))
				}},
				{"TCP with TLS", c.tcpTLS, nil, func(ctx context.Context) (net.Conn, error) {
					return (&Dialer{Adapters: a, TLS: dialer, TCP: &net.Dialer{}}).dialTCP(ctx, "tcp", at)
				}},
			} {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				conn, err := by.dial(ctx)
				if got := wayOf(conn); got != by.want {
					t.Errorf("%s: %s (%v), want %s", by.how, got, err, by.want)
				}
				if by.refused != nil && (!errors.Is(err, by.refused) || !errors.Is(err, syscall.ECONNREFUSED)) {
					t.Errorf("%s: %v, want %v", by.how, err, by.refused)
				}
				if conn == nil {
					continue
				}
				askEcho(t, conn)
				if got := ends(t, "Accept", kinds); got != by.want {
					t.Errorf("%s: accepted %s, want %s", by.how, got, by.want)
				}
			}
			select {
			case got := <-kinds:
				if c.tls != nil { // a listener without TLS cannot tell what a client sends over TCP
					t.Error("a refused connection was accepted: ", got)
				}
			default:
			}
		})
	}
}

// greeted checks that the peer answers a TCP connection without TLS: a listener that requires TLS closes it.
func greeted(c net.Conn, err error) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	_, err = c.Write([]byte("hello"))
	if err == nil {
		err = c.SetReadDeadline(time.Now().Add(patience))
	}
	if err == nil {
		_, err = io.ReadFull(c, make([]byte, 5))
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// A dialer with TLS that may use TCP never gets a connection without TLS, whatever ND and TCP of the peer do.
func TestTLSIsNeverDropped(t *testing.T) {
	authority := testhelp.NewAuthority(t)
	dialer, listener := authority.Mutual()
	stranger, _ := testhelp.NewAuthority(t).Mutual()
	for name, c := range map[string]struct {
		nd, tcp *tls.Config // of the listeners; a listener without one is plain
		hasND   bool
		dialer  *tls.Config
		want    string
	}{
		"plain everywhere":         {nil, nil, true, dialer, "none"},
		"plain TCP alone":          {nil, nil, false, dialer, "none"},
		"encrypted TCP alone":      {nil, listener, false, dialer, "TCP, encrypted"},
		"plain ND, encrypted TCP":  {nil, listener, true, dialer, "TCP, encrypted"},
		"encrypted ND, plain TCP":  {listener, nil, true, dialer, "ND, encrypted"},
		"nobody trusts the dialer": {listener, listener, true, stranger, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			a := onLoopback(t)
			tcp, err := net.Listen("tcp", "127.0.0.1:0")
			must(t, err)
			at := tcp.Addr().String()
			if c.tcp != nil {
				tcp = newTLSOverTCP(tcp, admission{tls: c.tcp}, patience)
			}
			accepting(t, tcp)
			if c.hasND {
				l, err := (&ListenConfig{Adapters: a, TLS: c.nd}).Listen(t.Context(), "tcp", at)
				must(t, err)
				accepting(t, l)
			} else {
				a.UDPPort = netlabtest.FreePort(t)
			}
			d := &Dialer{Adapters: a, TLS: c.dialer, TCP: &net.Dialer{}, TCPAfter: time.Second, Timeout: patience}
			conn, err := d.Dial("tcp", at)
			if err == nil {
				defer conn.Close()
				if wayOf(conn) == "TCP, encrypted" { // the server refuses a certificate after the client's handshake
					_, err = greeted(conn, nil)
				}
			}
			if err != nil {
				conn = nil
			}
			if got := wayOf(conn); got != c.want {
				t.Errorf("%s (%v), want %s", got, err, c.want)
			}
		})
	}
}

// The dialed host is verified: a name, an address, or ServerName in place of both.
func TestTLSVerifiesTheDialedHost(t *testing.T) {
	dialer, listener := testhelp.NewAuthority(t).Mutual()
	a := onLoopback(t)
	l, err := (&ListenConfig{Adapters: a, TLS: listener}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	accepting(t, l)
	_, port, err := net.SplitHostPort(l.Addr().String())
	must(t, err)
	other := dialer.Clone()
	other.ServerName = "node7"
	wrong := dialer.Clone()
	wrong.ServerName = "node8"
	for _, c := range []struct {
		host string
		cfg  *tls.Config
		ok   bool
	}{
		{"127.0.0.1", dialer, true}, {"localhost", dialer, false}, {"localhost", other, true}, {"127.0.0.1", wrong, false},
	} {
		conn, err := (&Dialer{Adapters: a, TLS: c.cfg, Timeout: patience}).Dial("tcp4", net.JoinHostPort(c.host, port))
		if c.ok {
			must(t, err)
			askEcho(t, conn)
			continue
		}
		var unverified *tls.CertificateVerificationError
		if !errors.As(err, &unverified) || !errors.As(err, new(x509.HostnameError)) || !errors.Is(err, nd.ErrConnectionAborted) {
			t.Errorf("%s with the name %q: %v", c.host, c.cfg.ServerName, err)
		}
	}
}

// A listener closes while a function of its configuration runs, which may be the caller of Close, and the connection ends with the function.
func TestCloseInFunctionOfTLS(t *testing.T) {
	dialer, config := testhelp.NewAuthority(t).Mutual()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var l net.Listener
	closed := make(chan error, 1)
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		closed <- l.Close()
		return nil, nil
	}
	l = newTLSOverTCP(tcp, admission{tls: config}, patience)
	dialed := make(chan error, 1)
	go func() {
		_, err := greeted(tls.Dial("tcp", tcp.Addr().String(), dialer))
		dialed <- err
	}()
	must(t, ends(t, "Close", closed))
	if err := ends(t, "Dial", dialed); err == nil {
		t.Error("a closed listener made a connection")
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// A web server sees the identity of its clients in Request.TLS, over ND and over TCP, and none without TLS.
func TestRequestTLS(t *testing.T) {
	dialer, listener := testhelp.NewAuthority(t).Mutual()
	a := onLoopback(t)
	l, err := (&ListenConfig{Adapters: a, TCP: true, TLS: listener, AllowPlain: true}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil {
			fmt.Fprint(w, "nobody")
			return
		}
		fmt.Fprint(w, r.TLS.PeerCertificates[0].Subject.CommonName, len(r.TLS.VerifiedChains))
	})}
	go s.Serve(l)
	defer s.Close()
	secure := &Dialer{Adapters: a, TLS: dialer, Timeout: patience}
	for name, c := range map[string]struct {
		transport *http.Transport
		url, want string
	}{
		"ND":        {&http.Transport{DialTLSContext: secure.DialContext}, "https://", "dialer1"},
		"TCP":       {&http.Transport{TLSClientConfig: dialer}, "https://", "dialer1"},
		"ND, plain": {&http.Transport{DialContext: (&Dialer{Adapters: a, Timeout: patience}).DialContext}, "http://", "nobody"},
	} {
		res, err := (&http.Client{Transport: c.transport, Timeout: patience}).Get(c.url + l.Addr().String())
		must(t, err)
		got, err := io.ReadAll(res.Body)
		must(t, err)
		must(t, res.Body.Close())
		if string(got) != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		c.transport.CloseIdleConnections()
	}
}

// Certificates are replaced while connections run: open connections go on, and new ones get the new certificate.
func TestCertificatesAreRotated(t *testing.T) {
	authority := testhelp.NewAuthority(t)
	dialer, listener := authority.Mutual()
	now := make(chan tls.Certificate, 1)
	now <- authority.Issue("first", nil)
	listener.Certificates = nil
	listener.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if hello.Conn == nil || hello.Conn.RemoteAddr() == nil {
			return nil, errors.New("no address of the peer")
		}
		c := <-now
		now <- c
		return &c, nil
	}
	dialer.ServerName = "node7" // the certificate has none of our addresses
	n := networks(t, Config{})
	n[0].UseTLS(dialer, nil)
	n[1].UseTLS(nil, listener)
	open := func() (client, server *SecureConn) {
		a, b, stop, err := pipe(n)
		must(t, err)
		t.Cleanup(stop)
		return a.(*SecureConn), b.(*SecureConn)
	}
	exchange := func(client, server net.Conn) {
		t.Helper()
		want := bytes.Repeat([]byte("x"), 100_000)
		sent := make(chan error, 1)
		go func() { _, err := client.Write(want); sent <- err }()
		got := make([]byte, len(want))
		_, err := io.ReadFull(server, got)
		must(t, err)
		must(t, <-sent)
		if !bytes.Equal(got, want) {
			t.Error("other bytes arrived")
		}
	}
	oldClient, oldServer := open()
	exchange(oldClient, oldServer)
	<-now
	now <- authority.Issue("second", nil)
	newClient, newServer := open()
	exchange(newClient, newServer)
	exchange(oldClient, oldServer)
	for name, c := range map[string]*SecureConn{"first": oldClient, "second": newClient, "dialer": newServer} {
		state := c.ConnectionState()
		if got := state.PeerCertificates[0].Subject.CommonName; got != name || state.Version != tls.VersionTLS13 || state.NegotiatedProtocol != "ndxdp" {
			t.Errorf("the peer is %s, want %s; version %x, protocol %q", got, name, state.Version, state.NegotiatedProtocol)
		}
	}
}

package ndnet

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"net/rpc"
	"testing"
)

// identity is a certificate for example.com, and a client configuration that trusts it.
func identity(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS() // makes package httptest's own certificate; no client connects to it
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return &tls.Config{Certificates: s.TLS.Certificates}, &tls.Config{RootCAs: roots, ServerName: "example.com"}
}

// crypto/tls works over a connection, with half close and with records of all sizes.
func TestTLS(t *testing.T) {
	server, client := identity(t)
	a, b := newPipe(t, Config{})
	data := bytes.Repeat([]byte("0123456789abcdef"), 20000)
	sent := make(chan error, 1)
	go func() {
		c := tls.Server(b, server)
		_, err := io.Copy(c, bytes.NewReader(data))
		if err == nil {
			err = c.CloseWrite()
		}
		sent <- err
	}()
	c := tls.Client(a, client)
	must(t, c.HandshakeContext(t.Context()))
	got, err := io.ReadAll(c)
	must(t, err)
	must(t, <-sent)
	if !bytes.Equal(got, data) {
		t.Errorf("%d bytes arrived of %d, or others", len(got), len(data))
	}
}

// net/http runs over TLS, HTTP/1.1 and HTTP/2.
func TestHTTPS(t *testing.T) {
	server, client := identity(t)
	n := networks(t, Config{})
	for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
		l, err := n[1].Listen("tcp", ":0")
		must(t, err)
		s := &http.Server{TLSConfig: server.Clone(), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body) // a failed read shows as a short answer
			_, _ = w.Write(body)
		})}
		go s.ServeTLS(l, "", "")
		transport := &http.Transport{DialContext: n[0].DialContext, TLSClientConfig: client.Clone(), ForceAttemptHTTP2: proto == "HTTP/2.0"}
		for _, size := range []int{0, 10, 100 << 10} {
			body := bytes.Repeat([]byte("x"), size)
			res, err := (&http.Client{Transport: transport}).Post("https://"+l.Addr().String(), "text/plain", bytes.NewReader(body))
			must(t, err)
			got, err := io.ReadAll(res.Body)
			must(t, err)
			must(t, res.Body.Close())
			if !bytes.Equal(got, body) || res.Proto != proto {
				t.Errorf("%s: %d bytes of %d", res.Proto, len(got), size)
			}
		}
		transport.CloseIdleConnections()
		must(t, s.Close())
	}
	must(t, n[0].Wait(context.Background()))
	must(t, n[1].Wait(context.Background()))
}

// Adder is a service of net/rpc.
type Adder struct{}

// Add adds.
func (Adder) Add(terms [2]int, sum *int) error {
	*sum = terms[0] + terms[1]
	return nil
}

// net/rpc makes calls.
func TestRPC(t *testing.T) {
	n := networks(t, Config{})
	l, err := n[1].Listen("tcp", ":0")
	must(t, err)
	s := rpc.NewServer()
	must(t, s.Register(Adder{}))
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go s.ServeConn(c)
		}
	}()
	c, err := n[0].Dial("tcp", l.Addr().String())
	must(t, err)
	client := rpc.NewClient(c)
	for i := range 50 {
		sum := 0
		must(t, client.Call("Adder.Add", [2]int{i, 1}, &sum))
		if sum != i+1 {
			t.Errorf("%d + 1 is %d", i, sum)
		}
	}
	must(t, client.Close())
	must(t, l.Close())
	must(t, n[0].Wait(context.Background()))
	must(t, n[1].Wait(context.Background()))
}

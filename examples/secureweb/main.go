package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"

	"github.com/ndxdp/ndxdp/nd/ndnet"
)

const (
	serverID = "spiffe://example.org/web"
	clientID = "spiffe://example.org/worker"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	ca, err := newAuthority()
	if err != nil {
		return err
	}
	serverTLS, err := ca.config(serverID, clientID)
	if err != nil {
		return err
	}
	listener, err := (&ndnet.ListenConfig{TLS: serverTLS}).Listen(ctx, "nd", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "hello, %s", r.TLS.PeerCertificates[0].URIs[0])
	})}
	go server.Serve(listener) // not ServeTLS: the connections are encrypted already
	defer server.Close()

	for _, id := range []string{clientID, "spiffe://example.org/stranger"} {
		clientTLS, err := ca.config(id, serverID)
		if err != nil {
			return err
		}
		if err := ask(clientTLS, "https://"+listener.Addr().String()); err != nil {
			return err
		}
	}
	return nil
}

// ask prints the server's answer, or that the server refused the client.
func ask(cfg *tls.Config, url string) error {
	transport := &http.Transport{DialTLSContext: (&ndnet.Dialer{TLS: cfg}).DialContext}
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport}).Get(url)
	var alert tls.AlertError
	if errors.As(err, &alert) {
		fmt.Println("refused:", alert)
		return nil
	}
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	fmt.Printf("%s\n", text)
	return err
}

// config returns a configuration with the identity own, for both roles. It admits only a peer whose certificate is of the authority and
// has the identity peer. Names are not verified, because SPIFFE identities take their place.
func (a *authority) config(own, peer string) (*tls.Config, error) {
	certificate, err := a.issue(own)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		Certificates:       []tls.Certificate{certificate},
		ClientAuth:         tls.RequireAnyClientCert,
		InsecureSkipVerify: true, // VerifyConnection verifies
		VerifyConnection: func(state tls.ConnectionState) error {
			return verify(state.PeerCertificates, a.pool(), peer)
		},
	}, nil
}

// verify checks the chain of a peer's certificates, and its SPIFFE identity.
func verify(chain []*x509.Certificate, roots *x509.CertPool, want string) error {
	intermediates := x509.NewCertPool()
	for _, c := range chain[1:] {
		intermediates.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	if err != nil {
		return err
	}
	if ids := chain[0].URIs; len(ids) != 1 || ids[0].String() != want {
		return fmt.Errorf("the peer is %v, want %s", ids, want)
	}
	return nil
}

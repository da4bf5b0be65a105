package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log"
	"net/netip"

	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/nd/ndtls"
)

func main() {
	secret := make([]byte, 32) // in practice of a file that both machines have: ndcat --new-secret
	rand.Read(secret)
	if err := run(context.Background(), secret); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, secret []byte) error {
	cfg, err := ndtls.Shared(secret)
	if err != nil {
		return err
	}
	at := netip.MustParseAddrPort("127.0.0.1:0")
	listener, err := nd.Listen(at, nd.EndpointConfig{TLS: cfg})
	if err != nil {
		return err
	}
	defer listener.Close()
	if at, err = listener.Address(); err != nil {
		return err
	}
	received := make(chan error, 1)
	go func() { received <- receive(ctx, listener) }()
	e, err := nd.Dial(ctx, at, nd.EndpointConfig{TLS: cfg})
	if err != nil {
		return err
	}
	err = e.Send(ctx, []byte("nobody else can read this"))
	return errors.Join(err, <-received, e.Close())
}

// receive prints the message of one client.
func receive(ctx context.Context, listener *nd.EndpointListener) error {
	e, err := listener.Accept(ctx)
	if err != nil {
		return err
	}
	defer e.Close()
	message := make([]byte, 100)
	n, err := e.Receive(ctx, message)
	if err != nil {
		return err
	}
	state, encrypted := e.Connector.TLS()
	fmt.Printf("%s (encrypted: %v, protocol %s)\n", message[:n], encrypted, state.NegotiatedProtocol)
	return nil
}

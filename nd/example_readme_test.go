package nd_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/nd"
)

// The program of README.md: an initiator writes into the memory of a target, and the target prints it.
func Example_endpoints() {
	giveBack, err := netlabtest.DefaultPort() // other test processes run this example, too
	if err == nil {
		err = errors.Join(run(context.Background(), netip.MustParseAddrPort("127.0.0.1:7000")), giveBack())
	}
	if err != nil {
		fmt.Println(err)
	}
	// Output: hello
}

func run(ctx context.Context, at netip.AddrPort) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	listener, err := nd.Listen(at, nd.EndpointConfig{Rights: nd.MRAllowRemoteWrite})
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- target(ctx, listener) }()
	if err = initiator(ctx, at); err != nil {
		cancel() // the target runs until the end of the context
	}
	return errors.Join(err, <-served, listener.Close())
}

func target(ctx context.Context, listener *nd.EndpointListener) error {
	e, err := listener.Accept(ctx)
	if err != nil {
		return err
	}
	defer e.Close()
	if err := e.Connector.NotifyDisconnect(ctx); err != nil { // a Write needs no code at its target
		return err
	}
	fmt.Printf("%s\n", e.Memory.Bytes()[:5])
	return nil
}

func initiator(ctx context.Context, server netip.AddrPort) error {
	e, err := nd.Dial(ctx, server, nd.EndpointConfig{})
	if err != nil {
		return err // errors.Is(err, nd.ErrConnectionRefused) if there is no listener
	}
	defer e.Close()
	if err := e.Write(ctx, 0, []byte("hello")); err != nil { // returns when the bytes are in the target's memory
		return err
	}
	return e.Disconnect(ctx)
}

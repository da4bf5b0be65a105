package nd_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/ndxdp/ndxdp/nd"
)

// The program of README.md: an initiator that writes into the memory of a target, which prints it.
func Example_endpoints() {
	ctx, at := context.Background(), netip.MustParseAddrPort("127.0.0.1:7000")
	listener, err := nd.Listen(at, nd.EndpointConfig{Rights: nd.MRAllowRemoteWrite})
	if err != nil {
		fmt.Println(err)
		return
	}
	served := make(chan error, 1)
	go func() { served <- target(ctx, listener) }()
	if err := initiator(ctx, at); err != nil {
		fmt.Println(errors.Join(err, listener.Close()))
		return
	}
	if err := errors.Join(<-served, listener.Close()); err != nil {
		fmt.Println(err)
	}
	// Output: hello
}

func target(ctx context.Context, listener *nd.EndpointListener) error {
	e, err := listener.Accept(ctx)
	if err != nil {
		return err
	}
	defer e.Close()
	if _, err := e.Result(ctx); !errors.Is(err, nd.CausePeerDisconnected) { // a Write needs no code at its target
		return err
	}
	fmt.Printf("%s\n", e.Memory.Bytes()[:5])
	return nil
}

func initiator(ctx context.Context, server netip.AddrPort) error {
	e, err := nd.Dial(ctx, server, nd.EndpointConfig{})
	if err != nil {
		return err // errors.Is(err, nd.ErrConnectionRefused) if nobody listens
	}
	defer e.Close()
	n := copy(e.Memory.Bytes(), "hello")
	if err := e.QueuePair.Write(1, []nd.SGE{e.Memory.SGE(0, n)}, e.Peer.Address, e.Peer.Token, 0); err != nil {
		return err
	}
	if _, err := e.Result(ctx); err != nil { // the bytes are in the memory of the target
		return err
	}
	return e.Disconnect(ctx)
}

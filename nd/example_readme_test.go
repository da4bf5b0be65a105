package nd_test

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/ndxdp/ndxdp/nd"
)

// What README.md shows: a server that sends back what it receives, and a client that asks it.
func Example_endpoints() {
	if err := echo(context.Background(), netip.MustParseAddrPort("192.0.2.7:7000")); err != nil {
		fmt.Println(err)
	}
	if err := ask(context.Background(), netip.MustParseAddrPort("192.0.2.7:7000")); err != nil {
		fmt.Println(err)
	}
}

func echo(ctx context.Context, at netip.AddrPort) error {
	listener, err := nd.Listen(at, nd.EndpointConfig{})
	if err != nil {
		return err
	}
	defer listener.Close()
	e, err := listener.Accept(ctx)
	if err != nil {
		return err
	}
	for {
		if err := e.QueuePair.Receive(1, []nd.SGE{e.Memory.SGE(0, 4096)}); err != nil {
			return err
		}
		got, err := e.Result(ctx)
		if err != nil { // errors.Is(err, nd.CausePeerDisconnected): Close is the end for both
			return e.Close()
		}
		if err := e.QueuePair.Send(2, []nd.SGE{e.Memory.SGE(0, int(got.Bytes))}, nd.OpSilentSuccess); err != nil {
			return err
		}
	}
}

func ask(ctx context.Context, server netip.AddrPort) error {
	e, err := nd.Dial(ctx, server, nd.EndpointConfig{})
	if err != nil {
		return err // errors.Is(err, nd.ErrConnectionRefused), …
	}
	n := copy(e.Memory.Bytes(), "hello")
	if err := e.QueuePair.Receive(1, []nd.SGE{e.Memory.SGE(4096, 4096)}); err != nil {
		return err
	}
	if err := e.QueuePair.Send(2, []nd.SGE{e.Memory.SGE(0, n)}, nd.OpSilentSuccess); err != nil {
		return err
	}
	got, err := e.Result(ctx) // the answer
	if err != nil {
		return err
	}
	fmt.Printf("%s\n", e.Memory.Bytes()[4096:][:got.Bytes])
	return e.Disconnect(ctx)
}

package nd_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/ndxdp/ndxdp/nd"
)

// near is the configuration of these examples: over loopback, which needs no privilege. The server has the second address.
func near() (nd.EndpointConfig, *nd.EndpointListener, error) {
	port, err := freePort()
	if err != nil {
		return nd.EndpointConfig{}, nil, err
	}
	cfg := nd.EndpointConfig{Datapath: nd.DatapathUDP, UDPPort: port}
	adapter, err := nd.OpenAdapter(nd.AdapterConfig{Address: netip.MustParseAddr("127.0.0.1"), Datapath: cfg.Datapath, UDPPort: port})
	if err != nil {
		return cfg, nil, err
	}
	server := cfg
	server.Rights = nd.MRAllowRemoteRead | nd.MRAllowRemoteWrite
	server.Greeting = []byte("welcome")
	l, err := nd.Listen(netip.MustParseAddrPort("127.0.0.2:7000"), server)
	cfg.Adapter = adapter // without it, Dial opens one on the address that the route selects
	return cfg, l, err
}

// together runs a server and a client, and closes their objects.
func together(server, client func(context.Context, *nd.Endpoint) error) error {
	ctx := context.Background()
	cfg, l, err := near()
	if err != nil {
		return err
	}
	defer cfg.Adapter.Close()
	defer l.Close()
	served := make(chan error, 1)
	go func() {
		e, err := l.Accept(ctx)
		if err == nil {
			err = errors.Join(server(ctx, e), e.Disconnect(ctx))
		}
		served <- err
	}()
	at, err := l.Address()
	if err != nil {
		return err
	}
	e, err := nd.Dial(ctx, at, cfg)
	if err != nil {
		return err
	}
	return errors.Join(client(ctx, e), e.Disconnect(ctx), <-served)
}

// A server that sends back what it receives.
func ExampleDial() {
	echo := func(ctx context.Context, e *nd.Endpoint) error {
		message := make([]byte, 4096)
		n, err := e.Receive(ctx, message)
		if err != nil {
			return err
		}
		return e.Send(ctx, message[:n])
	}
	ask := func(ctx context.Context, e *nd.Endpoint) error {
		fmt.Printf("the server says %q\n", e.Greeting)
		if err := e.Send(ctx, []byte("hello")); err != nil {
			return err
		}
		answer := make([]byte, 4096)
		n, err := e.Receive(ctx, answer)
		fmt.Printf("it answers %q\n", answer[:n])
		return err
	}
	if err := together(echo, ask); err != nil {
		fmt.Println(err)
	}
	// Output:
	// the server says "welcome"
	// it answers "hello"
}

// A client that writes a record into the server's memory, and reads it back. The server's program is not involved.
func ExampleEndpoint_Write() {
	wait := func(ctx context.Context, e *nd.Endpoint) error {
		return e.Connector.NotifyDisconnect(ctx)
	}
	store := func(ctx context.Context, e *nd.Endpoint) error {
		if err := e.Write(ctx, 4096, []byte("a record")); err != nil {
			return err
		}
		record := make([]byte, 8)
		err := e.Read(ctx, 4096, record)
		fmt.Printf("%s\n", record)
		return err
	}
	if err := together(wait, store); err != nil {
		fmt.Println(err)
	}
	// Output:
	// a record
}

// A client that writes bytes into the server's memory and then sends a notification. When the message of a Send is received, all
// earlier Writes are in place.
func ExampleQueuePair_Write() {
	await := func(ctx context.Context, e *nd.Endpoint) error {
		if err := e.QueuePair.Receive(1, nil); err != nil {
			return err
		}
		_, err := e.Result(ctx) // the notification
		fmt.Printf("%s\n", e.Memory.Bytes()[100:112])
		return err
	}
	write := func(ctx context.Context, e *nd.Endpoint) error {
		n := copy(e.Memory.Bytes(), "remote write")
		err := errors.Join(
			e.QueuePair.Write(1, []nd.SGE{e.Memory.SGE(0, n)}, e.Peer.Address+100, e.Peer.Token, nd.OpSilentSuccess|nd.OpDefer),
			e.QueuePair.Send(2, nil, nd.OpSolicit),
		)
		if err != nil {
			return err
		}
		_, err = e.Result(ctx)
		return err
	}
	if err := together(await, write); err != nil {
		fmt.Println(err)
	}
	// Output:
	// remote write
}

// A client that reads a table in the server's memory. The server's program is not involved.
func ExampleQueuePair_Read() {
	table := func(ctx context.Context, e *nd.Endpoint) error {
		for i := range 8 {
			e.Memory.Bytes()[i] = byte(i * i)
		}
		if err := e.QueuePair.Send(1, nil, nd.OpSilentSuccess); err != nil { // the table is ready
			return err
		}
		return e.Connector.NotifyDisconnect(ctx)
	}
	read := func(ctx context.Context, e *nd.Endpoint) error {
		if err := e.QueuePair.Receive(1, nil); err != nil {
			return err
		}
		if _, err := e.Result(ctx); err != nil {
			return err
		}
		if err := e.QueuePair.Read(2, []nd.SGE{e.Memory.SGE(0, 8)}, e.Peer.Address, e.Peer.Token, 0); err != nil {
			return err
		}
		_, err := e.Result(ctx)
		fmt.Printf("%d\n", e.Memory.Bytes()[:8])
		return err
	}
	if err := together(table, read); err != nil {
		fmt.Println(err)
	}
	// Output:
	// [0 1 4 9 16 25 36 49]
}

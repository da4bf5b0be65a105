package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/netip"

	"github.com/ndxdp/ndxdp/nd"
)

func main() {
	listen := flag.String("listen", "", "serve at this ND address")
	connect := flag.String("connect", "", "connect to this ND address")
	flag.Parse()
	if err := run(context.Background(), *listen, *connect); err != nil {
		log.Fatal(err)
	}
}

// run serves, or connects, or does both over loopback.
func run(ctx context.Context, listen, connect string) error {
	both := listen == "" && connect == ""
	if both {
		listen, connect = "127.0.0.1:7001", "127.0.0.1:7001"
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan error, 1)
	if listen == "" {
		served <- nil
	} else {
		at, err := netip.ParseAddrPort(listen)
		if err != nil {
			return err
		}
		listener, err := nd.Listen(at, nd.EndpointConfig{})
		if err != nil {
			return err
		}
		defer listener.Close()
		go func() { served <- serve(ctx, listener, both) }()
	}
	var err error
	if connect != "" {
		if err = dial(ctx, connect); err != nil {
			cancel() // the server waits for nobody
		}
	}
	return errors.Join(err, <-served)
}

// serve answers one client at a time. With once it returns after the first client.
func serve(ctx context.Context, listener *nd.EndpointListener, once bool) error {
	for {
		e, err := listener.Accept(ctx)
		if err != nil {
			return err
		}
		err = errors.Join(answer(ctx, e), e.Close())
		if once || err != nil {
			return err
		}
	}
}

func dial(ctx context.Context, connect string) error {
	at, err := netip.ParseAddrPort(connect)
	if err != nil {
		return err
	}
	e, err := nd.Dial(ctx, at, nd.EndpointConfig{})
	if err != nil {
		return err
	}
	defer e.Close()
	if err := ask(ctx, e); err != nil {
		return err
	}
	return e.Disconnect(ctx)
}

// answer sends every message back until the client disconnects.
func answer(ctx context.Context, e *nd.Endpoint) error {
	message := make([]byte, 64<<10)
	for {
		n, err := e.Receive(ctx, message)
		if err == nil {
			err = e.Send(ctx, message[:n])
		}
		if errors.Is(err, nd.CausePeerDisconnected) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func ask(ctx context.Context, e *nd.Endpoint) error {
	answer := make([]byte, 64<<10)
	for _, word := range []string{"one", "two", "three"} {
		if err := e.Send(ctx, []byte(word)); err != nil {
			return err
		}
		n, err := e.Receive(ctx, answer)
		if err != nil {
			return err
		}
		fmt.Printf("%s\n", answer[:n])
	}
	return nil
}

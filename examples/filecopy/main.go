package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/netip"
	"os"

	"github.com/ndxdp/ndxdp/nd"
)

func main() {
	listen := flag.String("listen", "", "serve at this ND address")
	connect := flag.String("connect", "", "connect to this ND address")
	from = flag.String("from", "", "the client copies this file")
	to = flag.String("to", "", "the server writes this file")
	flag.Parse()
	if err := run(context.Background(), *listen, *connect); err != nil {
		log.Fatal(err)
	}
}

// run serves, or connects, or does both over loopback.
func run(ctx context.Context, listen, connect string) error {
	both := listen == "" && connect == ""
	if both {
		listen, connect = "127.0.0.1:7003", "127.0.0.1:7003"
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
		listener, err := nd.Listen(at, nd.EndpointConfig{Rights: nd.MRAllowRemoteWrite, MemoryBytes: chunk})
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

// chunk is how much is written at a time.
const chunk = 1 << 20

var from, to *string

// answer takes a file: the client writes each chunk into this side's memory and then says how long it is. A chunk of no bytes is the end.
func answer(ctx context.Context, e *nd.Endpoint) (err error) {
	f, err := os.Create(*to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var length [4]byte
	for {
		if _, err := e.Receive(ctx, length[:]); err != nil {
			return err
		}
		n := binary.BigEndian.Uint32(length[:])
		if n > chunk {
			return fmt.Errorf("the peer sent a chunk of %d bytes", n)
		}
		if _, err := f.Write(e.Memory.Bytes()[:n]); err != nil {
			return err
		}
		if err := e.Send(ctx, nil); err != nil { // the memory is free again, and the chunk is in the file
			return err
		}
		if n == 0 {
			return e.Connector.NotifyDisconnect(ctx)
		}
	}
}

func ask(ctx context.Context, e *nd.Endpoint) error {
	f, err := os.Open(*from)
	if err != nil {
		return err
	}
	defer f.Close()
	buffer, total := e.Memory.Bytes()[:chunk], 0 // Writes from here leave without a copy
	for {
		n, err := io.ReadFull(f, buffer)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
		if err := e.Write(ctx, 0, buffer[:n]); err != nil {
			return err
		}
		if err := e.Send(ctx, binary.BigEndian.AppendUint32(nil, uint32(n))); err != nil {
			return err
		}
		if _, err := e.Receive(ctx, nil); err != nil {
			return err
		}
		if total += n; n == 0 {
			fmt.Printf("%d bytes are in %s\n", total, *to)
			return nil
		}
	}
}

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
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
		listen, connect = "127.0.0.1:7002", "127.0.0.1:7002"
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
		listener, err := nd.Listen(at, nd.EndpointConfig{Rights: nd.MRAllowRemoteRead})
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

// A record has a fixed place in the table, which follows from its key: a checksum, the length of the key, the length of the value, both.
const (
	recordBytes = 128
	records     = 1024
	header      = 4 + 1 + 1
)

var errNotFound = errors.New("the table does not have the key")

// place is the offset of the record of a key. Keys that share a place replace each other in this example.
func place(key string) int { return int(crc32.ChecksumIEEE([]byte(key))%records) * recordBytes }

// put writes a record into the server's own memory. A client that reads meanwhile sees a checksum that does not match, and reads again.
func put(table []byte, key, value string) error {
	if header+len(key)+len(value) > recordBytes {
		return fmt.Errorf("the record of %q has more than %d bytes", key, recordBytes)
	}
	r := table[place(key):][:recordBytes]
	r[4], r[5] = byte(len(key)), byte(len(value))
	copy(r[header:], key)
	copy(r[header+len(key):], value)
	binary.BigEndian.PutUint32(r, crc32.ChecksumIEEE(r[4:header+len(key)+len(value)]))
	return nil
}

// get reads a record by an RDMA Read. The server's program does nothing for it.
func get(ctx context.Context, e *nd.Endpoint, key string) (string, error) {
	const attempts = 10
	var r [recordBytes]byte
	for range attempts {
		if err := e.Read(ctx, place(key), r[:]); err != nil {
			return "", err
		}
		k, v := int(r[4]), int(r[5])
		if k == 0 {
			return "", errNotFound
		}
		end := header + k + v
		if end > recordBytes || crc32.ChecksumIEEE(r[4:end]) != binary.BigEndian.Uint32(r[:]) {
			continue // the server writes the record now
		}
		if string(r[header:][:k]) != key {
			return "", errNotFound
		}
		return string(r[header+k : end]), nil
	}
	return "", fmt.Errorf("the record of %q changed during each of %d reads", key, attempts)
}

// answer fills the table of a client, tells it by a message, and waits until the client disconnects.
func answer(ctx context.Context, e *nd.Endpoint) error {
	for key, value := range map[string]string{"iron": "Fe", "gold": "Au", "tin": "Sn"} {
		if err := put(e.Memory.Bytes(), key, value); err != nil {
			return err
		}
	}
	if err := e.Send(ctx, nil); err != nil {
		return err
	}
	return e.Connector.NotifyDisconnect(ctx)
}

func ask(ctx context.Context, e *nd.Endpoint) error {
	if _, err := e.Receive(ctx, nil); err != nil { // the table is there
		return err
	}
	for _, key := range []string{"iron", "gold", "silver"} {
		value, err := get(ctx, e, key)
		if errors.Is(err, errNotFound) {
			value, err = "not there", nil
		}
		if err != nil {
			return err
		}
		fmt.Printf("%s: %s\n", key, value)
	}
	return nil
}

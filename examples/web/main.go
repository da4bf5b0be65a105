package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"

	"github.com/ndxdp/ndxdp/nd/ndnet"
)

func main() {
	// The first server listens on both, the second one on TCP only.
	if err := errors.Join(run("127.0.0.1:0", true), run("127.0.0.1:0", false)); err != nil {
		log.Fatal(err)
	}
}

// run serves HTTP at an address, and asks the server once.
func run(address string, overND bool) (err error) {
	tcp, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "hello, %s", r.URL.Path[1:])
	})}
	defer func() { err = errors.Join(err, server.Close()) }() // closes the listeners, too
	go server.Serve(tcp)
	if overND {
		listener, err := ndnet.Listen("nd", tcp.Addr().String()) // ND ports are not TCP ports: the number is free
		if err != nil {
			return err
		}
		go server.Serve(listener)
	}
	transport := &http.Transport{DialContext: dial}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	answer, err := client.Get("http://" + tcp.Addr().String() + "/world")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	fmt.Printf("%s\n", text)
	return err
}

// dial connects by ND, and by TCP if that fails.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, refused := new(ndnet.Dialer).DialContext(ctx, network, address)
	if refused == nil {
		fmt.Print("over ND: ")
		return conn, nil
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, errors.Join(refused, err)
	}
	fmt.Print("over TCP: ")
	return conn, nil
}

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"sync"
)

// Echo is the service of net/rpc.
type Echo struct{}

// Say returns its argument.
func (Echo) Say(asked []byte, answer *[]byte) error {
	*answer = asked
	return nil
}

// netrpcCases have all callers on one connection.
func netrpcCases() []program {
	var out []program
	for _, callers := range []int{1, 16} {
		out = append(out, program{
			name: fmt.Sprintf("netrpc-64B-%d", callers), serve: serveRPC,
			connect: func(ctx context.Context, n *network) (*load, error) { return connectRPC(ctx, n, callers) },
		})
	}
	return out
}

func serveRPC(n *network) (*service, error) {
	server := rpc.NewServer()
	if err := server.Register(Echo{}); err != nil {
		return nil, err
	}
	l, err := n.listen()
	if err != nil {
		return nil, err
	}
	return serveConns(l, func(c net.Conn) error { server.ServeConn(c); return nil }), nil
}

func connectRPC(ctx context.Context, n *network, callers int) (*load, error) {
	conn, err := n.dialPeer(ctx)
	if err != nil {
		return nil, err
	}
	client := rpc.NewClient(conn)
	return &load{
		close: client.Close,
		calls: each(callers, func(caller int) func() error {
			k := 0
			return func() error {
				k++
				asked := numbered(caller, k)
				var answer []byte
				if err := client.Call("Echo.Say", asked, &answer); err != nil {
					return err
				}
				return equal(answer, asked)
			}
		}),
	}, nil
}

// numbered returns a small unique message.
func numbered(caller, k int) []byte {
	m := make([]byte, small)
	copy(m, fmt.Sprintf("caller %d, message %d", caller, k))
	return m
}

// equal returns an error if an answer differs from the expected one.
func equal(got, want []byte) error {
	if !bytes.Equal(got, want) {
		return fmt.Errorf("%w: %.80q instead of %.80q", errWrong, got, want)
	}
	return nil
}

// serveConns calls serve for each connection, in a separate goroutine, until it is stopped. If the client or stop closed the
// connection, an error of serve is ignored, unless it is errWrong.
func serveConns(l net.Listener, serve func(net.Conn) error) *service {
	var wg sync.WaitGroup
	var mu sync.Mutex // guards the next variables
	open := map[net.Conn]bool{}
	var stopped bool
	var wrong error
	one := func(c net.Conn) {
		err := serve(c)
		mu.Lock()
		defer mu.Unlock()
		if errors.Is(err, errWrong) {
			wrong = errors.Join(wrong, err)
		}
		delete(open, c)
		_ = c.Close()
	}
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // stopped
			}
			mu.Lock()
			if open[c] = true; stopped {
				_ = c.Close()
			}
			mu.Unlock()
			wg.Go(func() { one(c) })
		}
	})
	return &service{stop: func() error {
		err := l.Close()
		mu.Lock()
		stopped = true
		for c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		wg.Wait()
		return errors.Join(wrong, err)
	}}
}

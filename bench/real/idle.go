package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

const (
	idleConnections = 10000
	idleDialers     = 16 // goroutines that open them
)

func idleCases() []program {
	return []program{{
		name: "idle-10000", idle: idleConnections, serve: serveEcho,
		connect: func(ctx context.Context, n *network) (*load, error) { return connectIdle(ctx, n, idleConnections) },
	}}
}

// serveEcho echoes each connection's data.
func serveEcho(n *network) (*service, error) {
	l, err := n.listen()
	if err != nil {
		return nil, err
	}
	return serveConns(l, func(c net.Conn) error {
		message := make([]byte, small)
		for {
			if _, err := io.ReadFull(c, message); err != nil {
				return err
			}
			if _, err := c.Write(message); err != nil {
				return err
			}
		}
	}), nil
}

// connectIdle opens connections, and checks that each of them works.
func connectIdle(ctx context.Context, n *network, count int) (*load, error) {
	conns := make([]net.Conn, count)
	all := func(do func(i int) error) error {
		errs := make([]error, idleDialers)
		var wg sync.WaitGroup
		for d := range idleDialers {
			wg.Go(func() {
				for i := d; i < count && errs[d] == nil; i += idleDialers {
					if err := do(i); err != nil {
						errs[d] = fmt.Errorf("connection %d: %w", i, err)
					}
				}
			})
		}
		wg.Wait()
		return errors.Join(errs...)
	}
	l := &load{close: func() error {
		return all(func(i int) error {
			if conns[i] != nil {
				_ = conns[i].Close() // no data is in flight
			}
			return nil
		})
	}}
	from := time.Now()
	err := all(func(i int) (err error) { conns[i], err = n.dialPeer(ctx); return err })
	l.opened = float64(count) / time.Since(from).Seconds()
	if err == nil {
		err = all(func(i int) error {
			said, heard := numbered(0, i), make([]byte, small)
			if _, err := conns[i].Write(said); err != nil {
				return err
			}
			if _, err := io.ReadFull(conns[i], heard); err != nil {
				return err
			}
			return equal(heard, said)
		})
	}
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

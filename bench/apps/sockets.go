package apps

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/ndxdp/ndxdp/bench"
)

// stampEvery is the distance between copies of the number in a message. The numbers and their places differ between messages, so
// bytes of another message or place are detected.
const stampEvery = 4 << 10

// number writes k into a message at each place.
func number(msg []byte, k uint64) {
	for at := 0; at+8 <= len(msg); at += stampEvery {
		binary.LittleEndian.PutUint64(msg[at:], k+uint64(at)<<32)
	}
}

// errWrong means that a program received other bytes than were sent.
var errWrong = errors.New("the bytes are not those that were sent")

// numbered checks the numbers in a message.
func numbered(msg []byte, k uint64) error {
	for at := 0; at+8 <= len(msg); at += stampEvery {
		if got := binary.LittleEndian.Uint64(msg[at:]); got != k+uint64(at)<<32 {
			return fmt.Errorf("%w: message %d has %#x at byte %d", errWrong, k, got, at)
		}
	}
	return nil
}

// dialAll opens the connections of a spec.
func dialAll(ctx context.Context, t *transport, s bench.AppSpec, deadline time.Time) (*client, []net.Conn, error) {
	conns := make([]net.Conn, 0, s.Connections)
	c := &client{close: func() {
		for _, conn := range conns {
			_ = conn.Close() // all answers have arrived
		}
	}}
	for len(conns) < s.Connections {
		conn, err := t.dial(ctx, "tcp", t.peer.String())
		if err == nil {
			conns = append(conns, conn)
			err = conn.SetDeadline(deadline)
		}
		if err != nil {
			c.close()
			return nil, nil, fmt.Errorf("connection %d: %w", len(conns), err)
		}
	}
	return c, conns, nil
}

func connectEcho(ctx context.Context, t *transport, s bench.AppSpec, deadline time.Time) (*client, error) {
	c, conns, err := dialAll(ctx, t, s, deadline)
	if err != nil {
		return nil, err
	}
	for _, conn := range conns {
		said, heard, k := make([]byte, s.Size), make([]byte, s.Size), uint64(0)
		c.calls = append(c.calls, func() error {
			k++
			number(said, k)
			if _, err := conn.Write(said); err != nil {
				return err
			}
			if _, err := io.ReadFull(conn, heard); err != nil {
				return err
			}
			if !bytes.Equal(said, heard) {
				return fmt.Errorf("%w: echo %d", errWrong, k)
			}
			return nil
		})
	}
	return c, nil
}

// connectOpen opens and closes a connection in each operation.
func connectOpen(ctx context.Context, t *transport, s bench.AppSpec, deadline time.Time) (*client, error) {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	c := &client{close: cancel}
	for range s.Connections {
		said, k := make([]byte, s.Size), uint64(0)
		c.calls = append(c.calls, func() error {
			k++
			number(said, k)
			return openOnce(ctx, t, said, deadline)
		})
	}
	return c, nil
}

// openOnce sends a message over a new connection, and waits for its echo and for the end. The server closes first, so that the port
// of the client is free at once.
func openOnce(ctx context.Context, t *transport, said []byte, deadline time.Time) error {
	conn, err := t.dial(ctx, "tcp", t.peer.String())
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	if _, err := conn.Write(said); err != nil {
		return err
	}
	heard, err := io.ReadAll(conn)
	if err == nil && !bytes.Equal(said, heard) {
		err = fmt.Errorf("%w: %d bytes of an echo", errWrong, len(heard))
	}
	return err
}

// serveOpen returns one message on each connection.
func serveOpen(l net.Listener, s bench.AppSpec, deadline time.Time) (stop func() error) {
	return serveConns(l, deadline, func(conn net.Conn) error {
		msg := make([]byte, s.Size)
		if _, err := io.ReadFull(conn, msg); err != nil {
			return err
		}
		_, err := conn.Write(msg)
		return err
	})
}

// connectIdle opens idle connections.
func connectIdle(ctx context.Context, t *transport, s bench.AppSpec, deadline time.Time) (*client, error) {
	c, _, err := dialAll(ctx, t, s, deadline)
	return c, err
}

// connectStream writes messages without a pause. The last one of a run requests an answer.
func connectStream(ctx context.Context, t *transport, s bench.AppSpec, deadline time.Time) (*client, error) {
	c, conns, err := dialAll(ctx, t, s, deadline)
	if err != nil {
		return nil, err
	}
	sent := make([]uint64, len(conns))
	write := func(i int, msg []byte, flag uint64) error {
		sent[i]++
		number(msg, sent[i]|flag)
		_, err := conns[i].Write(msg)
		return err
	}
	for i := range conns {
		msg := make([]byte, s.Size)
		c.calls = append(c.calls, func() error { return write(i, msg, 0) })
	}
	c.flush = func() error {
		word, msg := make([]byte, 1), make([]byte, s.Size)
		for i, conn := range conns {
			if err := write(i, msg, lastMessage); err != nil {
				return err
			}
			if _, err := io.ReadFull(conn, word); err != nil {
				return err
			}
		}
		return nil
	}
	return c, nil
}

// lastMessage is a bit in the number of a message that requests an answer.
const lastMessage = 1 << 31

// serveConns calls each for every connection, in a separate goroutine.
func serveConns(l net.Listener, deadline time.Time, each func(net.Conn) error) (stop func() error) {
	var wg sync.WaitGroup
	var mu sync.Mutex // guards the next variables
	var failed error
	stopped := false
	open := map[net.Conn]bool{}
	serve := func(conn net.Conn) {
		err := conn.SetDeadline(deadline)
		if err == nil {
			err = each(conn)
		}
		mu.Lock()
		defer mu.Unlock()
		if open[conn] && !errors.Is(err, io.EOF) { // otherwise the peer or stop closed it
			failed = errors.Join(failed, err)
		}
		_ = conn.Close()
		delete(open, conn)
	}
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[conn] = !stopped
			if stopped {
				_ = conn.Close()
			}
			mu.Unlock()
			wg.Go(func() { serve(conn) })
		}
	})
	return func() error {
		err := l.Close()
		mu.Lock()
		stopped = true
		for conn := range open {
			delete(open, conn)
			_ = conn.Close()
		}
		mu.Unlock()
		wg.Wait()
		return errors.Join(failed, err)
	}
}

func serveEcho(l net.Listener, s bench.AppSpec, deadline time.Time) (stop func() error) {
	return serveConns(l, deadline, func(conn net.Conn) error {
		msg := make([]byte, s.Size)
		for {
			if _, err := io.ReadFull(conn, msg); err != nil {
				return err
			}
			if _, err := conn.Write(msg); err != nil {
				return err
			}
		}
	})
}

// serveStream reads messages, checks their numbers, and answers messages that request it.
func serveStream(l net.Listener, s bench.AppSpec, deadline time.Time) (stop func() error) {
	return serveConns(l, deadline, func(conn net.Conn) error {
		msg := make([]byte, s.Size)
		for k := uint64(1); ; k++ {
			if _, err := io.ReadFull(conn, msg); err != nil {
				return err
			}
			flag := binary.LittleEndian.Uint64(msg) & lastMessage
			if err := numbered(msg, k|flag); err != nil {
				return err
			}
			if flag == 0 {
				continue
			}
			if _, err := conn.Write([]byte{1}); err != nil {
				return err
			}
		}
	})
}

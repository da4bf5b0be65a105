package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	coder "github.com/coder/websocket"
	gorilla "github.com/gorilla/websocket"
)

// Paths of the servers.
const (
	pathSocket   = "/socket"   // echoes each message
	pathAudience = "/audience" // receives a copy of messages to pathSocket
)

// audience is the number of connections that receive a broadcast.
const audience = 100

func gorillaCases() []program {
	var out []program
	for _, s := range []struct {
		name          string
		callers, size int
	}{{"gorilla-64B-1", 1, small}, {"gorilla-64B-16", 16, small}, {"gorilla-64B-128", 128, small}, {"gorilla-1MiB-1", 1, mib}} {
		out = append(out, program{
			name: s.name, serve: serveGorilla,
			connect: func(ctx context.Context, n *network) (*load, error) {
				return connectSockets(ctx, s.callers, s.size, func(ctx context.Context) (socket, error) { return dialGorilla(ctx, n, pathSocket) })
			},
		})
	}
	return append(out, program{name: "gorilla-broadcast-100", serve: serveGorilla, connect: connectAudience})
}

func coderCases() []program {
	var out []program
	for _, s := range []struct {
		name          string
		callers, size int
	}{{"coder-64B-1", 1, small}, {"coder-64B-16", 16, small}, {"coder-64B-128", 128, small}, {"coder-1MiB-1", 1, mib}} {
		out = append(out, program{
			name: s.name, serve: serveCoder,
			connect: func(ctx context.Context, n *network) (*load, error) {
				return connectSockets(ctx, s.callers, s.size, func(ctx context.Context) (socket, error) { return dialCoder(ctx, n) })
			},
		})
	}
	return out
}

// socket is a websocket of either library.
type socket interface {
	send(message []byte) error
	receive() ([]byte, error)
	Close() error
}

// connectSockets sends messages and waits for each echo, on several connections.
func connectSockets(ctx context.Context, callers, size int, dial func(context.Context) (socket, error)) (*load, error) {
	l := &load{}
	var sockets []socket
	l.close = func() error {
		for _, s := range sockets {
			_ = s.Close() // all answers have arrived
		}
		return nil
	}
	for range callers {
		s, err := dial(ctx)
		if err != nil {
			return nil, errors.Join(err, l.close())
		}
		sockets = append(sockets, s)
	}
	l.calls = each(callers, func(caller int) func() error {
		s, message, k := sockets[caller], make([]byte, size), uint64(caller)
		return func() error {
			k += uint64(callers)
			stamp(message, k)
			if err := s.send(message); err != nil {
				return err
			}
			got, err := s.receive()
			if err != nil {
				return err
			}
			return stamped(got, size, k)
		}
	})
	return l, nil
}

type gorillaSocket struct{ *gorilla.Conn }

func (s gorillaSocket) send(message []byte) error {
	return s.WriteMessage(gorilla.BinaryMessage, message)
}

func (s gorillaSocket) receive() ([]byte, error) {
	_, message, err := s.ReadMessage()
	return message, err
}

func dialGorilla(ctx context.Context, n *network, path string) (socket, error) {
	d := &gorilla.Dialer{NetDialContext: n.dial}
	conn, answer, err := d.DialContext(ctx, "ws://"+n.there()+path, nil)
	if err != nil {
		return nil, err
	}
	return gorillaSocket{conn}, answer.Body.Close()
}

// room is the server's side: it also broadcasts messages to the audience.
type room struct {
	upgrader gorilla.Upgrader
	mu       sync.Mutex // guards heard
	heard    []*gorilla.Conn
}

func serveGorilla(n *network) (*service, error) {
	l, err := n.listen()
	if err != nil {
		return nil, err
	}
	r := &room{}
	mux := http.NewServeMux()
	mux.HandleFunc(pathSocket, r.echo)
	mux.HandleFunc(pathAudience, r.join)
	return serveHTTP(l, mux, webCase{}), nil
}

func (r *room) echo(rw http.ResponseWriter, request *http.Request) {
	conn, err := r.upgrader.Upgrade(rw, request, nil)
	if err != nil {
		return // the client has the error
	}
	defer conn.Close()
	for {
		kind, message, err := conn.ReadMessage()
		if err != nil {
			return // the client has closed it
		}
		if err := r.broadcast(kind, message); err != nil {
			return
		}
		if err := conn.WriteMessage(kind, message); err != nil {
			return
		}
	}
}

func (r *room) join(rw http.ResponseWriter, request *http.Request) {
	conn, err := r.upgrader.Upgrade(rw, request, nil)
	if err != nil {
		return // the client has the error
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard = append(r.heard, conn)
	_ = conn.WriteMessage(gorilla.BinaryMessage, nil) // joins the audience; if it fails, the client fails, too
}

func (r *room) broadcast(kind int, message []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.heard {
		if err := c.WriteMessage(kind, message); err != nil {
			return err
		}
	}
	return nil
}

// connectAudience makes one sender and the audience. An operation ends when the whole audience has received a message.
func connectAudience(ctx context.Context, n *network) (*load, error) {
	var sockets []socket
	closeAll := func() error {
		for _, s := range sockets {
			_ = s.Close()
		}
		return nil
	}
	dial := func(path string) (socket, error) {
		s, err := dialGorilla(ctx, n, path)
		if err == nil {
			sockets = append(sockets, s)
		}
		return s, err
	}
	heard, speaks := make(chan error, audience), atomic.Pointer[[]byte]{}
	for range audience {
		s, err := dial(pathAudience)
		if err == nil {
			_, err = s.receive()
		}
		if err != nil {
			return nil, errors.Join(err, closeAll())
		}
		go func() { // ends with its connection
			for {
				got, err := s.receive()
				if err == nil && !bytes.Equal(got, *speaks.Load()) {
					err = fmt.Errorf("%w: %.80q", errWrong, got)
				}
				heard <- err
				if err != nil {
					return
				}
			}
		}()
	}
	speaker, err := dial(pathSocket)
	if err != nil {
		return nil, errors.Join(err, closeAll())
	}
	k := 0
	return &load{close: closeAll, calls: []func() error{func() error {
		k++
		message := numbered(0, k)
		speaks.Store(&message)
		if err := speaker.send(message); err != nil {
			return err
		}
		for range audience {
			if err := <-heard; err != nil {
				return err
			}
		}
		got, err := speaker.receive()
		if err != nil {
			return err
		}
		return equal(got, message)
	}}}, nil
}

type coderSocket struct{ *coder.Conn }

func (s coderSocket) send(message []byte) error {
	return s.Write(context.Background(), coder.MessageBinary, message)
}

func (s coderSocket) receive() ([]byte, error) {
	_, message, err := s.Read(context.Background())
	return message, err
}

func (s coderSocket) Close() error { return s.CloseNow() }

func dialCoder(ctx context.Context, n *network) (socket, error) {
	client := &http.Client{Transport: &http.Transport{DialContext: n.dial}}
	conn, _, err := coder.Dial(ctx, "ws://"+n.there()+pathSocket, &coder.DialOptions{HTTPClient: client})
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(2 * mib)
	return coderSocket{conn}, nil
}

func serveCoder(n *network) (*service, error) {
	l, err := n.listen()
	if err != nil {
		return nil, err
	}
	return serveHTTP(l, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		conn, err := coder.Accept(rw, r, nil)
		if err != nil {
			return // the client has the error
		}
		conn.SetReadLimit(2 * mib)
		s := coderSocket{conn}
		defer s.Close()
		for {
			message, err := s.receive()
			if err != nil {
				return // the client has closed it
			}
			if err := s.send(message); err != nil {
				return
			}
		}
	}), webCase{}), nil
}

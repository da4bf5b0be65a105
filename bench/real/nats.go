//go:build !nonats

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"time"
	"unsafe"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

const (
	natsReady   = 10 * time.Second
	natsBatch   = 1000 // messages of a batch
	natsMedium  = 64 * kib
	natsPending = -1 // without a limit
)

// natsCase describes a case of NATS. All messages go from the client's process to the server, and back to a second connection of
// the client's process.
type natsCase struct {
	name    string
	callers int
	call    func(publisher, subscriber *nats.Conn, caller int) (func() error, error)
}

func natsCases() []program {
	var out []program
	for _, c := range []natsCase{
		{"nats-request-64B-1", 1, natsRequest},
		{"nats-request-64B-16", 16, natsRequest},
		{"nats-batch-1000-1", 1, natsPublish(natsBatch, small)},
		{"nats-pubsub-64KiB-1", 1, natsPublish(1, natsMedium)},
	} {
		out = append(out, program{
			name: c.name, serve: serveNATS,
			connect: func(_ context.Context, n *network) (*load, error) { return connectNATS(n, c) },
		})
	}
	return out
}

// serveNATS runs the server, which has no option for a listener. Its accept loop uses an existing listener, so the private field is
// set. TestNATSListener detects a later version without the field.
func serveNATS(n *network) (*service, error) {
	s, err := server.NewServer(&server.Options{Host: n.local.String(), Port: port, NoLog: true, NoSigs: true})
	if err != nil {
		return nil, err
	}
	l, err := n.listen()
	if err != nil {
		return nil, err
	}
	if err := setNATSListener(s, l); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	s.Start()
	if !s.ReadyForConnections(natsReady) {
		return nil, fmt.Errorf("the NATS server is not ready after %v", natsReady)
	}
	return &service{stop: func() error { s.Shutdown(); s.WaitForShutdown(); return nil }}, nil
}

// setNATSListener sets the listener of a server that has not started.
func setNATSListener(s *server.Server, l net.Listener) error {
	field := reflect.ValueOf(s).Elem().FieldByName("listener")
	if !field.IsValid() || field.Type() != reflect.TypeFor[net.Listener]() {
		return errors.New("this version of the NATS server keeps no listener: look for its accept loop")
	}
	reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem().Set(reflect.ValueOf(l))
	return nil
}

// natsDialer provides the client's connections.
type natsDialer struct{ n *network }

func (d natsDialer) Dial(_, _ string) (net.Conn, error) { return d.n.dialPeer(context.Background()) }

func connectNATS(n *network, c natsCase) (*load, error) {
	l := &load{}
	var conns []*nats.Conn
	l.close = func() error {
		for _, conn := range conns {
			conn.Close()
		}
		return nil
	}
	for range 2 {
		conn, err := nats.Connect("nats://"+n.there(), nats.SetCustomDialer(natsDialer{n}), nats.NoReconnect())
		if err != nil {
			return nil, errors.Join(err, l.close())
		}
		conns = append(conns, conn)
	}
	for caller := range c.callers {
		call, err := c.call(conns[0], conns[1], caller)
		if err != nil {
			return nil, errors.Join(err, l.close())
		}
		l.calls = append(l.calls, call)
	}
	return l, nil
}

// natsRequest sends a request that the second connection answers.
func natsRequest(publisher, subscriber *nats.Conn, caller int) (func() error, error) {
	subject := fmt.Sprintf("echo.%d", caller)
	_, err := subscriber.Subscribe(subject, func(m *nats.Msg) { _ = m.Respond(m.Data) }) // if it fails, the request fails, too
	if err == nil {
		err = subscriber.Flush()
	}
	if err != nil {
		return nil, err
	}
	k := 0
	return func() error {
		k++
		asked := numbered(caller, k)
		answer, err := publisher.Request(subject, asked, natsReady)
		if err != nil {
			return err
		}
		return equal(answer.Data, asked)
	}, nil
}

// natsPublish publishes messages and waits until the second connection has received all of them.
func natsPublish(batch, size int) func(publisher, subscriber *nats.Conn, caller int) (func() error, error) {
	return func(publisher, subscriber *nats.Conn, caller int) (func() error, error) {
		subject := fmt.Sprintf("news.%d", caller)
		subscription, err := subscriber.SubscribeSync(subject)
		if err == nil {
			err = errors.Join(subscription.SetPendingLimits(natsPending, natsPending), subscriber.Flush())
		}
		if err != nil {
			return nil, err
		}
		message, k := make([]byte, size), uint64(0)
		return func() error {
			for i := range uint64(batch) {
				stamp(message, k+i)
				if err := publisher.Publish(subject, message); err != nil {
					return err
				}
			}
			for range batch {
				got, err := subscription.NextMsg(natsReady)
				if err != nil {
					return err
				}
				if err := stamped(got.Data, size, k); err != nil {
					return err
				}
				k++
			}
			return nil
		}, nil
	}
}

package nd

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
)

// callers connects two endpoints over plain sockets, with remote rights and messages of up to 4 KiB.
func callers(t *testing.T) (client, server *Endpoint) {
	t.Helper()
	r, _ := newLoopRig(t, DatapathUDP)
	return r.endpointsOf(t, EndpointConfig{Rights: MRAllowRemoteRead | MRAllowRemoteWrite, MemoryBytes: 64 << 10, MessageBytes: 4096})
}

// answer sends every message back until the peer disconnects.
func answer(ctx context.Context, e *Endpoint) error {
	buffer := make([]byte, 4096)
	for {
		n, err := e.Receive(ctx, buffer)
		if err == nil {
			err = e.Send(ctx, buffer[:n])
		}
		if errors.Is(err, CausePeerDisconnected) {
			return e.Close()
		}
		if err != nil {
			return err
		}
	}
}

func pattern(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i*7 + i>>8)
	}
	return p
}

// Messages of every length arrive complete and in order: inline, by copy, and from the endpoint's memory.
func TestSendReceive(t *testing.T) {
	t.Parallel()
	client, server := callers(t)
	served := start(func() error { return answer(t.Context(), server) })
	got := make([]byte, 4096)
	for _, n := range []int{0, 1, maxInline, maxInline + 1, 4096} {
		for _, p := range [][]byte{pattern(n), client.Memory.Bytes()[100:][:n]} {
			copy(p, pattern(n))
			must(t, client.Send(t.Context(), p))
			clear(p)
			m, err := client.Receive(t.Context(), got)
			must(t, err)
			if !bytes.Equal(got[:m], pattern(n)) {
				t.Fatalf("%d bytes came back as %d others", n, m)
			}
		}
	}
	wantStatus(t, "too long", client.Send(t.Context(), make([]byte, 4097)), ErrBufferOverflow)
	for i := range 3 * maxSlots { // more than can wait for Receive
		must(t, client.Send(t.Context(), []byte{byte(i)}))
		if n, err := client.Receive(t.Context(), got); err != nil || n != 1 || got[0] != byte(i) {
			t.Fatalf("%d: %d bytes, %v", i, n, err)
		}
	}
	must(t, client.Disconnect(t.Context()))
	must(t, finish(t, "the server", served))
}

// A Receive into a buffer that is too short fails and keeps the message.
func TestReceiveIntoAShortBuffer(t *testing.T) {
	t.Parallel()
	client, server := callers(t)
	got := make([]byte, 64)
	received := start(func() error {
		n, err := server.Receive(t.Context(), got[:4])
		if n != 10 {
			t.Errorf("a message of 10 bytes has %d", n)
		}
		return err
	})
	must(t, client.Send(t.Context(), pattern(10)))
	wantStatus(t, "receive", finish(t, "receive", received), ErrBufferOverflow)
	if n, err := server.Receive(t.Context(), got); err != nil || !bytes.Equal(got[:n], pattern(10)) {
		t.Errorf("%x, %v", got[:n], err)
	}
}

// Reads and Writes of any length access exactly the range that they name. An access outside of the peer's memory fails, and the
// connection stays open.
func TestReadWrite(t *testing.T) {
	t.Parallel()
	client, server := callers(t)
	far, ctx := server.Memory.Bytes(), t.Context()
	settle := func() { // synchronizes with the engines for the race detector, which does not see packets
		client.Adapter.Stats()
		server.Adapter.Stats()
	}
	for _, n := range []int{0, 1, maxInline, maxInline + 1, 4096, 4097, 9*4096 + 5, len(far) - 2} {
		clear(far)
		settle()
		must(t, client.Write(ctx, 1, pattern(n)))
		settle()
		if !bytes.Equal(far[1:][:n], pattern(n)) || far[0] != 0 || far[n+1] != 0 {
			t.Fatalf("a Write of %d bytes changed others", n)
		}
		got := make([]byte, n)
		must(t, client.Read(ctx, 1, got))
		if !bytes.Equal(got, pattern(n)) {
			t.Fatalf("a Read of %d bytes returned others", n)
		}
		in := client.Memory.Bytes()[:n]
		clear(in)
		settle()
		must(t, client.Read(ctx, 1, in))
		clear(far[n:])
		settle()
		must(t, client.Write(ctx, 2, in))
		settle()
		if !bytes.Equal(far[2:][:n], pattern(n)) {
			t.Fatalf("%d bytes of registered memory did not come back", n)
		}
	}
	for _, c := range []struct{ off, n int }{{-1, 1}, {0, len(far) + 1}, {len(far), 1}, {len(far) + 1, 0}, {1 << 62, 1}} {
		wantStatus(t, fmt.Sprint("write ", c), client.Write(ctx, c.off, make([]byte, c.n)), ErrAccessViolation)
		wantStatus(t, fmt.Sprint("read ", c), client.Read(ctx, c.off, make([]byte, c.n)), ErrAccessViolation)
	}
	must(t, client.Write(ctx, len(far), nil))
}

// An access without the peer's permission ends the connection, and every later call reports the cause.
func TestWriteWithoutTheRight(t *testing.T) {
	t.Parallel()
	r, _ := newLoopRig(t, DatapathUDP)
	client, _ := r.endpointsOf(t, EndpointConfig{})
	wantCause(t, "write", client.Write(t.Context(), 0, make([]byte, 1000)), ErrAccessViolation, CauseRefusedThere)
	_, err := client.Receive(t.Context(), nil)
	wantCause(t, "receive", err, ErrCanceled, CauseRefusedThere)
	if err := client.Send(t.Context(), nil); !errors.Is(err, ErrConnectionInvalid) && !errors.Is(err, ErrCanceled) {
		t.Errorf("send: %v", err)
	}
}

// If the context of a call ends, the call returns, no message is lost, and the connection stays open.
func TestCallsAreCanceled(t *testing.T) {
	t.Parallel()
	client, server := callers(t)
	canceled := func(call func(context.Context) error) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		waits := start(func() error { return call(ctx) })
		client.Adapter.Stats() // takes about as long as a call needs to begin to wait; longer or shorter is right as well
		cancel()
		err := finish(t, "call", waits)
		wantStatus(t, "call", err, ErrCanceled)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	}
	receive := func(ctx context.Context) error { _, err := client.Receive(ctx, make([]byte, 8)); return err }
	result := func(ctx context.Context) error { _, err := client.Result(ctx); return err }
	canceled(receive)
	ctx, cancel := context.WithCancel(t.Context())
	leader := start(func() error { return result(ctx) })
	canceled(receive)
	canceled(result)
	canceled(func(ctx context.Context) error { return server.Send(ctx, make([]byte, 4096)) }) // the client posts no receive before its first Receive, which it has called
	cancel()
	wantStatus(t, "leader", finish(t, "leader", leader), ErrCanceled)

	must(t, server.Send(t.Context(), []byte("second")))
	got := make([]byte, 4096)
	for {
		n, err := client.Receive(t.Context(), got)
		must(t, err)
		if string(got[:n]) == "second" {
			break
		}
		if n != 4096 {
			t.Fatalf("a message of %d bytes", n)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	wantStatus(t, "write", client.Write(ended, 0, []byte{1}), ErrCanceled)
	must(t, client.Write(t.Context(), 0, []byte{1}))
}

// Requests of calls that were canceled occupy their slots only until the requests end.
func TestAbandonedCallsFreeTheirSlots(t *testing.T) {
	t.Parallel()
	client, server := callers(t)
	d := &client.dispatch
	leads := func(yes bool) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.leading = yes
	}
	leads(true) // pretends that another goroutine collects results, so that the calls get none
	for n := range maxSlots {
		ctx, cancel := context.WithCancel(t.Context())
		sent := start(func() error { return client.Write(ctx, 0, make([]byte, 1000)) })
		eventually(t, "the request", func() bool {
			d.mu.Lock()
			defer d.mu.Unlock()
			return len(d.free.ready) == maxSlots-n-1 && len(d.followers) == 1
		})
		cancel()
		wantStatus(t, "write", finish(t, "write", sent), ErrCanceled)
	}
	leads(false)
	must(t, client.Write(t.Context(), 0, pattern(40_000)))
	server.Adapter.Stats() // synchronizes for the race detector
	if !bytes.Equal(server.Memory.Bytes()[:40_000], pattern(40_000)) {
		t.Error("the bytes are not there")
	}
}

// Each concurrent call gets its own result, whichever goroutine collects the results, and so does Result.
func TestConcurrentCalls(t *testing.T) {
	t.Parallel()
	client, server := callers(t)
	const goroutines, rounds = 2 * maxSlots, 20
	served := start(func() error { return answer(t.Context(), server) })
	var running []<-chan error
	for g := range goroutines {
		running = append(running, start(func() error {
			at, p, got := g*1024, make([]byte, 1024), make([]byte, 1024)
			for i := range rounds {
				binary.BigEndian.PutUint64(p, uint64(g*rounds+i))
				if err := errors.Join(client.Write(t.Context(), at, p), client.Read(t.Context(), at, got)); err != nil {
					return err
				}
				if !bytes.Equal(p, got) {
					return fmt.Errorf("goroutine %d read %x, want %x", g, got[:8], p[:8])
				}
			}
			return nil
		}))
	}
	running = append(running, start(func() error {
		for i := range uint64(rounds) {
			if err := client.QueuePair.Write(i, nil, client.Peer.Address, client.Peer.Token, 0); err != nil && !errors.Is(err, ErrNoMoreEntries) {
				return err
			} else if err != nil {
				continue
			}
			if r, err := client.Result(t.Context()); err != nil || r.RequestID != i {
				return fmt.Errorf("%+v, %w", r, err)
			}
		}
		return nil
	}), start(func() error {
		sum := 0
		for i := range rounds {
			if err := client.Send(t.Context(), []byte{byte(i)}); err != nil {
				return err
			}
			got := make([]byte, 1)
			if _, err := client.Receive(t.Context(), got); err != nil {
				return err
			}
			sum += int(got[0])
		}
		if want := rounds * (rounds - 1) / 2; sum != want {
			return fmt.Errorf("the answers sum up to %d, want %d", sum, want)
		}
		return nil
	}))
	for _, r := range running {
		must(t, finish(t, "goroutine", r))
	}
	must(t, client.Disconnect(t.Context()))
	must(t, finish(t, "the server", served))
}

// Every waiting call ends with the connection, and reports why it ended.
func TestCallsEndWithTheConnection(t *testing.T) {
	t.Parallel()
	client, server := callers(t)
	var waiting []<-chan error
	for range 4 {
		waiting = append(waiting,
			start(func() error { _, err := client.Receive(t.Context(), nil); return err }),
			start(func() error { _, err := client.Result(t.Context()); return err }))
	}
	must(t, server.Close())
	for _, w := range waiting {
		wantCause(t, "call", finish(t, "call", w), ErrCanceled, CausePeerGone)
	}
	must(t, client.Close())
	_, err := client.Receive(t.Context(), nil)
	wantStatus(t, "receive after Close", err, ErrCanceled)
	for what, err := range map[string]error{
		"send": client.Send(t.Context(), make([]byte, 1000)), "write": client.Write(t.Context(), 0, make([]byte, 1000)), "read": client.Read(t.Context(), 0, make([]byte, 1)),
	} {
		wantStatus(t, what, err, ErrConnectionInvalid)
	}
}

// The number of unread results is bounded, and Result reports that some are missing.
func TestUnreadResultsAreBounded(t *testing.T) {
	t.Parallel()
	r, _ := newLoopRig(t, DatapathUDP)
	client, _ := r.endpointsOf(t, EndpointConfig{Rights: MRAllowRemoteWrite, Depth: 4})
	for i := range uint64(20) {
		must(t, client.QueuePair.Write(i, nil, client.Peer.Address, client.Peer.Token, 0))
		must(t, client.Write(t.Context(), 0, []byte{1}))
	}
	for i := range uint64(8) {
		if r, err := client.Result(t.Context()); err != nil || r.RequestID != i {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	_, err := client.Result(t.Context())
	wantStatus(t, "result", err, ErrBufferOverflow)
}

func TestMessageBytes(t *testing.T) {
	t.Parallel()
	r, _ := newLoopRig(t, DatapathUDP)
	for _, n := range []int{-1, MaxMessage + 1} {
		_, err := newEndpoint(r.a, EndpointConfig{MessageBytes: n})
		wantStatus(t, fmt.Sprint(n), err, ErrInvalidParameter)
	}
}

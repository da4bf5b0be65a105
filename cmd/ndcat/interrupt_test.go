package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"

	"github.com/ndxdp/ndxdp/nd"
)

// silent is a terminal without input: reads do not end before the test does.
func silent(t *testing.T) io.Reader {
	read, write := io.Pipe()
	t.Cleanup(func() { write.Close() })
	return read
}

// signalled signals on a channel that it was written to.
type signalled struct {
	to   io.Writer
	said chan struct{}
}

func (s *signalled) Write(b []byte) (int, error) {
	n, err := s.to.Write(b)
	s.said <- struct{}{}
	return n, err
}

// stuck is a pipe without a reader: writes do not end before the test does.
type stuck struct{ began, ends chan struct{} }

func (s *stuck) Write([]byte) (int, error) {
	close(s.began)
	<-s.ends
	return 0, io.ErrClosedPipe
}

// TestSenderThatWaitsForInputCanBeInterrupted: input before the interruption has arrived by then, and did not wait for a full chunk.
func TestSenderThatWaitsForInputCanBeInterrupted(t *testing.T) {
	p, ctx := onLoopback(t), patient(t)
	var got bytes.Buffer
	arrived := &signalled{&got, make(chan struct{}, 1)}
	ended := p.listen(t, ctx, arrived)
	sending, interrupt := context.WithCancel(ctx)
	sent := make(chan error, 1)
	go func() { sent <- p.send(sending, io.MultiReader(bytes.NewReader([]byte("typed\n")), silent(t))) }()
	select {
	case <-arrived.said:
	case err := <-ended:
		t.Fatal("the listener ended: ", err)
	case <-ctx.Done():
		t.Fatal("a line that was typed did not arrive")
	}
	interrupt()
	select {
	case err := <-sent:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the sender ended with %v", err)
		}
	case <-ctx.Done():
		t.Fatal("the sender still waits for input")
	}
	if err := <-ended; err == nil || got.String() != "typed\n" {
		t.Errorf("the listener ended with %v after %q", err, got.String())
	}
}

func TestSenderThatWaitsForInputEndsWithTheReceiver(t *testing.T) {
	p, ctx := onLoopback(t), patient(t)
	receiving, interrupt := context.WithCancel(ctx)
	arrived := &signalled{io.Discard, make(chan struct{}, 1)}
	ended := p.listen(t, receiving, arrived)
	sent := make(chan error, 1)
	go func() { sent <- p.send(ctx, io.MultiReader(bytes.NewReader([]byte("typed\n")), silent(t))) }()
	select {
	case <-arrived.said:
	case <-ctx.Done():
		t.Fatal("a line that was typed did not arrive")
	}
	interrupt()
	<-ended
	select {
	case err := <-sent:
		if !errors.Is(err, nd.ErrCanceled) {
			t.Errorf("the sender ended with %v", err)
		}
	case <-ctx.Done():
		t.Fatal("the sender still waits for input")
	}
}

func TestListenerThatWaitsForItsReaderCanBeInterrupted(t *testing.T) {
	p, ctx := onLoopback(t), patient(t)
	receiving, interrupt := context.WithCancel(ctx)
	out := &stuck{make(chan struct{}), make(chan struct{})}
	t.Cleanup(func() { close(out.ends) })
	ended := p.listen(t, receiving, out)
	sent := make(chan error, 1)
	go func() { sent <- p.send(ctx, bytes.NewReader(content(chunk))) }()
	<-out.began
	interrupt()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the listener ended with %v", err)
		}
	case <-ctx.Done():
		t.Fatal("the listener still waits for its reader")
	}
	if err := <-sent; err == nil {
		t.Error("the sender believes that everything arrived")
	}
}

// failing is a pipe whose reader ends: a write calls ends, and fails.
type failing struct{ ends func() }

func (f failing) Write([]byte) (int, error) {
	f.ends()
	return 0, io.ErrClosedPipe
}

// TestInterruptedListenerReportsTheInterruption: one signal may end the listener and the reader of its output, in any order. Both
// ends then report an interruption, and no failed write.
func TestInterruptedListenerReportsTheInterruption(t *testing.T) {
	for range 10 { // the listener hears of both at once
		p, ctx := onLoopback(t), patient(t)
		receiving, interrupt := context.WithCancel(ctx)
		ended := p.listen(t, receiving, failing{interrupt})
		sent := make(chan error, 1)
		go func() { sent <- p.send(ctx, io.MultiReader(bytes.NewReader([]byte("typed\n")), silent(t))) }()
		if err := <-ended; !errors.Is(err, context.Canceled) || errors.Is(err, io.ErrClosedPipe) {
			t.Fatalf("the listener ended with %v", err)
		}
		if err := <-sent; !errors.Is(err, nd.ErrCanceled) {
			t.Fatalf("the sender ended with %v", err)
		}
	}
}

// TestInputFillsChunksWithWhatIsThere: pieces that were read ahead are sent together, and later input waits for nothing.
func TestInputFillsChunksWithWhatIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want, got, buf := content(3*chunk+17), []byte{}, make([]byte, chunk)
		in := readAhead(t.Context(), bytes.NewReader(want))
		for {
			synctest.Wait() // until the buffers for reading ahead are full
			n, err := in.fill(t.Context(), buf)
			if got = append(got, buf[:n]...); err != nil {
				if !errors.Is(err, io.EOF) || n != 0 {
					t.Errorf("%d bytes with %v", n, err)
				}
				break
			}
			if n != chunk && len(got) != len(want) {
				t.Errorf("a chunk of %d bytes although more was there", n)
			}
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%d bytes of %d came", len(got), len(want))
		}
	})
}

package ndnet

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// listenWith listens on the second of two networks with the given backlog.
func listenWith(t *testing.T, backlog int) (n [2]*Network, l net.Listener) {
	t.Helper()
	n = networks(t, Config{})
	n[1].backlog = backlog
	l, err := n[1].Listen("tcp", ":0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return n, l
}

// dialAll makes connections one after the other.
func dialAll(t *testing.T, n *Network, to string, count int) (all []net.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for range count {
		c, err := n.DialContext(ctx, "tcp", to)
		must(t, err)
		t.Cleanup(func() { c.Close() })
		must(t, c.SetDeadline(time.Now().Add(patience)))
		all = append(all, c)
	}
	return all
}

// Connections are established and carry data although Accept is not called. Accept returns them later in order.
func TestConnectionsCompleteWithoutAccept(t *testing.T) {
	n, l := listenWith(t, somaxconn())
	const count = 300
	clients := dialAll(t, n[0], l.Addr().String(), count)
	for i, c := range clients {
		_, err := c.Write([]byte{byte(i), byte(i >> 8)})
		must(t, err)
	}
	for i := range clients {
		s, err := l.Accept()
		must(t, err)
		defer s.Close()
		must(t, s.SetDeadline(time.Now().Add(patience)))
		var got [2]byte
		_, err = io.ReadFull(s, got[:])
		must(t, err)
		if got != [2]byte{byte(i), byte(i >> 8)} {
			t.Fatalf("connection %d returned %v", i, got)
		}
		_, err = s.Write(got[:])
		must(t, err)
	}
	for _, c := range clients {
		_, err := io.ReadFull(c, make([]byte, 2))
		must(t, err)
	}
}

// A Dial beyond the backlog waits until its deadline passes, or Accept makes room.
func TestDialBeyondTheBacklogWaits(t *testing.T) {
	const size = 3
	n, l := listenWith(t, size)
	dialAll(t, n[0], l.Addr().String(), size)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := n[0].DialContext(ctx, "tcp", l.Addr().String())
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%v, want a time-out", err)
	}
	dialed := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		c, err := n[0].DialContext(ctx, "tcp", l.Addr().String())
		if err == nil {
			err = c.Close()
		}
		dialed <- err
	}()
	select {
	case err := <-dialed:
		t.Fatalf("a connection more than the backlog completed: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	s, err := l.Accept()
	must(t, err)
	defer s.Close()
	must(t, <-dialed)
}

// If a listener closes, it resets the connections that were not accepted, and refuses the waiting requests.
func TestCloseResetsTheBacklog(t *testing.T) {
	const size = 20
	n, l := listenWith(t, size)
	clients := dialAll(t, n[0], l.Addr().String(), size)
	var beyond sync.WaitGroup
	errs := make([]error, 5)
	for i := range errs {
		beyond.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, errs[i] = n[0].DialContext(ctx, "tcp", l.Addr().String())
		})
	}
	must(t, l.Close())
	beyond.Wait()
	for _, err := range errs {
		if !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.ECONNABORTED) && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("Dial beyond the backlog: %v, want a refusal", err)
		}
	}
	for _, c := range clients {
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("Read: %v, want %v", err, syscall.ECONNRESET)
		}
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept: %v, want %v", err, net.ErrClosed)
	}
	must(t, n[1].Wait(t.Context()))
}

// Each of several concurrent Accept calls gets one connection.
func TestConcurrentAccepts(t *testing.T) {
	n, l := listenWith(t, 64)
	const count = 32
	accepted := make(chan net.Addr, count)
	for range count {
		go func() {
			s, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- s.RemoteAddr()
			s.Close()
		}()
	}
	var want, got []string
	for _, c := range dialAll(t, n[0], l.Addr().String(), count) {
		want = append(want, c.LocalAddr().String())
	}
	for range count {
		select {
		case a := <-accepted:
			got = append(got, a.String())
		case <-time.After(patience):
			t.Fatalf("%d of %d were accepted", len(got), count)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		t.Errorf("accepted %v, want %v", got, want)
	}
}

package ndnet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/nd"
)

// written is the server of a connection whose client wrote b and closed.
func written(t *testing.T, n [2]*Network, b []byte) (server *Conn) {
	t.Helper()
	ends := pairs(t, n, 1)[0]
	n[0].bounds.stall = time.Millisecond // so that Close leaves the rest to the background
	if _, err := ends[0].Write(b); err != nil {
		t.Fatal(err)
	}
	must(t, ends[0].Close())
	return ends[1]
}

// If Close has stopped waiting, the data written before it still arrive at a program that reads late.
func TestClosedStreamsWaitForLateReaders(t *testing.T) {
	want := bytes.Repeat([]byte("0123456789abcdef"), 1<<10)
	n := networks(t, Config{})
	server := written(t, n, want)
	soon, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := n[0].Wait(soon); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("nothing is left to deliver: %v", err)
	}
	got, err := io.ReadAll(server)
	if must(t, err); !bytes.Equal(got, want) {
		t.Errorf("%d bytes arrived, want %d", len(got), len(want))
	}
	must(t, server.Close())
}

// A peer that never reads keeps a closed connection open for a bounded time.
func TestCloseEndsWithoutReaders(t *testing.T) {
	n := networks(t, Config{})
	n[0].bounds.linger = time.Millisecond
	server := written(t, n, make([]byte, 16<<10))
	enough, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must(t, n[0].Wait(enough))
	if _, err := io.ReadAll(server); err == nil {
		t.Error("a truncated stream reads as if it were complete")
	}
	must(t, server.Close())
}

// leftBehind is a connection whose client has written more than its peer receives before it reads.
func leftBehind(t *testing.T, n [2]*Network) (client, server *Conn) {
	t.Helper()
	ends := pairs(t, n, 1)[0]
	_, err := ends[0].Write(make([]byte, 16<<10))
	must(t, err)
	return ends[0], ends[1]
}

// closes returns the function that checks how Close ends, and that it ends.
func closes(t *testing.T, c *Conn) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- c.Close() }()
	select {
	case err := <-done:
		must(t, err)
	case <-time.After(patience):
		t.Fatal("Close does not return")
	}
}

// hasDelivered reports whether all written data and the end of the stream have arrived.
func (c *Conn) hasDelivered() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.owes() && c.send.saidFlags == flagEnd|flagGone && c.send.n == 0
}

// Close returns when the peer has received all data and the end of the stream, so that the process may exit. A deadline in the past
// does not end the wait.
func TestCloseWaitsForThePeer(t *testing.T) {
	n := networks(t, Config{})
	n[0].bounds.stall, n[0].bounds.whole = 10*patience, 10*patience
	client, server := leftBehind(t, n)
	must(t, client.SetDeadline(time.Now().Add(-1)))
	read := make(chan int)
	go func() {
		awaitInside(t, client)
		got, _ := io.ReadAll(server)
		read <- len(got)
	}()
	closes(t, client)
	if !client.hasDelivered() {
		t.Error("Close has returned before everything arrived")
	}
	if got := <-read; got != 16<<10 {
		t.Errorf("%d bytes arrived", got)
	}
	must(t, server.Close())
}

// A second concurrent Close does not return earlier than the first: a server's Shutdown closes connections that handlers close,
// too.
func TestCloseBesideClose(t *testing.T) {
	n := networks(t, Config{})
	n[0].bounds.stall, n[0].bounds.whole = 10*patience, 10*patience
	client, server := leftBehind(t, n)
	first, second := make(chan error, 1), make(chan bool, 1)
	go func() { first <- client.Close() }()
	awaitInside(t, client)
	go func() {
		if err := client.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("the second Close: %v", err)
		}
		second <- client.hasDelivered()
	}()
	for range 1000 { // enough time for a premature return
		runtime.Gosched()
	}
	_, err := io.ReadAll(server)
	must(t, err)
	must(t, <-first)
	if !<-second {
		t.Error("the second Close has returned before everything arrived")
	}
	must(t, server.Close())
}

// A Close after all data have arrived returns when the end of the stream has arrived as well.
func TestCloseWaitsForTheEnd(t *testing.T) {
	n := networks(t, Config{})
	n[0].bounds.farewell = 10 * patience
	ends := pairs(t, n, 1)[0]
	closes(t, ends[0])
	if !ends[0].hasDelivered() {
		t.Error("Close has returned before the end arrived")
	}
	must(t, ends[1].Close())
}

// If many connections to a silent host are closed one after the other, only the first Close waits.
func TestClosesToASilentHost(t *testing.T) {
	if port := os.Getenv(childPort); port != "" {
		child(t, port)
		return
	}
	port := netlabtest.FreePort(t)
	a, err := nd.OpenAdapter(nd.AdapterConfig{Address: netlabtest.Loopback()[0], UDPPort: port, Datapath: nd.DatapathUDP, PeerTimeout: peerTimeout})
	must(t, err)
	defer func() { must(t, a.Close()) }()
	n, err := New(a, Config{})
	must(t, err)
	cmd, _, at := startChild(t, port)
	var idle [2]*Conn
	for i := range idle {
		c, err := n.Dial("nd", at)
		must(t, err)
		idle[i] = c.(*Conn)
		end := idle[i].busy() // its data have arrived
		end()
	}
	netlabtest.Stop(t, cmd.Process)
	n.bounds = closeBounds{whole: 10 * patience, stall: 10 * patience, farewell: time.Millisecond, pause: 10 * patience, linger: time.Millisecond}
	closes(t, idle[0])
	n.bounds.farewell = 10 * patience
	closes(t, idle[1])
}

// Close does not wait for a peer that has received nothing for a while, so that closing many connections takes no longer than
// closing one.
func TestCloseOfStalledConnections(t *testing.T) {
	n := networks(t, Config{})
	n[0].bounds.stall, n[0].bounds.whole, n[0].bounds.linger = math.MaxUint8*tidyInterval, math.MaxUint8*tidyInterval, time.Millisecond
	client, server := leftBehind(t, n)
	stalled := func() uint8 {
		client.mu.Lock()
		defer client.mu.Unlock()
		return client.send.stalled
	}
	for until := time.Now().Add(patience); stalled() == 0; runtime.Gosched() {
		if time.Now().After(until) {
			t.Fatal("the stall is not detected")
		}
	}
	client.mu.Lock()
	client.send.stalled = math.MaxUint8
	client.mu.Unlock()
	closes(t, client)
	must(t, server.Close())
}

// With SetLinger, Close discards data that the peer has not received, at once or after a time, and the peer sees a reset.
func TestLinger(t *testing.T) {
	for _, sec := range []int{0, 1} {
		n := networks(t, Config{})
		n[0].bounds.stall, n[0].bounds.whole = 10*patience, 10*patience
		client, server := leftBehind(t, n)
		must(t, client.SetLinger(sec))
		closes(t, client)
		must(t, server.SetReadDeadline(time.Now().Add(patience)))
		if _, err := io.ReadAll(server); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("linger %d: the peer reads to %v", sec, err)
		}
		must(t, n[0].Wait(t.Context()))
		must(t, server.Close())
	}
}

// A slow reader reports its progress before it has read half of its ring, so that Close keeps waiting.
func TestSlowReadersAreHeard(t *testing.T) {
	n := networks(t, Config{})
	client, server := leftBehind(t, n)
	read := func() uint64 {
		client.mu.Lock()
		defer client.mu.Unlock()
		client.takeResults()
		return client.out.read
	}
	_, err := client.Write(make([]byte, 256<<10)) // more than the rings offered until then can hold
	must(t, err)
	_, err = io.ReadFull(server, make([]byte, 12<<10))
	must(t, err)
	for before, until := read(), time.Now().Add(patience); read() == before; {
		if time.Now().After(until) {
			t.Fatal("the peer does not say that it reads")
		}
		_, err := server.Read(make([]byte, 1))
		must(t, err)
		time.Sleep(tidyInterval / 100) // a slow reader
	}
}

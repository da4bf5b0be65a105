package ndnet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"
)

// written is the server of a connection whose client wrote b and closed it.
func written(t *testing.T, n [2]*Network, b []byte) (server *Conn) {
	t.Helper()
	ends := pairs(t, n, 1)[0]
	if _, err := ends[0].Write(b); err != nil {
		t.Fatal(err)
	}
	must(t, ends[0].Close())
	return ends[1]
}

// What was written before Close arrives at a program that reads late.
func TestCloseWaitsForLateReaders(t *testing.T) {
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

// A peer that never reads keeps a closed connection for a bounded time.
func TestCloseEndsWithoutReaders(t *testing.T) {
	n := networks(t, Config{})
	n[0].linger = time.Millisecond
	server := written(t, n, make([]byte, 16<<10))
	enough, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must(t, n[0].Wait(enough))
	if _, err := io.ReadAll(server); err == nil {
		t.Error("a stream that was cut reads as if it were whole")
	}
	must(t, server.Close())
}

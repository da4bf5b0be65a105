package ndnet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"
)

// What was written before Close arrives at a program that reads late, and a peer that never reads keeps a closed connection for a bounded time.
func TestCloseWaitsForLateReaders(t *testing.T) {
	want := bytes.Repeat([]byte("0123456789abcdef"), 1<<10)
	n := networks(t, Config{})
	ends := pairs(t, n, 2)
	client, server := ends[0][0], ends[0][1]
	if _, err := client.Write(want); err != nil {
		t.Fatal(err)
	}
	must(t, client.Close())
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

	n[0].linger = time.Millisecond
	client, server = ends[1][0], ends[1][1]
	if _, err := client.Write(want); err != nil {
		t.Fatal(err)
	}
	must(t, client.Close())
	must(t, n[0].Wait(t.Context()))
	if _, err := io.ReadAll(server); err == nil {
		t.Error("a stream that was cut reads as if it were whole")
	}
	must(t, server.Close())
}

package nd_test

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/nd"
)

// README.md shows the client of the package example, line by line.
func TestReadmeShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(readme), "```go\n")
	shown, _, _ = strings.Cut(shown, "```\n")
	_, client, _ := strings.Cut(string(source), "\nfunc client(")
	client, _, _ = strings.Cut(client, "\n}\n")
	if want := "func client(" + client + "\n}\n"; shown != want {
		t.Errorf("README.md differs from example_test.go:\n%s", cmp.Diff(want, shown))
	}
}

// The program of the README, in two namespaces: the server prints what the client wrote into its memory.
func TestReadmeExample(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout := os.Stdout
	os.Stdout = write
	defer func() { os.Stdout = stdout }()

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	at := netip.AddrPortFrom(pair.AddrB.Addr(), 7000)
	served := make(chan error, 1)
	go func() { served <- pair.B.Do(func() error { return serve(ctx, at) }) }()
	for {
		err = pair.A.Do(func() error { return client(ctx, pair.AddrA.Addr(), at) })
		if !errors.Is(err, nd.ErrConnectionRefused) || ctx.Err() != nil {
			break // else the server does not listen yet
		}
	}
	if err := errors.Join(err, <-served, write.Close()); err != nil {
		t.Fatal(err)
	}
	if printed, err := io.ReadAll(read); string(printed) != "hello\n" {
		t.Errorf("the server printed %q, %v", printed, err)
	}
}

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

// README.md shows the server and the client of the example for it, line by line, and fits two screens.
func TestReadmeShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("example_readme_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(readme), "```go\n")
	shown, _, _ = strings.Cut(shown, "```\n")
	_, code, _ := strings.Cut(string(source), "\nfunc echo(")
	if want := "func echo(" + code; shown != want {
		t.Errorf("README.md differs from example_readme_test.go:\n%s", cmp.Diff(want, shown))
	}
	if lines := strings.Count(string(readme), "\n"); lines > 120 {
		t.Errorf("README.md has %d lines, more than two screens", lines)
	}
}

// The programs of README.md, in two namespaces: the client prints what came back, and the server ends when the client does.
func TestReadmePrograms(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	at := netip.AddrPortFrom(pair.AddrB.Addr(), 7000)
	printed := prints(t, func(ctx context.Context) error {
		served := make(chan error, 1)
		go func() { served <- pair.B.Do(func() error { return echo(ctx, at) }) }()
		for {
			err := pair.A.Do(func() error { return ask(ctx, at) })
			if !errors.Is(err, nd.ErrConnectionRefused) || ctx.Err() != nil { // else the server does not listen yet
				return errors.Join(err, <-served)
			}
		}
	})
	if printed != "hello\n" {
		t.Errorf("the client printed %q", printed)
	}
}

// prints returns what f prints.
func prints(t *testing.T, f func(context.Context) error) string {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout := os.Stdout
	os.Stdout = write
	defer func() { os.Stdout = stdout }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := errors.Join(f(ctx), write.Close()); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(read)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The programs of the package's example, in two namespaces: the server prints what the client wrote into its memory.
func TestExamplePrograms(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	at := netip.AddrPortFrom(pair.AddrB.Addr(), 7000)
	printed := prints(t, func(ctx context.Context) error {
		served := make(chan error, 1)
		go func() { served <- pair.B.Do(func() error { return serve(ctx, at) }) }()
		for {
			err := pair.A.Do(func() error { return client(ctx, pair.AddrA.Addr(), at) })
			if !errors.Is(err, nd.ErrConnectionRefused) || ctx.Err() != nil {
				return errors.Join(err, <-served)
			}
		}
	})
	if printed != "hello\n" {
		t.Errorf("the server printed %q", printed)
	}
}

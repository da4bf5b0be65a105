package nd_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/nd"
)

// program returns the program of README.md.
func program(t *testing.T) string {
	t.Helper()
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(readme), "```go\n")
	shown, _, _ = strings.Cut(shown, "```\n")
	if lines := strings.Count(string(readme), "\n"); lines > 120 {
		t.Errorf("README.md has %d lines, more than two screens", lines)
	}
	return shown
}

// README.md contains the functions of the example line by line, and fits on two screens.
func TestReadmeShowsTheExample(t *testing.T) {
	source, err := os.ReadFile("example_readme_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(program(t), "\nfunc run(")
	_, want, _ := strings.Cut(string(source), "\nfunc run(")
	if shown != want {
		t.Errorf("README.md differs from example_readme_test.go: %s", difference(want, shown))
	}
	example, err := os.ReadFile("../examples/hello/main.go")
	if err != nil {
		t.Fatal(err)
	}
	if program(t) != string(example) {
		t.Errorf("README.md differs from examples/hello: %s", difference(string(example), program(t)))
	}
}

// difference returns the first line of b that is not that of a.
func difference(a, b string) string {
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(as), len(bs)) {
		if as[i] != bs[i] {
			return fmt.Sprintf("line %d is %q, want %q", i+1, bs[i], as[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(bs), len(as))
}

// The program of README.md compiles and runs as it stands.
func TestReadmeProgramRuns(t *testing.T) {
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(program(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	giveBack, err := netlabtest.DefaultPort()
	if err != nil {
		t.Fatal(err)
	}
	defer giveBack()
	var stderr strings.Builder
	run := exec.CommandContext(t.Context(), "go", "run", file)
	run.Stderr = &stderr
	if out, err := run.Output(); err != nil || string(out) != "hello\n" {
		t.Errorf("it printed %q, %v\n%s", out, err, &stderr)
	}
}

// The functions of README.md run in two namespaces: the target prints the bytes that the initiator wrote, and ends when the
// initiator does.
func TestReadmePrograms(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	at := netip.AddrPortFrom(pair.AddrB.Addr(), 7000)
	printed := prints(t, func(ctx context.Context) error {
		listening, served := make(chan struct{}), make(chan error, 1)
		go func() {
			served <- pair.B.Do(func() error {
				listener, err := nd.Listen(at, nd.EndpointConfig{Rights: nd.MRAllowRemoteWrite})
				close(listening)
				if err != nil {
					return err
				}
				return errors.Join(target(ctx, listener), listener.Close())
			})
		}()
		<-listening
		err := pair.A.Do(func() error { return initiator(ctx, at) })
		return errors.Join(err, <-served)
	})
	if printed != "hello\n" {
		t.Errorf("the target printed %q", printed)
	}
}

// prints returns the output of f.
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

// The programs of the package's example run in two namespaces: the server prints the bytes that the client wrote into its memory.
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

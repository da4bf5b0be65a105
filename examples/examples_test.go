package examples

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestExamplesRun runs every program as a user does, and compares its output.
func TestExamplesRun(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	content := bytes.Repeat([]byte("some bytes of a file "), 150_000) // three chunks
	if err := os.WriteFile(from, content, 0o600); err != nil {
		t.Fatal(err)
	}
	said := map[string]struct {
		args []string
		want string
	}{
		"hello":    {nil, "hello\n"},
		"echo":     {nil, "one\ntwo\nthree\n"},
		"table":    {nil, "iron: Fe\ngold: Au\nsilver: not there\n"},
		"filecopy": {[]string{"-from", from, "-to", to}, "3150000 bytes are in " + to + "\n"},
		"web":      {nil, "over ND: hello, world\nover TCP: hello, world\n"},
		"secret":   {nil, "nobody else can read this (encrypted: true, protocol ndxdp)\n"},
		"secureweb": {nil, "hello, spiffe://example.org/worker\n" +
			"refused: tls: bad certificate\n"},
	}
	programs, err := filepath.Glob("*/main.go")
	if err != nil || len(programs) != len(said) {
		t.Errorf("%d programs are tested, there are %v (%v)", len(said), programs, err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", dir+"/", "./...")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // ends a program that hangs
	defer cancel()
	for name, c := range said {
		t.Run(name, func(t *testing.T) {
			var stderr bytes.Buffer
			run := exec.CommandContext(ctx, filepath.Join(dir, name), c.args...)
			run.Stderr = &stderr
			if out, err := run.Output(); err != nil || string(out) != c.want {
				t.Errorf("it printed %q, %v, want %q\n%s", out, err, c.want, &stderr)
			}
		})
	}
	if copied, err := os.ReadFile(to); err != nil || !bytes.Equal(copied, content) {
		t.Errorf("the copy has %d bytes of %d, or others (%v)", len(copied), len(content), err)
	}
}

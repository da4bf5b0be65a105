package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ndxdp/ndxdp/cmd/internal/cli"
)

// newSecret is a file with the output of ndcat --new-secret.
func newSecret(t *testing.T) string {
	t.Helper()
	var secret bytes.Buffer
	root := newRoot()
	root.SetArgs([]string{"--new-secret"})
	root.SetOut(&secret)
	must(t, root.ExecuteContext(t.Context()))
	path := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(path, secret.Bytes(), 0o600))
	return path
}

// A transfer with a shared secret arrives. A sender with another secret, or without one, is refused and told why, and the listener goes on
// waiting.
func TestEncryptedTransfer(t *testing.T) {
	p, ctx := onLoopback(t), patient(t)
	secret := newSecret(t)
	p.farOn = append(p.farOn, "--tls-secret", secret)
	var got bytes.Buffer
	ended := p.listen(t, ctx, &got)
	want := content(3 * chunk)
	for _, c := range []struct {
		flags []string
		says  string
	}{
		{[]string{"--tls-secret", newSecret(t)}, "the peer has another secret"},
		{nil, "encrypted connections only"},
		{[]string{"--tls-secret", secret}, ""},
	} {
		err := p.send(ctx, bytes.NewReader(want), c.flags...)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(cli.OneLine(err), c.says) {
			t.Errorf("%v: %v, want %q", c.flags, err, c.says)
		}
	}
	must(t, <-ended)
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%d bytes arrived, not the %d that were sent", got.Len(), len(want))
	}
}

// --new-secret takes no argument, and gives another secret each time.
func TestNewSecret(t *testing.T) {
	one, err := os.ReadFile(newSecret(t))
	must(t, err)
	two, err := os.ReadFile(newSecret(t))
	must(t, err)
	if bytes.Equal(one, two) || len(one) != 65 {
		t.Errorf("secrets %q and %q", one, two)
	}
	root := newRoot()
	root.SetArgs([]string{"--new-secret", "file"})
	if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "writes to standard output") {
		t.Error(err)
	}
}

// A file that a shell made for everybody to read is its owner's alone before the secret is in it.
func TestNewSecretIsPrivate(t *testing.T) {
	file, err := os.OpenFile(filepath.Join(t.TempDir(), "secret"), os.O_CREATE|os.O_RDWR, 0o644)
	must(t, err)
	defer file.Close()
	root := newRoot()
	root.SetArgs([]string{"--new-secret"})
	root.SetOut(file)
	must(t, root.ExecuteContext(t.Context()))
	info, err := file.Stat()
	must(t, err)
	if info.Mode().Perm() != 0o600 || info.Size() != 65 {
		t.Errorf("%d bytes with mode %v", info.Size(), info.Mode())
	}
}

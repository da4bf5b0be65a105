package main

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"

	"github.com/ndxdp/ndxdp/bench"
	"github.com/ndxdp/ndxdp/cmd/internal/cli"
	"github.com/ndxdp/ndxdp/internal/testhelp"
)

// A client that listens for its server, as with --reverse, verifies the server with the authorities that it dials with: of --tls-ca, or of the
// machine.
func TestListeningClientVerifies(t *testing.T) {
	identity, err := bench.NewIdentity()
	testhelp.Must(t, err)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		testhelp.Must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	cert, key, ca := file("cert", identity.Certificate), file("key", identity.Key), file("ca", identity.Authority)
	for name, flags := range map[string]cli.TLS{
		"authorities of the machine": {Cert: cert, Key: key},
		"own authority":              {Cert: cert, Key: key, CA: ca},
	} {
		f := peerFlags{addr: "node7:9000", tls: flags}
		both, err := f.secure(false)
		testhelp.Must(t, err)
		if both.Serve.ClientAuth != tls.RequireAndVerifyClientCert || both.Serve.ClientCAs != both.Dial.RootCAs {
			t.Errorf("%s: the listener accepts a server by %v", name, both.Serve.ClientAuth)
		}
	}
	f := peerFlags{addr: "node7:9000", tls: cli.TLS{Secret: file("secret", cli.NewSecret())}}
	both, err := f.secure(false)
	testhelp.Must(t, err)
	if both.Serve.ClientAuth != tls.RequireAnyClientCert || both.Serve.VerifyConnection == nil {
		t.Errorf("a secret: the listener accepts a server by %v", both.Serve.ClientAuth)
	}
}

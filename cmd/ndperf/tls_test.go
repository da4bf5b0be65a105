package main

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ndxdp/ndxdp/bench"
	"github.com/ndxdp/ndxdp/cmd/internal/cli"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
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

// TestEncryptedRunsHavePlainLatency: veth --tls reports encrypted results only, and the ratio of encrypted latency to plain latency.
func TestEncryptedRunsHavePlainLatency(t *testing.T) {
	netlabtest.NeedRoot(t)
	file := filepath.Join(t.TempDir(), "tls.json")
	args := []string{"veth", "--tls", "--duration", "50ms", "--mtu", "1500", "--tests", "write_lat,write_bw", "--baseline", "none", "--json", file}
	if text, err := ndperf(t, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	r, err := readReport(file)
	testhelp.Must(t, err)
	if len(r.Results) != 2 || slices.ContainsFunc(r.Results, func(x bench.Result) bool { return !x.Encrypted }) {
		t.Errorf("results are %+v", r.Results)
	}
	if len(r.Baselines) != 1 || r.Baselines[0].Kind != bench.KindNDPlain || r.Baselines[0].Variants[0].Rounds != 5 {
		t.Errorf("baselines are %+v", r.Baselines)
	}
	if !slices.ContainsFunc(r.Ratios, func(x bench.Ratio) bool {
		return x.Name == "write_lat p50 / nd_plain, lane, encrypted" && x.Bound != nil
	}) {
		t.Errorf("ratios are %+v", r.Ratios)
	}
}

package cli

import (
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The commands in docs/TLS.md make certificates that the flags of the commands accept, for both roles and by name.
func TestDocumentedCertificates(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("docs/TLS.md uses openssl, which is not installed: ", err)
	}
	page, err := os.ReadFile("../../../docs/TLS.md")
	must(t, err)
	_, rest, ok := strings.Cut(string(page), "```sh\n")
	script, _, closed := strings.Cut(rest, "```")
	if !ok || !closed {
		t.Fatal("docs/TLS.md has no commands")
	}
	dir := t.TempDir()
	run := exec.CommandContext(t.Context(), "sh", "-e")
	run.Dir, run.Stdin = dir, strings.NewReader(script)
	out, err := run.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "node8.crt: OK") {
		t.Fatalf("%v\n%s", err, out)
	}
	of := func(host string) TLS {
		return TLS{Cert: filepath.Join(dir, host+".crt"), Key: filepath.Join(dir, host+".key"), CA: filepath.Join(dir, "ca.crt")}
	}
	listener, dialer := of("node7"), of("node8")
	served, err := listener.Config(true, "192.0.2.7")
	must(t, err)
	for host, accepted := range map[string]bool{"node7": true, "node8": false, "192.0.2.7": false} {
		dialed, err := dialer.Config(false, host)
		must(t, err)
		if err := meet(t, served, dialed); (err == nil) != accepted {
			t.Errorf("dialed %s: %v, accepted must be %v", host, err, accepted)
		}
	}
	leaf := served.Certificates[0].Leaf
	if leaf.Subject.CommonName != "node7" || leaf.PublicKeyAlgorithm != x509.ECDSA {
		t.Errorf("the certificate is %v, by %v", leaf.Subject, leaf.PublicKeyAlgorithm)
	}
}

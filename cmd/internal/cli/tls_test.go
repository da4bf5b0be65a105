package cli

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/ndxdp/ndxdp/internal/testhelp"
)

var must = testhelp.Must

// files are the PEM files of a certificate and of its key.
func files(t *testing.T, dir, name string, notAfter time.Time) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: notAfter.Add(-time.Hour), NotAfter: notAfter, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	must(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	must(t, err)
	cert, key = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	must(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), 0o600))
	return cert, key
}

// meet makes a handshake between the configurations of a listener and a dialer.
func meet(t *testing.T, listener, dialer *tls.Config) error {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", listener)
	must(t, err)
	defer l.Close()
	served := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			err = c.(*tls.Conn).Handshake()
			c.Close()
		}
		served <- err
	}()
	c, err := tls.Dial("tcp", l.Addr().String(), dialer)
	if err == nil {
		c.Close()
	}
	if served := <-served; err == nil {
		return served
	}
	return err
}

// The flags make configurations that verify both sides: certificates, and a secret of --new-secret, with and without a line end.
func TestTLSConfigs(t *testing.T) {
	dir := t.TempDir()
	cert, key := files(t, dir, "node7", time.Now().Add(time.Hour))
	secret, bare := filepath.Join(dir, "secret"), filepath.Join(dir, "bare")
	text := NewSecret()
	must(t, os.WriteFile(secret, []byte(text), 0o600))
	must(t, os.WriteFile(bare, []byte(strings.TrimSpace(text)), 0o600))
	mutual := TLS{Cert: cert, Key: key, CA: cert}
	named := mutual
	named.Name = "node7"
	for name, c := range map[string]struct {
		listener, dialer TLS
		host             string
		refused          string // part of the dialer's or the listener's error
	}{
		"mutual":                  {mutual, mutual, "node7", ""},
		"name by flag":            {mutual, named, "192.0.2.7", ""},
		"wrong name":              {mutual, mutual, "node8", "node7"},
		"anonymous dialer":        {TLS{Cert: cert, Key: key}, TLS{CA: cert}, "node7", ""},
		"no certificate":          {mutual, TLS{CA: cert}, "node7", "client didn't provide a certificate"},
		"authorities of the host": {mutual, TLS{Cert: cert, Key: key}, "node7", "unknown authority"},
		"shared secret":           {TLS{Secret: secret}, TLS{Secret: bare}, "192.0.2.7", ""},
		"secret and certificate":  {TLS{Secret: secret}, mutual, "node7", "certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			listener, err := c.listener.Config(true, "0.0.0.0")
			must(t, err)
			dialer, err := c.dialer.Config(false, c.host)
			must(t, err)
			err = meet(t, listener, dialer)
			if (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%v, want %q", err, c.refused)
			}
		})
	}
	if cfg, err := (&TLS{}).Config(true, ""); cfg != nil || err != nil {
		t.Errorf("without flags: %v, %v", cfg, err)
	}
}

// Each error about files names the flag or the file, and says what to do. Errors of the command line have exit status 2.
func TestTLSErrors(t *testing.T) {
	dir := t.TempDir()
	cert, key := files(t, dir, "node7", time.Now().Add(time.Hour))
	old, oldKey := files(t, dir, "old", time.Now().Add(-time.Minute))
	_, otherKey := files(t, dir, "other", time.Now().Add(time.Hour))
	missing, short := filepath.Join(dir, "missing"), filepath.Join(dir, "short")
	must(t, os.WriteFile(short, []byte("password\n"), 0o600))
	for _, c := range []struct {
		args   string
		listen bool
		status int
		says   []string
	}{
		{"--tls-cert " + cert, false, Misuse, []string{"--tls-cert and --tls-key belong together"}},
		{"--tls-key " + key, true, Misuse, []string{"--tls-cert and --tls-key belong together"}},
		{"--tls-ca " + cert, true, Misuse, []string{"a listener proves its identity", "--tls-secret"}},
		{"--tls-name node7 --tls-cert " + cert + " --tls-key " + key, true, Misuse, []string{"--tls-name is for the side that connects"}},
		{"--tls-secret=", true, Misuse, []string{"--tls-secret", "empty", "without encryption"}},
		{"--tls-cert= --tls-key=", true, Misuse, []string{"--tls-cert", "empty"}},
		{"--tls-ca=", false, Misuse, []string{"--tls-ca", "empty"}},
		{"--tls-name=", false, Misuse, []string{"--tls-name", "empty"}},
		{"--tls-secret " + short + " --tls-ca " + cert, false, Misuse, []string{"--tls-ca and --tls-secret exclude each other"}},
		{"--tls-secret " + short, true, Failed, []string{short, "8 bytes can be guessed", "ndcat --new-secret"}},
		{"--tls-secret " + missing, false, Failed, []string{missing, "no such file", "ndcat --new-secret"}},
		{"--tls-ca " + missing, false, Failed, []string{"--tls-ca", missing, "no such file"}},
		{"--tls-ca " + key, false, Failed, []string{"--tls-ca " + key + " has no certificate"}},
		{"--tls-cert " + missing + " --tls-key " + key, false, Failed, []string{"--tls-cert", missing}},
		{"--tls-cert " + cert + " --tls-key " + missing, false, Failed, []string{"--tls-key", missing}},
		{"--tls-cert " + cert + " --tls-key " + otherKey, false, Failed, []string{cert, otherKey, "does not match"}},
		{"--tls-cert " + key + " --tls-key " + cert, false, Failed, []string{cert, key, "PEM"}},
		{"--tls-cert " + old + " --tls-key " + oldKey, true, Failed, []string{old, "renew the certificate, or set the clock"}},
	} {
		var flags TLS
		cmd := Root(&cobra.Command{Use: "cmd", RunE: func(*cobra.Command, []string) error {
			_, err := flags.Config(c.listen, "node7")
			return err
		}})
		flags.Register(cmd)
		cmd.SetArgs(strings.Fields(c.args))
		cmd.SetOut(io.Discard)
		var said strings.Builder
		if status := Run(context.Background(), cmd, &said); status != c.status {
			t.Errorf("%s: status %d, want %d", c.args, status, c.status)
		}
		for _, want := range c.says {
			if !strings.Contains(said.String(), want) {
				t.Errorf("%s: said %q, want %q in it", c.args, said.String(), want)
			}
		}
	}
}

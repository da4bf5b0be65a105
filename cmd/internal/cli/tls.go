package cli

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/ndxdp/ndxdp/nd/ndtls"
)

// TLS holds the flags that encrypt connections: --tls-cert, --tls-key, --tls-ca, --tls-name and --tls-secret. Each is the name of a
// file, except Name. There is no flag that skips the verification of the peer.
type TLS struct {
	Cert, Key string // own certificate chain and its private key, PEM
	CA        string // authorities that the peer's certificate is verified with, PEM
	Name      string // name in the certificate of the listener
	Secret    string // shared secret, in place of certificates
}

// Register registers the flags.
func (t *TLS) Register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Var(given{&t.Cert}, "tls-cert", "encrypt, with the certificates of this PEM file: own one first, then intermediate ones")
	f.Var(given{&t.Key}, "tls-key", "PEM file with the private key of --tls-cert")
	f.Var(given{&t.CA}, "tls-ca", "encrypt, and verify the peer with the authorities of this PEM file; a listener then wants a certificate of its peer")
	f.Var(given{&t.Name}, "tls-name", "name in the listener's certificate (default: HOST)")
	f.Var(given{&t.Secret}, "tls-secret", "encrypt, with a file that both sides have (ndcat --new-secret makes one)")
	for _, other := range []string{"tls-cert", "tls-key", "tls-ca", "tls-name"} {
		cmd.MarkFlagsMutuallyExclusive("tls-secret", other)
	}
	for _, file := range []string{"tls-cert", "tls-key", "tls-ca", "tls-secret"} {
		Complete(cmd, file, func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault // the names of files
		})
	}
}

// given is a flag whose value is not empty. With an unset variable of a script, a command would otherwise go on without encryption.
type given struct{ to *string }

func (g given) Set(text string) error {
	if text == "" {
		return errors.New("it is empty, and the command would go on without encryption")
	}
	*g.to = text
	return nil
}

func (g given) String() string {
	if g.to == nil {
		return ""
	}
	return *g.to
}

func (given) Type() string { return "string" }

// Used reports whether any of the flags is set.
func (t *TLS) Used() bool { return *t != TLS{} }

// Config returns the configuration that the flags describe, or nil without flags. host is the name or address of the listener as the
// user has typed it.
func (t *TLS) Config(listens bool, host string) (*tls.Config, error) {
	switch {
	case !t.Used():
		return nil, nil
	case t.Secret != "":
		return t.shared()
	case (t.Cert == "") != (t.Key == ""):
		return nil, Usagef("--tls-cert and --tls-key belong together: name both files")
	case listens && t.Name != "":
		return nil, Usagef("--tls-name is for the side that connects, and does nothing with --listen: leave it out here, and say it there")
	case listens && t.Cert == "":
		return nil, Usagef("a listener proves its identity by a certificate: add --tls-cert and --tls-key, or use --tls-secret")
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS13, ServerName: host}
	if t.Name != "" {
		cfg.ServerName = t.Name
	}
	if t.Cert != "" {
		own, err := t.identity()
		if err != nil {
			return nil, err
		}
		cfg.Certificates = []tls.Certificate{own}
	}
	if t.CA == "" {
		return cfg, nil // a dialer uses the authorities of the machine, and a listener accepts dialers without a certificate
	}
	pool, err := authorities(t.CA)
	if err != nil {
		return nil, err
	}
	if cfg.RootCAs = pool; listens {
		cfg.ClientCAs, cfg.ClientAuth = pool, tls.RequireAndVerifyClientCert
	}
	return cfg, nil
}

// identity reads the own certificate and its key.
func (t *TLS) identity() (tls.Certificate, error) {
	cert, err := os.ReadFile(t.Cert)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("read --tls-cert: %w: name a PEM file that this user can read", err)
	}
	key, err := os.ReadFile(t.Key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("read --tls-key: %w: name a PEM file that this user can read", err)
	}
	own, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return own, fmt.Errorf("use the certificate %s with the key %s: %w: both are PEM files, and the key is that of the first certificate", t.Cert, t.Key, err)
	}
	if now := time.Now(); now.After(own.Leaf.NotAfter) || now.Before(own.Leaf.NotBefore) {
		return own, fmt.Errorf("the certificate %s is valid from %s to %s, and this machine has %s: renew the certificate, or set the clock",
			t.Cert, own.Leaf.NotBefore.Format(time.RFC3339), own.Leaf.NotAfter.Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	return own, nil
}

// authorities reads a file of --tls-ca.
func authorities(name string) (*x509.CertPool, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read --tls-ca: %w: name a PEM file that this user can read", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("--tls-ca %s has no certificate in PEM form (-----BEGIN CERTIFICATE-----): name the certificate of the authority", name)
	}
	return pool, nil
}

// shared returns the configuration of a shared secret.
func (t *TLS) shared() (*tls.Config, error) {
	secret, err := os.ReadFile(t.Secret)
	if err != nil {
		return nil, fmt.Errorf("read --tls-secret: %w: make the file with ndcat --new-secret, and copy it to both machines", err)
	}
	if utf8.Valid(secret) { // an editor or a shell may have added a line end
		secret = bytes.TrimSpace(secret)
	}
	cfg, err := ndtls.Shared(secret)
	if err != nil {
		return nil, fmt.Errorf("use the secret in %s: %w (ndcat --new-secret makes one)", t.Secret, err)
	}
	return cfg, nil
}

// NewSecret returns a new shared secret as a line of text.
func NewSecret() string {
	var secret [ndtls.MinSecret]byte
	_, _ = rand.Read(secret[:]) // never fails (crypto/rand)
	return hex.EncodeToString(secret[:]) + "\n"
}

// WriteSecret writes a new shared secret. If the output is a file, only its owner may read it from then on, because a shell usually makes
// files that everybody may read.
func WriteSecret(to io.Writer) error {
	if f, ok := to.(interface{ Fd() uintptr }); ok {
		var file syscall.Stat_t
		fd := int(f.Fd())
		if syscall.Fstat(fd, &file) == nil && file.Mode&syscall.S_IFMT == syscall.S_IFREG {
			if err := syscall.Fchmod(fd, 0o600); err != nil {
				return fmt.Errorf("keep others from reading the file of the secret: %w: write to a file of your own", err)
			}
		}
	}
	_, err := io.WriteString(to, NewSecret())
	return err
}

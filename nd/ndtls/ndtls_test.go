package ndtls

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"testing"
)

func newSecret(t testing.TB) []byte {
	t.Helper()
	secret := make([]byte, MinSecret)
	rand.Read(secret)
	return secret
}

func newKey(t testing.TB) (ed25519.PublicKey, ed25519.PrivateKey) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return public, private
}

// must returns a configuration without its error.
func must(t testing.TB) func(*tls.Config, error) *tls.Config {
	return func(cfg *tls.Config, err error) *tls.Config {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
}

// connect runs a handshake and a byte in each direction, and returns what each end says of it.
func connect(t *testing.T, client, server *tls.Config) (state tls.ConnectionState, atClient, atServer error) {
	t.Helper()
	a, b := net.Pipe()
	results := make(chan error, 1)
	go func() {
		results <- exchange(tls.Server(b, server))
		b.Close() // tls.Conn.Close would wait for somebody who reads its alert
	}()
	c := tls.Client(a, client)
	atClient = exchange(c)
	state = c.ConnectionState()
	a.Close()
	return state, atClient, <-results
}

// exchange sends a byte and receives one. A verification of the peer's peer fails at the first byte from there.
func exchange(c *tls.Conn) error {
	if err := c.Handshake(); err != nil {
		return err
	}
	sent := make(chan error, 1)
	go func() {
		_, err := c.Write([]byte{1})
		sent <- err
	}()
	if _, err := c.Read(make([]byte, 1)); err != nil {
		c.Close()
		<-sent
		return err
	}
	return <-sent
}

func TestSharedSecret(t *testing.T) {
	secret := newSecret(t)
	one, two := must(t)(Shared(secret)), must(t)(Shared(bytes.Clone(secret)))
	state, atClient, atServer := connect(t, one, two)
	if atClient != nil || atServer != nil {
		t.Fatal(atClient, atServer)
	}
	if state.Version != tls.VersionTLS13 || len(state.PeerCertificates) != 1 {
		t.Errorf("%+v", state)
	}
	if !bytes.Equal(one.Certificates[0].Certificate[0], two.Certificates[0].Certificate[0]) {
		t.Error("certificates of one secret differ")
	}
}

// Each end refuses a peer with another secret, without a certificate, or with a certificate of another kind of key.
func TestOtherSecretIsRefused(t *testing.T) {
	good := must(t)(Shared(newSecret(t)))
	other := must(t)(Shared(newSecret(t)))
	trusting := func(cfg *tls.Config) *tls.Config { // an attacker accepts everybody
		cfg = cfg.Clone()
		cfg.VerifyConnection = nil
		return cfg
	}
	anonymous := trusting(other)
	anonymous.Certificates = nil
	for name, c := range map[string]struct {
		client, server *tls.Config
		byClient       bool
	}{
		"server with another secret":   {good, trusting(other), true},
		"client with another secret":   {trusting(other), good, false},
		"client without a certificate": {anonymous, good, false},
		"both with other secrets":      {good, other, true},
	} {
		_, atClient, atServer := connect(t, c.client, c.server)
		refused, other := atServer, atClient
		if c.byClient {
			refused, other = atClient, atServer
		}
		if refused == nil || other == nil {
			t.Errorf("%s: the client got %v, the server %v", name, atClient, atServer)
		}
		if _, is := errors.AsType[*tls.CertificateVerificationError](refused); is != errors.Is(refused, errUnknownKey) || !is && c.client != anonymous {
			t.Errorf("%s: refused for %v", name, refused)
		}
	}
}

// A copy of a member's certificate is worth nothing without its private key.
func TestStolenCertificate(t *testing.T) {
	good := must(t)(Shared(newSecret(t)))
	_, key := newKey(t)
	thief := &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{{Certificate: good.Certificates[0].Certificate, PrivateKey: key}}}
	if _, _, atServer := connect(t, thief, good); atServer == nil {
		t.Error("a thief of the certificate was accepted as a client")
	}
	if _, atClient, _ := connect(t, good, thief); atClient == nil {
		t.Error("a thief of the certificate was accepted as a server")
	}
}

func TestShortSecrets(t *testing.T) {
	for n := range MinSecret {
		if _, err := Shared(make([]byte, n)); err == nil {
			t.Errorf("a secret of %d bytes was taken", n)
		}
	}
}

// The key of a secret is fixed: members of different releases meet.
func TestKeyOfASecretIsFixed(t *testing.T) {
	cfg := must(t)(Shared([]byte("0123456789abcdef0123456789abcdef")))
	got := fmt.Sprintf("%x", cfg.Certificates[0].PrivateKey.(ed25519.PrivateKey).Public())
	const want = "ec7380960a61a961ef44da37f61d08a168a8c6c882763a06abddd5fe1137b3e7"
	if got != want {
		t.Errorf("the public key is %s, want %s", got, want)
	}
}

func TestPinnedKeys(t *testing.T) {
	public1, private1 := newKey(t)
	public2, private2 := newKey(t)
	public3, private3 := newKey(t)
	one := must(t)(Pinned(private1, public2, public3))
	two := must(t)(Pinned(private2, public1))
	three := must(t)(Pinned(private3, public2))
	if state, atClient, atServer := connect(t, one, two); atClient != nil || atServer != nil {
		t.Errorf("members that list each other: %v, %v", atClient, atServer)
	} else if key := state.PeerCertificates[0].PublicKey.(ed25519.PublicKey); !key.Equal(public2) {
		t.Error("the state has another key of the peer")
	}
	if _, atClient, atServer := connect(t, one, three); atServer == nil || atClient == nil {
		t.Errorf("a member that is not listed: %v, %v", atClient, atServer)
	}
	if _, atClient, _ := connect(t, three, one); atClient == nil {
		t.Error("a connector accepted a listener that it does not list")
	}
	public2[0] ^= 1 // the caller's slices may change
	if _, atClient, atServer := connect(t, one, two); atClient != nil || atServer != nil {
		t.Errorf("after a change of the caller's slice: %v, %v", atClient, atServer)
	}
}

func TestPinnedRefusesKeysOfWrongLength(t *testing.T) {
	public, private := newKey(t)
	for name, make := range map[string]func() (*tls.Config, error){
		"no own key":      func() (*tls.Config, error) { return Pinned(nil, public) },
		"a seed":          func() (*tls.Config, error) { return Pinned(private[:32], public) },
		"no peer":         func() (*tls.Config, error) { return Pinned(private) },
		"an empty peer":   func() (*tls.Config, error) { return Pinned(private, public, nil) },
		"a private peer":  func() (*tls.Config, error) { return Pinned(private, ed25519.PublicKey(private)) },
		"a shortened key": func() (*tls.Config, error) { return Pinned(private, public[:31]) },
	} {
		if cfg, err := make(); err == nil || cfg != nil {
			t.Errorf("%s: was taken", name)
		}
	}
}

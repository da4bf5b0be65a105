// Package ndtls makes TLS configurations for machines without a certificate authority.
//
// Connections are encrypted with TLS 1.3, which proves identities by certificates. A cluster that has certificates (cert-manager, SPIFFE,
// Vault, ACME) uses them in a tls.Config of its own. A cluster without certificates has two ways:
//
//   - Shared makes the identity from a secret that all members know. Every member may pose as every other member.
//   - Pinned has a key for each member. Each member lists the public keys of the members that it talks to.
//
// Both configurations serve connectors and listeners alike. Both ends verify each other. Certificates in them have no names, no
// authority and no end: a key ends when no configuration lists it. They work with crypto/tls over TCP as well.
package ndtls

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"
)

// MinSecret is the length of the shortest secret of Shared, in bytes. An attacker that connects to a member can test guesses of the
// secret on a machine of its own, so a secret must be impossible to guess. A password is not.
const MinSecret = 32

// keyInfo binds the derived key to this use of the secret.
const keyInfo = "ndxdp shared identity, Ed25519, version 1"

// Shared returns a configuration whose identity is a secret: the peer is accepted if it has a configuration of the same secret. All
// members with the secret are equal, so it does not tell which member the peer is. An attacker on the path can connect a member to another
// member than it dialed, or to itself. Pinned with the key of the
// dialed member alone prevents this.
//
// secret has at least MinSecret bytes, and should be random: 32 bytes of crypto/rand. Shared does not keep it. To change the secret of
// running members, let listeners use GetConfigForClient and accept both for a while. Shared fails if the secret is too short.
// The configuration may be used by many connectors and listeners at the same time.
func Shared(secret []byte) (*tls.Config, error) {
	if len(secret) < MinSecret {
		return nil, fmt.Errorf("ndtls: a shared secret of %d bytes can be guessed: use %d random bytes or more", len(secret), MinSecret)
	}
	seed, err := hkdf.Key(sha256.New, secret, nil, keyInfo, ed25519.SeedSize)
	if err != nil {
		return nil, fmt.Errorf("ndtls: derive the key of a shared secret: %w", err)
	}
	key := ed25519.NewKeyFromSeed(seed)
	return Pinned(key, key.Public().(ed25519.PublicKey))
}

// Pinned returns a configuration with the identity own, which accepts peers that have the private key of one of the public keys.
// After the handshake, PeerCertificates[0].PublicKey of the connection's state is the key of the peer.
//
// Pinned fails if own or a public key is not an Ed25519 key of the right length, or if there is no public key. The configuration may
// be used by many connectors and listeners at the same time.
func Pinned(own ed25519.PrivateKey, peers ...ed25519.PublicKey) (*tls.Config, error) {
	if len(own) != ed25519.PrivateKeySize {
		return nil, fmt.Errorf("ndtls: the own key has %d bytes, and an Ed25519 private key has %d", len(own), ed25519.PrivateKeySize)
	}
	if len(peers) == 0 {
		return nil, errors.New("ndtls: no peer would be accepted: give the public key of each peer")
	}
	known := make([]ed25519.PublicKey, len(peers))
	for i, peer := range peers {
		if len(peer) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("ndtls: public key %d has %d bytes, and an Ed25519 public key has %d", i, len(peer), ed25519.PublicKeySize)
		}
		known[i] = slices.Clone(peer)
	}
	own = slices.Clone(own)
	certificate, err := selfSigned(own)
	if err != nil {
		return nil, fmt.Errorf("ndtls: make the certificate of a key: %w", err)
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: own}},
		ClientAuth:   tls.RequireAnyClientCert,
		// Names and authorities are not verified, because VerifyConnection compares the key itself.
		InsecureSkipVerify:     true,
		SessionTicketsDisabled: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			return verify(&state, known)
		},
	}, nil
}

// errUnknownKey says that the peer proved a key that is not listed.
var errUnknownKey = errors.New("ndtls: the peer has another secret, or a key that is not listed")

// verify accepts a peer whose certificate has one of the known keys. TLS has verified that the peer has the private key.
func verify(state *tls.ConnectionState, known []ed25519.PublicKey) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("ndtls: the peer has no certificate")
	}
	leaf := state.PeerCertificates[0]
	if key, is := leaf.PublicKey.(ed25519.PublicKey); is && slices.ContainsFunc(known, func(k ed25519.PublicKey) bool { return k.Equal(key) }) {
		return nil
	}
	return &tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: errUnknownKey}
}

// selfSigned returns the certificate of a key. It has the same bytes in every process, so that it tells nothing about the process.
func selfSigned(key ed25519.PrivateKey) ([]byte, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "ndxdp"},
		NotBefore:    time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC),
		NotAfter:     time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), // no end (RFC 5280 §4.1.2.5)
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	return x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
}

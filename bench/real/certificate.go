package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"time"
)

// certificateLifetime is longer than a run.
const certificateLifetime = 24 * time.Hour

// newKey generates a private key. It cannot fail, because crypto/rand ends the process if it has no randomness.
func newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return key
}

// certificate returns a self-signed certificate.
func certificate() tls.Certificate {
	key := newKey()
	about := x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(certificateLifetime)}
	text, err := x509.CreateCertificate(rand.Reader, &about, &about, &key.PublicKey, key)
	if err != nil {
		panic(err) // fails for no key or for all
	}
	return tls.Certificate{Certificate: [][]byte{text}, PrivateKey: key}
}

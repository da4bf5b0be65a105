package aead

import (
	"crypto/aes"
	"crypto/cipher"
	"errors"

	"golang.org/x/crypto/chacha20poly1305"
)

// newCipher makes the AEAD of a suite. It is the only place that chooses an implementation.
//
// In FIPS 140-only mode cipher.NewGCM refuses nonces from its caller, and so newCipher fails. The standard library has a GCM with QUIC's
// nonces, which the mode approves, but does not export it.
func newCipher(suite Suite, key []byte) (cipher.AEAD, error) {
	if suite == ChaCha20Poly1305 {
		return chacha20poly1305.New(key)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// errNotApproved replaces the error of newCipher, which advises programmers and not users.
var errNotApproved = errors.New("packets are encrypted by AES-GCM with nonces that count up, which the FIPS 140-only mode of this process does not allow: start the process with GODEBUG=fips140=on")

// Usable reports why packets cannot be sealed in this process, or nil. The only reason is FIPS 140-only mode, because it refuses
// AES-GCM with the nonces of packets.
func Usable() error {
	var key [16]byte
	if _, err := newCipher(AES128GCM, key[:]); err != nil {
		return errNotApproved
	}
	return nil
}

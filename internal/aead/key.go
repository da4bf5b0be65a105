package aead

import (
	"crypto/cipher"
	"encoding/binary"
	"fmt"
)

// Key seals or opens the packets of one direction and one generation. The zero value has no key. A Key is used by one goroutine at a
// time. Copies are independent of each other, but have the same key: a number must be sealed by one of them only.
type Key struct {
	aead  cipher.AEAD
	iv    [IVLen]byte
	nonce [IVLen]byte // of the packet at hand; on the stack it would be allocated for each packet
}

// Make derives the key of a secret. It fails if there is no secret, or if the process may not use the cipher (see Usable). It
// allocates nothing but the cipher, which has less than a kilobyte.
func (k *Key) Make(s *Secret) error {
	if !s.suite.Known() {
		return errNoSecret
	}
	var bytes [maxKeyLen]byte
	defer clear(bytes[:])
	key := bytes[:s.suite.KeyLen()]
	s.material(key, k.iv[:])
	c, err := newCipher(s.suite, key)
	if err != nil {
		k.Erase()
		return fmt.Errorf("aead: make a key of %s: %w", s.suite, err)
	}
	k.aead = c
	return nil
}

// Ready reports whether the key was made and not erased since.
func (k *Key) Ready() bool { return k.aead != nil }

// Erase forgets the key. The initialization vector is cleared. The cipher's own copy of the key cannot be cleared from here: it
// stays in memory that nothing refers to until the runtime uses this memory again.
func (k *Key) Erase() { *k = Key{} }

// Seal encrypts plain, authenticates header with it, and appends the ciphertext and a tag of TagLen bytes to dst. It returns the
// longer slice. number is the full packet number, which the caller must never give twice.
//
// If dst has room for len(plain)+TagLen bytes, Seal allocates nothing. This room must overlap neither header nor plain, except that
// it may begin exactly where plain begins. Seal panics if the key was not made.
func (k *Key) Seal(dst, plain, header []byte, number uint64) []byte {
	k.setNonce(number)
	return k.aead.Seal(dst, k.nonce[:], plain, header)
}

// Open verifies and decrypts sealed, which ends with the tag, together with header. It appends the plaintext, TagLen bytes shorter
// than sealed, to dst and returns the longer slice.
//
// ok is false if the tag is wrong or sealed is shorter than a tag. The room of dst that the plaintext would take is then undefined:
// the cipher writes before it verifies. So dst must be memory that only the caller reads. If dst has room for the plaintext, Open
// allocates nothing. This room must overlap neither header nor sealed, except that it may begin exactly where sealed begins. Open
// panics if the key was not made.
func (k *Key) Open(dst, sealed, header []byte, number uint64) (plain []byte, ok bool) {
	if len(sealed) < TagLen {
		return dst, false
	}
	k.setNonce(number)
	plain, err := k.aead.Open(dst, k.nonce[:], sealed, header)
	if err != nil {
		return dst, false
	}
	return plain, true
}

// setNonce computes the nonce of a packet: the initialization vector, XOR the number in its last 8 bytes (RFC 9001 §5.3).
func (k *Key) setNonce(number uint64) {
	k.nonce = k.iv
	at := k.nonce[IVLen-8:]
	binary.BigEndian.PutUint64(at, binary.BigEndian.Uint64(at)^number)
}

package aead

import (
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/binary"
)

const (
	labelPrefix = "tls13 "
	maxLabel    = 8 // bytes of the longest label
	maxInfo     = 2 + 1 + len(labelPrefix) + maxLabel + 1
	maxBlock    = sha512.BlockSize
)

// expandLabel is HKDF-Expand-Label with an empty context (RFC 8446 §7.1), for at most as many bytes as the hash has. So it is a single
// HMAC. crypto/hkdf computes the same, but allocates ten times, and an idle connection derives its keys for each keep-alive.
func expandLabel(suite Suite, secret []byte, label string, out []byte) {
	var memory [maxInfo + 1]byte
	info := binary.BigEndian.AppendUint16(memory[:0], uint16(len(out)))
	info = append(info, byte(len(labelPrefix)+len(label)))
	info = append(append(info, labelPrefix...), label...)
	info = append(info, 0, 1) // no context; the first block of HKDF-Expand
	sum := mac(suite, secret, info)
	copy(out, sum[:suite.SecretLen()])
	clear(sum[:])
}

// mac is the HMAC (RFC 2104) of a message of at most maxInfo+1 bytes, with the hash of the suite. The key is shorter than a block of the
// hash.
func mac(suite Suite, key, message []byte) (sum [MaxSecretLen]byte) {
	var inner [maxBlock + maxInfo + 1]byte
	var outer [maxBlock + MaxSecretLen]byte
	block := sha256.BlockSize
	if suite == AES256GCM {
		block = sha512.BlockSize
	}
	for i := range block {
		inner[i], outer[i] = 0x36, 0x5c
	}
	subtle.XORBytes(inner[:], inner[:], key)
	subtle.XORBytes(outer[:], outer[:], key)
	n := block + copy(inner[block:], message)
	hash(suite, inner[:n], &sum)
	n = block + copy(outer[block:], sum[:suite.SecretLen()])
	hash(suite, outer[:n], &sum)
	clear(inner[:])
	clear(outer[:])
	return sum
}

// hash computes the hash of the suite.
func hash(suite Suite, data []byte, sum *[MaxSecretLen]byte) {
	if suite == AES256GCM {
		*sum = sha512.Sum384(data)
		return
	}
	short := sha256.Sum256(data)
	copy(sum[:], short[:])
	clear(short[:])
}

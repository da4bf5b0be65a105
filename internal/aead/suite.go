package aead

import (
	"crypto/sha256"
	"crypto/sha512"
)

// Suite is a cipher suite of TLS 1.3, by its number in RFC 8446 appendix B.4.
type Suite uint16

// The suites. Their values are equal to the constants of crypto/tls.
const (
	AES128GCM        Suite = 0x1301 // TLS_AES_128_GCM_SHA256
	AES256GCM        Suite = 0x1302 // TLS_AES_256_GCM_SHA384
	ChaCha20Poly1305 Suite = 0x1303 // TLS_CHACHA20_POLY1305_SHA256
)

const (
	// TagLen is the length of a tag, which Seal appends, in bytes. It is the same for all suites.
	TagLen = 16
	// IVLen is the length of an initialization vector, in bytes. It is the same for all suites.
	IVLen = 12
	// maxKeyLen is the length of the longest key of a cipher, in bytes.
	maxKeyLen = 32
	// MaxSecretLen is the length of the longest Secret, in bytes.
	MaxSecretLen = sha512.Size384
)

// properties has for each Suite its name, and the lengths of its key and of its secrets in bytes. A secret is as long as the hash that
// keys are derived with.
var properties = [...]struct {
	name      string
	keyLen    int
	secretLen int
}{
	0:                            {"AES-128-GCM", 16, sha256.Size},
	AES256GCM - AES128GCM:        {"AES-256-GCM", 32, sha512.Size384},
	ChaCha20Poly1305 - AES128GCM: {"ChaCha20-Poly1305", 32, sha256.Size},
}

// Known reports whether the package has the suite.
func (s Suite) Known() bool { return s >= AES128GCM && int(s-AES128GCM) < len(properties) }

// String returns the name of the cipher, for example AES-128-GCM, or "unknown".
func (s Suite) String() string {
	if !s.Known() {
		return "unknown"
	}
	return properties[s-AES128GCM].name
}

// KeyLen returns the length of the cipher's key in bytes. The suite must be known.
func (s Suite) KeyLen() int { return properties[s-AES128GCM].keyLen }

// SecretLen returns the length of a Secret of the suite in bytes, at most MaxSecretLen. The suite must be known.
func (s Suite) SecretLen() int { return properties[s-AES128GCM].secretLen }

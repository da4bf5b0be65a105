package aead

import "fmt"

// Labels of the keys (RFC 8446 §7.1). They are part of the protocol.
const (
	labelKey    = "nd key"
	labelIV     = "nd iv"
	labelUpdate = "nd ku"
)

// Secret is the traffic secret of one direction and one generation. It is a value without pointers: a copy is another secret in
// memory, and Erase clears only the value that it is called on. The zero value is no secret.
type Secret struct {
	suite Suite
	bytes [MaxSecretLen]byte
}

// NewSecret copies a traffic secret of TLS. It fails if the suite is unknown, or if the secret does not have the suite's length.
func NewSecret(suite Suite, secret []byte) (Secret, error) {
	if !suite.Known() {
		return Secret{}, fmt.Errorf("aead: cipher suite %#04x is unknown", uint16(suite))
	}
	if len(secret) != suite.SecretLen() {
		return Secret{}, fmt.Errorf("aead: a secret of %s has %d bytes, not %d", suite, suite.SecretLen(), len(secret))
	}
	s := Secret{suite: suite}
	copy(s.bytes[:], secret)
	return s, nil
}

// Suite returns the suite of the secret, or zero for no secret.
func (s *Secret) Suite() Suite { return s.suite }

// Erase clears the secret.
func (s *Secret) Erase() { *s = Secret{} }

// Next returns the secret of the next generation of the same direction. The present secret does not follow from it. Next fails if
// there is no secret. It allocates nothing.
func (s *Secret) Next() (Secret, error) {
	if !s.suite.Known() {
		return Secret{}, errNoSecret
	}
	next := Secret{suite: s.suite}
	n := s.suite.SecretLen()
	expandLabel(s.suite, s.bytes[:n], labelUpdate, next.bytes[:n])
	return next, nil
}

// Material returns copies of the cipher's key and of its initialization vector, for a key log. Both must be treated as secrets.
func (s *Secret) Material() (key, iv []byte, err error) {
	if !s.suite.Known() {
		return nil, nil, errNoSecret
	}
	key, iv = make([]byte, s.suite.KeyLen()), make([]byte, IVLen)
	s.material(key, iv)
	return key, iv, nil
}

// material fills key and iv, which have the lengths of the suite. The suite must be known.
func (s *Secret) material(key, iv []byte) {
	secret := s.bytes[:s.suite.SecretLen()]
	expandLabel(s.suite, secret, labelKey, key)
	expandLabel(s.suite, secret, labelIV, iv)
}

// errNoSecret says that a Secret is its zero value.
var errNoSecret = fmt.Errorf("aead: there is no secret to derive a key from")

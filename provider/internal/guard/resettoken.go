package guard

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"github.com/ndxdp/ndxdp/wire"
)

// ResetTokens makes the tokens that authenticate RSTs. Their key is the host's key (Config.ResetKey), so that a process can send
// RSTs for connections of its predecessor.
type ResetTokens struct {
	mac hash.Hash
	buf [8 + 16 + 2]byte
	sum [sha256.Size]byte
}

// NewResetTokens returns a ResetTokens with a key.
func NewResetTokens(key *[sha256.Size]byte) ResetTokens {
	return ResetTokens{mac: hmac.New(sha256.New, key[:])}
}

// Of returns the token of a connection id at a local address and UDP port. Other processes that have the key use other ports, so
// their tokens do not end connections of this process.
func (r *ResetTokens) Of(id uint64, at wire.Endpoint) (t [wire.ResetTokenLen]byte) {
	b := binary.BigEndian.AppendUint64(r.buf[:0], id)
	b = append(b, at.IP[:]...)
	r.mac.Reset()
	r.mac.Write(binary.BigEndian.AppendUint16(b, at.Port))
	copy(t[:], r.mac.Sum(r.sum[:0]))
	return t
}

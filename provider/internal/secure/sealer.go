package secure

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/ndxdp/ndxdp/internal/aead"
	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

// Sealer is the sending direction of a connection. The zero value has no key. A Sealer must not be copied once it has sealed.
type Sealer struct {
	key        aead.Key
	secret     aead.Secret // of the present generation
	generation uint32
	known      bool       // the peer has opened a packet of this generation
	first      uint64     // number of the first packet of this generation, once it was sealed
	next       uint64     // lowest number that was not sealed
	sealed     uint64     // packets of this generation
	began      clock.Time // when this generation began
	header     associated
}

// Install begins a generation with a secret of the handshake: generation 0 or 1. Later generations follow from it. The packets of
// earlier generations must have been sealed before.
func (s *Sealer) Install(generation uint32, secret *aead.Secret, now clock.Time) error {
	var key aead.Key
	if err := key.Make(secret); err != nil {
		return err
	}
	s.begin(generation, *secret, key, now)
	return nil
}

func (s *Sealer) begin(generation uint32, secret aead.Secret, key aead.Key, now clock.Time) {
	s.key.Erase()
	s.key, s.secret, s.generation, s.known = key, secret, generation, false
	s.sealed, s.began = 0, now
}

// Ready reports whether packets can be sealed.
func (s *Sealer) Ready() bool { return s.key.Ready() }

// Generation returns the generation of the packets that are sealed next.
func (s *Sealer) Generation() uint32 { return s.generation }

// Suite returns the cipher suite, or zero before Install.
func (s *Sealer) Suite() aead.Suite { return s.secret.Suite() }

// Seal seals plain under a packet number and appends the result to dst, as aead.Key.Seal does. It authenticates the base header, which
// has wire.BaseHeaderLen bytes, and the full message number, zero in a control packet. Seal panics if the packet number is not larger
// than every number sealed before: two packets under one number would reveal both, and no fault may lead there.
func (s *Sealer) Seal(dst, plain, header []byte, number uint64, message uint32) []byte {
	if number < s.next {
		panic(fmt.Sprintf("secure: packet number %d may have been sealed before; the next one is %d", number, s.next))
	}
	if s.sealed == 0 {
		s.first = number
	}
	s.next = number + 1
	s.sealed++
	return s.key.Seal(dst, plain, s.header.of(header, message), number)
}

// Acknowledged takes the largest number that the peer acknowledged. It shows whether the peer has the present key.
func (s *Sealer) Acknowledged(largest uint64) {
	if !s.known && s.sealed > 0 && largest >= s.first {
		s.known = true
	}
}

// Due reports whether the next generation must begin: the key is used up, and the peer has the key that the next key follows from.
// Generation 0 ends only with the handshake.
func (s *Sealer) Due(l *Limits, now clock.Time) bool {
	return s.known && s.generation > 0 && (s.sealed >= l.Update || now.Sub(s.began) >= l.Age)
}

// Worn reports that no packet may be sealed but the messages that end the connection, because the peer did not let the next
// generation begin. Spent reports that not even these messages may be sealed.
func (s *Sealer) Worn(l *Limits) bool  { return s.sealed+Reserve >= l.Most }
func (s *Sealer) Spent(l *Limits) bool { return s.sealed >= l.Most }

// errLastGeneration says that a direction used all its keys.
var errLastGeneration = errors.New("secure: the direction used its last key generation")

// Update begins the next generation. It fails after the last generation, and if the process may not use the cipher.
func (s *Sealer) Update(now clock.Time) error {
	if s.generation == math.MaxUint32 {
		return errLastGeneration
	}
	secret, err := s.secret.Next()
	if err != nil {
		return err
	}
	var key aead.Key
	if err := key.Make(&secret); err != nil {
		return err
	}
	s.begin(s.generation+1, secret, key, now)
	secret.Erase()
	return nil
}

// Sleep forgets the cipher, which an idle connection does not need, and keeps the secret.
func (s *Sealer) Sleep() { s.key.Erase() }

// Wake makes the cipher again after Sleep.
func (s *Sealer) Wake() error {
	if s.key.Ready() {
		return nil
	}
	return s.key.Make(&s.secret)
}

// Erase forgets all keys.
func (s *Sealer) Erase() {
	s.key.Erase()
	*s = Sealer{}
}

// Secret returns the secret of the present generation, for a key log.
func (s *Sealer) Secret() *aead.Secret { return &s.secret }

// associated is memory for the data that a tag covers in addition to the contents: the base header, and the full message number, of
// which the header has 16 bits. So a packet that is so old that its message number expands to another number does not open, as the
// checksum of other packets ensures (PROTOCOL §3.4).
type associated [wire.BaseHeaderLen + 4]byte

// of returns the associated data of a packet. They are valid until the next call.
func (a *associated) of(header []byte, message uint32) []byte {
	copy(a[:wire.BaseHeaderLen], header)
	binary.BigEndian.PutUint32(a[wire.BaseHeaderLen:], message)
	return a[:]
}

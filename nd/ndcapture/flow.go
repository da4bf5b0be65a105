package ndcapture

import (
	"github.com/ndxdp/ndxdp/internal/aead"
	"github.com/ndxdp/ndxdp/wire"
)

const (
	// maxAhead is how many key generations after the newest opened one are tried. It covers a gap of 2^29 packets in the capture.
	maxAhead = 256
	// maxWraps is how often the 16 bits of a message number may wrap around in a gap of the capture.
	maxWraps = 8
)

// flow is one direction of an encrypted connection: the packets to one connection id.
type flow struct {
	sender  side
	nonce   uint64       // of the REQ
	random  clientRandom // of the TLS handshake
	secrets *secrets     // nil if the key log has none
	section int          // of the capture, where the handshake was seen last
	keys    []*keys      // of each cipher suite that the secrets may be of; the suite, once a packet opened
	opened  bool

	number   uint64                 // largest full packet number that opened
	messages [wire.NumSpaces]uint32 // the same of message numbers
}

// newFlow returns a flow whose keys follow from secrets of a key log.
func newFlow(f flow) *flow {
	if f.secrets == nil {
		return &f
	}
	for _, suite := range []aead.Suite{aead.AES128GCM, aead.AES256GCM, aead.ChaCha20Poly1305} {
		k := &keys{made: map[uint32]*aead.Key{}}
		early, err := aead.NewSecret(suite, f.secrets[f.sender][0])
		if err == nil {
			k.early = &early
		}
		first, err := aead.NewSecret(suite, f.secrets[f.sender][1])
		if err == nil {
			k.later = []aead.Secret{first}
		}
		if k.early != nil || k.later != nil {
			f.keys = append(f.keys, k)
		}
	}
	return &f
}

// keys are the keys of a flow for one cipher suite.
type keys struct {
	early *aead.Secret         // of generation 0; nil if the key log lacks it
	later []aead.Secret        // of generation 1 and of generations after it, as far as they were derived
	made  map[uint32]*aead.Key // of the generations of which a packet opened
	used  uint32               // newest generation of which a packet opened
}

// of returns the key of a generation, or nil if there is none.
func (k *keys) of(generation uint32) *aead.Key {
	if key := k.made[generation]; key != nil {
		return key
	}
	secret := k.early
	if generation > 0 {
		if len(k.later) == 0 || uint64(generation) > uint64(k.used)+maxAhead {
			return nil
		}
		for uint32(len(k.later)) < generation {
			next, err := k.later[len(k.later)-1].Next()
			if err != nil {
				return nil
			}
			k.later = append(k.later, next)
		}
		secret = &k.later[generation-1]
	}
	key := new(aead.Key)
	if secret == nil || key.Make(secret) != nil {
		return nil
	}
	return key
}

// open opens a sealed packet, and returns it as the packet in plain that its sender would have sent without encryption. It returns none if
// no key opens the packet.
func (f *flow) open(b []byte, h wire.BaseHeader) (plain []byte) {
	number := f.number + 1 + uint64(int64(int32(h.Number()-uint32(f.number+1)))) // PROTOCOL §3.4
	first, wraps := uint32(0), uint32(0)
	if !h.Control() {
		first, wraps = wire.ExpandMessage(h.Message(), f.messages[h.Space()]), maxWraps
	}
	for _, k := range f.keys {
		key := k.of(h.Generation())
		if key == nil {
			continue
		}
		for wrap := range wraps + 1 {
			message := first + wrap<<16
			header := append([]byte(nil), h...)
			header = append(header, byte(message>>24), byte(message>>16), byte(message>>8), byte(message))
			if contents, ok := key.Open(nil, b[wire.BaseHeaderLen:], header, number); ok {
				k.made[h.Generation()], k.used = key, max(k.used, h.Generation())
				f.keys, f.opened = []*keys{k}, true
				f.note(h, number, message)
				return inPlain(h, contents, number, message)
			}
		}
	}
	return nil
}

// note takes the numbers of a packet that opened, which the numbers of the next packet are near to.
func (f *flow) note(h wire.BaseHeader, number uint64, message uint32) {
	f.number = max(f.number, number)
	if newest := &f.messages[h.Space()]; !h.Control() && int32(message-*newest) > 0 {
		*newest = message
	}
}

// inPlain builds the packet in plain of an opened packet. It has a checksum in place of the key generation, and no UDP port in place of
// the message number. REQ and PROBE must have a size that counts the tag (PROTOCOL §10.1), so zeros replace it.
func inPlain(h wire.BaseHeader, contents []byte, number uint64, message uint32) []byte {
	b := append(append([]byte(nil), h...), contents...)
	b[1] &^= byte(wire.FlagSecure)
	if h.Control() {
		b[2], b[3] = 0, 0
		if at, d := wire.ContentOffset(b); d == wire.DropNone && at < len(b) {
			if op := wire.Opcode(b[at]); op == wire.CtlREQ || op == wire.CtlProbe {
				b = append(b, make([]byte, wire.TagLen)...)
			}
		}
	}
	wire.PutCRC(b, wire.SumFirst(number, message, b))
	return b
}

// flows are the encrypted connections of a capture, by the connection id of the receiver.
type flows struct {
	log     keyLog
	of      map[uint64]*flow
	section int
}

// clientRandomAt is where a ClientHello has its random: behind the type, the length and the version (RFC 8446 §4).
const clientRandomAt = 1 + 3 + 2

// learn takes connection ids from a packet of a TLS handshake in plain. A REQ with the beginning of a ClientHello has the id of the active
// end, and a SHAKE has its sender's id.
func (s *flows) learn(b []byte) {
	h, d := wire.ParseBaseHeader(b)
	if d != wire.DropNone || !h.Control() {
		return
	}
	at, d := wire.ContentOffset(b)
	if d != wire.DropNone {
		return
	}
	c, d := wire.ParseControl(b, at, len(b))
	switch {
	case d != wire.DropNone:
	case c.Opcode == wire.CtlREQ:
		var m wire.Hello
		part := &m.Fragment
		const typeClientHello = 1
		if wire.ParseHello(c.Body, &m) != wire.DropNone || part.Offset != 0 || len(part.Bytes) < clientRandomAt+len(clientRandom{}) || part.Bytes[0] != typeClientHello {
			return
		}
		random := clientRandom(part.Bytes[clientRandomAt:])
		s.add(m.ConnID, newFlow(flow{sender: server, nonce: m.Nonce, random: random, secrets: s.log[random]}))
	case c.Opcode == wire.CtlSHAKE:
		var m wire.Shake
		f := s.of[h.ConnID()]
		if f == nil || wire.ParseShake(c.Body, &m) != wire.DropNone || m.Nonce != f.nonce {
			return
		}
		s.add(m.ConnID, newFlow(flow{sender: 1 - f.sender, nonce: f.nonce, random: f.random, secrets: f.secrets}))
	}
}

// add adds a flow. A forger may have sent the REQ or SHAKE, so it replaces no flow of which a packet opened, and no flow with secrets
// by a flow without. A section that has the handshake again begins with the first numbers: it is the capture of the peer.
func (s *flows) add(id uint64, f *flow) {
	f.section = s.section
	old := s.of[id]
	switch {
	case old == nil, !old.opened && f.secrets != nil:
		s.of[id] = f
	case old.opened && old.random == f.random && old.section != s.section:
		old.section, old.number, old.messages = s.section, 0, [wire.NumSpaces]uint32{}
	}
}

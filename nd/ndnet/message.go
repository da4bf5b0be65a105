package ndnet

import (
	"encoding/binary"
	"errors"
)

// Flags of a message; see the package's documentation.
const (
	flagEnd      = 1 << iota // the sender sends no more data
	flagGone                 // the sender reads no more data
	flagRing                 // a ring is offered
	flagSwitched             // the ring offered last is in use, from this message's bytes on
	flagBlocked              // the sender has more to write than the ring takes
	flagRestart              // this message's bytes are at the beginning of the ring
	flagsAll     = flagEnd | flagGone | flagRing | flagSwitched | flagBlocked | flagRestart
)

// Sizes of messages.
const (
	headerLen  = 12
	offerLen   = 16
	messageLen = 160                    // the longest message: the size of a receive
	inlineMax  = messageLen - headerLen // stream bytes in a message without an offer
)

// message is a message from one side to its peer. Counters are the low bits of counts from the beginning of the connection.
type message struct {
	flags    uint8
	receives uint16 // receives posted
	written  uint32 // stream bytes written, including this message's
	read     uint32 // stream bytes read of the opposite direction
	offer    grant  // present with flagRing
	data     []byte // stream bytes in the message itself
}

// grant is a ring's memory that the peer may write: size bytes from addr. Token 0 is a ring that the peer may not write: all bytes
// come in messages.
type grant struct {
	addr  uint64
	token uint32
	size  uint32
}

// The ring sizes that a grant may have, powers of two.
const (
	minRing = 512
	maxRing = 64 << 20
)

func (g grant) valid() bool {
	return g.size >= minRing && g.size <= maxRing && g.size&(g.size-1) == 0 && g.addr+uint64(g.size) > g.addr
}

var (
	errMessage = errors.New("the peer sent a message that the protocol of package ndnet does not have")
	errGrant   = errors.New("the peer offered a ring of an impossible size")
)

// appendTo appends the message without its data.
func (m *message) appendTo(b []byte) []byte {
	b = append(b, m.flags, 0)
	b = binary.BigEndian.AppendUint16(b, m.receives)
	b = binary.BigEndian.AppendUint32(b, m.written)
	b = binary.BigEndian.AppendUint32(b, m.read)
	if m.flags&flagRing != 0 {
		b = m.offer.appendTo(b)
	}
	return b
}

func (g grant) appendTo(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, g.addr)
	b = binary.BigEndian.AppendUint32(b, g.token)
	return binary.BigEndian.AppendUint32(b, g.size)
}

func parseGrant(b []byte) (g grant, err error) {
	g.addr, g.token, g.size = binary.BigEndian.Uint64(b), binary.BigEndian.Uint32(b[8:]), binary.BigEndian.Uint32(b[12:])
	if !g.valid() {
		err = errGrant
	}
	return g, err
}

// parseMessage parses a message. Its data is a part of b.
func parseMessage(b []byte) (m message, err error) {
	if len(b) < headerLen || b[0]&^flagsAll != 0 || b[1] != 0 {
		return m, errMessage
	}
	m.flags = b[0]
	m.receives = binary.BigEndian.Uint16(b[2:])
	m.written, m.read = binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
	b = b[headerLen:]
	if m.flags&flagRing != 0 {
		if len(b) < offerLen {
			return m, errMessage
		}
		if m.offer, err = parseGrant(b); err != nil {
			return m, err
		}
		b = b[offerLen:]
	}
	m.data = b
	return m, nil
}

// greeting is the private data of a side: its receives and its first ring.
type greeting struct {
	receives uint16
	ring     grant
}

const (
	magic       = "ndnet\x03"
	greetingLen = 24
)

func (g greeting) encode() []byte {
	b := append(make([]byte, 0, greetingLen), magic...)
	b = binary.BigEndian.AppendUint16(b, g.receives)
	return g.ring.appendTo(b)
}

var (
	errGreeting    = errors.New("the peer does not speak the protocol of package ndnet")
	errFewReceives = errors.New("the peer offers too few receives, or too many")
)

func parseGreeting(b []byte) (g greeting, err error) {
	if len(b) < greetingLen || string(b[:len(magic)]) != magic {
		return g, errGreeting
	}
	g.receives = binary.BigEndian.Uint16(b[len(magic):])
	if g.receives < minReceives || g.receives > maxReceives {
		return g, errFewReceives
	}
	g.ring, err = parseGrant(b[len(magic)+2:])
	return g, err
}

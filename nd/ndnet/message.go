package ndnet

import (
	"encoding/binary"
	"errors"
)

// The header of a message; see the package's documentation.
const headerLen = 8

const (
	flagEnd  = 1 // no data follows
	flagGone = 2 // and none is read any more
	flagsAll = flagEnd | flagGone
)

var errMessage = errors.New("the peer sent a message that is not of this protocol")

func putHeader(b []byte, flags uint8, posted uint32) {
	_ = b[headerLen-1]
	b[0], b[1], b[2], b[3] = flags, 0, 0, 0
	binary.BigEndian.PutUint32(b[4:], posted)
}

func parseHeader(b []byte) (flags uint8, posted uint32, err error) {
	if len(b) < headerLen || b[0]&^flagsAll != 0 || b[1]|b[2]|b[3] != 0 {
		return 0, 0, errMessage
	}
	return b[0], binary.BigEndian.Uint32(b[4:]), nil
}

// greeting is the private data: what a side offers.
type greeting struct {
	receives   int
	maxMessage int // bytes, with header
}

const (
	magic       = "ndnet\x01"
	greetingLen = 16
)

func (g greeting) encode() []byte {
	b := append(make([]byte, 0, greetingLen), magic...)
	b = binary.BigEndian.AppendUint16(b, uint16(g.receives))
	b = binary.BigEndian.AppendUint32(b, uint32(g.maxMessage))
	return append(b, 0, 0, 0, 0)
}

func parseGreeting(b []byte) (g greeting, err error) {
	if len(b) < greetingLen || string(b[:len(magic)]) != magic {
		return g, errors.New("the peer does not speak the protocol of package ndnet")
	}
	g.receives = int(binary.BigEndian.Uint16(b[6:]))
	g.maxMessage = int(binary.BigEndian.Uint32(b[8:]))
	if g.receives < minBuffers || g.maxMessage <= headerLen {
		return g, errors.New("the peer offers too few receives")
	}
	return g, nil
}

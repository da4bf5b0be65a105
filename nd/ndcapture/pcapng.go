package ndcapture

import (
	"encoding/binary"
	"time"
)

// Types of the blocks of a pcapng file (draft-ietf-opsawg-pcapng, section 4).
const (
	sectionBlock    = 0x0a0d0d0a
	interfaceBlock  = 1
	statisticsBlock = 5
	packetBlock     = 6
)

// Codes of options. Each type of block has its own, except for a comment.
const (
	optionComment     = 1
	sectionProgram    = 4
	interfaceName     = 2
	interfaceText     = 3
	interfaceTime     = 9
	packetFlags       = 2
	packetQueue       = 6
	statisticsEnd     = 3
	statisticsPackets = 4
	statisticsLost    = 5
)

// Values of fields.
const (
	byteOrder     = 0x1a2b3c4d // a reader learns the order of bytes from this number
	version       = 1          // 1.0: the minor version is the upper half of the field
	lengthUnknown = 1<<32 - 1  // of a section, in each of two words
	linkEthernet  = 1
	interfaceID   = 0 // a section has one interface
	nanoseconds   = 9 // of interfaceTime: a time is a number of 10^-9 seconds
	inbound       = 1 // of packetFlags
	outbound      = 2
)

// maxOption is the largest length of an option's value that needs no padding to fit its 16-bit field.
const maxOption = 1<<16 - 4

// block is a block of a pcapng file: its type and its length, the fields of the type, options, and the length again. All numbers
// are little-endian. All parts are multiples of 4 bytes long.
type block []byte

// begin starts a block in the memory of an earlier one.
func (b block) begin(kind uint32) block { return b[:0].words(kind, 0) }

func (b block) words(values ...uint32) block {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}

// padded appends bytes, and zeros to a multiple of 4.
func (b block) padded(data []byte) block {
	var zeros [4]byte
	return append(append(b, data...), zeros[:-len(data)&3]...)
}

// option appends an option. A value that is too long is truncated.
func (b block) option(code uint16, value []byte) block {
	value = value[:min(len(value), maxOption)]
	return b.words(uint32(code) | uint32(len(value))<<16).padded(value)
}

// number appends an option with a number of 64 bits.
func (b block) number(code uint16, v uint64) block {
	return b.option(code, binary.LittleEndian.AppendUint64(nil, v))
}

// time appends an option with a time.
func (b block) time(code uint16, t time.Time) block {
	upper, lower := timestamp(t)
	return b.option(code, block{}.words(upper, lower))
}

// end appends the end of options, and writes the length of the block to its two places.
func (b block) end() block {
	const endOfOptions = 0
	b = b.words(endOfOptions, 0)
	n := uint32(len(b))
	binary.LittleEndian.PutUint32(b[4:], n)
	binary.LittleEndian.PutUint32(b[n-4:], n)
	return b
}

// timestamp returns the upper and the lower half of a time in nanoseconds.
func timestamp(t time.Time) (upper, lower uint32) {
	ns := uint64(t.UnixNano())
	return uint32(ns >> 32), uint32(ns)
}

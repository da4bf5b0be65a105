package wire

import "encoding/binary"

// Offsets of the base header's fields (PROTOCOL §3).
const (
	offVersion = 0 // version and type
	offFlags   = 1
	offOpCount = 2
	offZero    = 3
	offNumber  = 4
	offConnID  = 8
	offPSN     = 16
)

// Types of a packet (PROTOCOL §3.1).
const (
	typeControl    = 0
	typeOperations = 1
)

// BaseHeader is a checked view of a packet's base header (PROTOCOL §3). Its length is BaseHeaderLen, so the accessors
// cannot panic. It aliases the packet.
type BaseHeader []byte

// ParseBaseHeader checks the base header at the start of b, the first fragment of a packet, and returns a view of it.
// It checks length, version, type and reserved bits (PROTOCOL §3.3), but not the CRC, which covers bytes b may lack.
func ParseBaseHeader(b []byte) (BaseHeader, DropReason) {
	if len(b) < BaseHeaderLen {
		return nil, DropShort
	}
	h := BaseHeader(b[:BaseHeaderLen:BaseHeaderLen])
	if h[offVersion]>>4 != Version {
		return nil, DropVersion
	}
	if h.Flags()&^KnownFlags != 0 || h[offZero] != 0 {
		return nil, DropReserved
	}
	switch h[offVersion] & 0xf {
	case typeControl: // PROTOCOL §3.1: it has no operations, no PSN and no parts
		if h[offOpCount] != 0 || h.PSN() != 0 || h.Flags()&FlagExt != 0 {
			return nil, DropReserved
		}
	case typeOperations:
		if h[offOpCount] == 0 {
			return nil, DropReserved
		}
	default:
		return nil, DropReserved
	}
	return h, DropNone
}

// OpCount returns the number of operations; 0 means that this is a control packet (PROTOCOL §3.1).
func (h BaseHeader) OpCount() int { return int(h[offOpCount]) }

// Flags returns the flags (PROTOCOL §3.2).
func (h BaseHeader) Flags() Flags { return Flags(h[offFlags]) }

// Number returns the low 32 bits of the packet number (PROTOCOL §3.1).
func (h BaseHeader) Number() uint32 { return binary.BigEndian.Uint32(h[offNumber:]) }

// PSN returns the number of the packet's operations in their space; zero in control packets (PROTOCOL §3.1).
func (h BaseHeader) PSN() PSN { return PSN(binary.BigEndian.Uint32(h[offPSN:])) }

// Space returns the sequence space of the packet (PROTOCOL §3.2).
func (h BaseHeader) Space() Space {
	if h.Flags()&FlagSpace != 0 {
		return ResponseSpace
	}
	return RequestSpace
}

// ConnID returns the receiver's connection id (PROTOCOL §6).
func (h BaseHeader) ConnID() uint64 { return binary.BigEndian.Uint64(h[offConnID:]) }

// CRC returns the packet's checksum (PROTOCOL §3.4).
func (h BaseHeader) CRC() uint32 { return binary.BigEndian.Uint32(h[CRCOffset:]) }

// BaseFields are the values PutBaseHeader encodes (PROTOCOL §3). The version is implied, the type follows from OpCount, the CRC
// is written by PutCRC.
type BaseFields struct {
	OpCount uint8
	Flags   Flags
	Number  uint32 // low 32 bits of the packet number
	PSN     PSN
	ConnID  uint64
}

// PutBaseHeader writes the base header with a zero CRC to b[:BaseHeaderLen] (PROTOCOL §3); it panics if b is shorter.
func PutBaseHeader(b []byte, f *BaseFields) {
	h := (*[BaseHeaderLen]byte)(b)
	h[offVersion] = Version<<4 | typeControl
	if f.OpCount > 0 {
		h[offVersion] = Version<<4 | typeOperations
	}
	h[offFlags] = uint8(f.Flags)
	h[offOpCount] = f.OpCount
	h[offZero] = 0
	binary.BigEndian.PutUint32(h[offNumber:], f.Number)
	binary.BigEndian.PutUint64(h[offConnID:], f.ConnID)
	binary.BigEndian.PutUint32(h[offPSN:], uint32(f.PSN))
	binary.BigEndian.PutUint32(h[CRCOffset:], 0)
}

// PutCRC writes the checksum into the base header at the start of b (PROTOCOL §3.4).
func PutCRC(b []byte, crc uint32) { binary.BigEndian.PutUint32(b[CRCOffset:BaseHeaderLen], crc) }

package wire

import "encoding/binary"

// Offsets of the base header's fields (PROTOCOL §3).
const (
	offVersion = 0 // version and type
	offFlags   = 1
	offMessage = 2
	offNumber  = 4
	offConnID  = 8
	offOffset  = 16
)

// Types of a packet (PROTOCOL §3.1).
const (
	typeControl    = 0
	typeOperations = 1
	typePiece      = 2
)

// BaseHeader is a checked view of a packet's base header (PROTOCOL §3). It aliases the packet. Its length is BaseHeaderLen, so the
// accessors cannot panic.
type BaseHeader []byte

// ParseBaseHeader checks the base header at the start of b, the first fragment of a packet, and returns a view of it. It checks
// length, version, type and reserved bits (PROTOCOL §3.3). It does not check the CRC, which also covers further fragments.
func ParseBaseHeader(b []byte) (BaseHeader, DropReason) {
	if len(b) < BaseHeaderLen {
		return nil, DropShort
	}
	h := BaseHeader(b[:BaseHeaderLen:BaseHeaderLen])
	if h[offVersion]>>4 != Version {
		return nil, DropVersion
	}
	flags := h.Flags()
	if flags&^KnownFlags != 0 {
		return nil, DropReserved
	}
	switch h[offVersion] & 0xf {
	case typeControl: // a control packet has no stream offset; if sealed, its message number is the sender's UDP port
		if h.Message() != 0 && flags&FlagSecure == 0 || h.Offset() != 0 || flags&(FlagEnd|FlagSpace) != 0 {
			return nil, DropReserved
		}
	case typeOperations:
		if flags&FlagEnd != 0 {
			return nil, DropReserved
		}
	case typePiece: // the first segment of a message has an operation header
		if h.Offset() == 0 {
			return nil, DropReserved
		}
	default:
		return nil, DropReserved
	}
	return h, DropNone
}

// IsLong reports whether a datagram that the kernel merged is one long packet, which the receiver must not split (PROTOCOL §11.2).
func IsLong(b []byte) bool { return len(b) > offFlags && Flags(b[offFlags])&FlagLong != 0 }

// Control reports whether this is a control packet, which has no contents (PROTOCOL §3.1).
func (h BaseHeader) Control() bool { return h[offVersion]&0xf == typeControl }

// Piece reports whether the packet is one segment of a message, without operation headers (PROTOCOL §3.1).
func (h BaseHeader) Piece() bool { return h[offVersion]&0xf == typePiece }

// Flags returns the flags (PROTOCOL §3.2).
func (h BaseHeader) Flags() Flags { return Flags(h[offFlags]) }

// Number returns the low 32 bits of the packet number (PROTOCOL §3.1).
func (h BaseHeader) Number() uint32 { return binary.BigEndian.Uint32(h[offNumber:]) }

// Message returns the low 16 bits of the message number of the packet's first content byte. For control packets it is zero (PROTOCOL
// §3.1), or the UDP port on which the sender of a sealed packet receives (PROTOCOL §10.1).
func (h BaseHeader) Message() uint16 { return binary.BigEndian.Uint16(h[offMessage:]) }

// Offset returns the offset of the packet's first content byte in its message, or zero for control packets (PROTOCOL §3.1).
func (h BaseHeader) Offset() uint32 { return binary.BigEndian.Uint32(h[offOffset:]) }

// Space returns the space of the packet's contents (PROTOCOL §3.2).
func (h BaseHeader) Space() Space {
	if h.Flags()&FlagSpace != 0 {
		return ResponseSpace
	}
	return RequestSpace
}

// ConnID returns the receiver's connection id (PROTOCOL §6).
func (h BaseHeader) ConnID() uint64 { return binary.BigEndian.Uint64(h[offConnID:]) }

// Secure reports whether everything behind the header is sealed (PROTOCOL §10.1).
func (h BaseHeader) Secure() bool { return h.Flags()&FlagSecure != 0 }

// Generation returns the key generation of a sealed packet, which lies in place of the checksum (PROTOCOL §10.1).
func (h BaseHeader) Generation() uint32 { return binary.BigEndian.Uint32(h[CRCOffset:]) }

// CRC returns the packet's checksum (PROTOCOL §3.4).
func (h BaseHeader) CRC() uint32 { return binary.BigEndian.Uint32(h[CRCOffset:]) }

// BaseFields are the values that PutBaseHeader encodes (PROTOCOL §3). The version is implied, and PutCRC writes the CRC. If neither
// Operations nor Piece is set, the packet is a control packet.
type BaseFields struct {
	Operations bool
	Piece      bool // one segment of a message, without operation headers
	Flags      Flags
	Message    uint32 // only the low 16 bits are sent
	Number     uint64 // only the low 32 bits are sent
	Offset     uint32
	ConnID     uint64
}

// PutBaseHeader writes the base header with a zero CRC to b[:BaseHeaderLen] (PROTOCOL §3). It panics if b is shorter.
func PutBaseHeader(b []byte, f *BaseFields) {
	h := (*[BaseHeaderLen]byte)(b)
	kind := uint8(typeControl)
	switch {
	case f.Piece:
		kind = typePiece
	case f.Operations:
		kind = typeOperations
	}
	h[offVersion] = Version<<4 | kind
	h[offFlags] = uint8(f.Flags)
	binary.BigEndian.PutUint16(h[offMessage:], uint16(f.Message))
	binary.BigEndian.PutUint32(h[offNumber:], uint32(f.Number))
	binary.BigEndian.PutUint64(h[offConnID:], f.ConnID)
	binary.BigEndian.PutUint32(h[offOffset:], f.Offset)
	binary.BigEndian.PutUint32(h[CRCOffset:], 0)
}

// PutCRC writes the checksum into the base header at the start of b (PROTOCOL §3.4).
func PutCRC(b []byte, crc uint32) { binary.BigEndian.PutUint32(b[CRCOffset:BaseHeaderLen], crc) }

// PutGeneration writes the key generation of a sealed packet into the base header at the start of b (PROTOCOL §10.1).
func PutGeneration(b []byte, generation uint32) { PutCRC(b, generation) }

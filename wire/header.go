package wire

import "encoding/binary"

// Offsets of the base header's fields (PROTOCOL §3).
const (
	offVersion = 0
	offOpCount = 1
	offFlags   = 2
	offPSN     = 4
	offConnID  = 8
	offNext    = 16 // one word per space
	offTxTime  = 24
	offEcho    = 28
)

// BaseHeader is a checked view of a packet's base header (PROTOCOL §3). Its length is BaseHeaderLen, so the accessors
// cannot panic. It aliases the packet.
type BaseHeader []byte

// ParseBaseHeader checks the base header at the start of b, the first fragment of a packet, and returns a view of it.
// It checks length, version and reserved bits (PROTOCOL §3.3), but not the CRC, which covers bytes b may lack.
func ParseBaseHeader(b []byte) (BaseHeader, DropReason) {
	if len(b) < BaseHeaderLen {
		return nil, DropShort
	}
	h := BaseHeader(b[:BaseHeaderLen:BaseHeaderLen])
	if h[offVersion] != Version<<4 {
		if h[offVersion]>>4 != Version {
			return nil, DropVersion
		}
		return nil, DropReserved
	}
	if h.Flags()&^KnownFlags != 0 {
		return nil, DropReserved
	}
	return h, DropNone
}

// OpCount returns the number of operations; 0 means one control message follows (PROTOCOL §3.1).
func (h BaseHeader) OpCount() int { return int(h[offOpCount]) }

// Flags returns the flags (PROTOCOL §3.2).
func (h BaseHeader) Flags() Flags { return Flags(binary.BigEndian.Uint16(h[offFlags:])) }

// PSN returns the packet's number in its space; zero in unsequenced packets (PROTOCOL §3.1).
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

// NextPSN returns the PSN the sender expects next from its peer in the given space (PROTOCOL §3).
func (h BaseHeader) NextPSN(space Space) PSN {
	return PSN(binary.BigEndian.Uint32(h[offNext+4*int(space&1):]))
}

// TxTime returns the sender's clock when it sent the packet, in nanoseconds, low 32 bits (PROTOCOL §3.1).
func (h BaseHeader) TxTime() uint32 { return binary.BigEndian.Uint32(h[offTxTime:]) }

// Echo returns the time echo; zero means that there is no sample (PROTOCOL §3.1).
func (h BaseHeader) Echo() uint32 { return binary.BigEndian.Uint32(h[offEcho:]) }

// CRC returns the packet's checksum (PROTOCOL §3.4).
func (h BaseHeader) CRC() uint32 { return binary.BigEndian.Uint32(h[CRCOffset:]) }

// BaseFields are the values PutBaseHeader encodes (PROTOCOL §3). The version is implied, the CRC follows in PutCRC.
type BaseFields struct {
	OpCount uint8
	Flags   Flags
	PSN     PSN
	ConnID  uint64
	Next    [NumSpaces]PSN // what we expect next from the peer, per space
	TxTime  uint32         // nanoseconds
	Echo    uint32         // nanoseconds
}

// PutBaseHeader writes the base header with a zero CRC to b[:BaseHeaderLen] (PROTOCOL §3); it panics if b is shorter.
func PutBaseHeader(b []byte, f *BaseFields) {
	h := (*[BaseHeaderLen]byte)(b)
	h[offVersion] = Version << 4
	h[offOpCount] = f.OpCount
	binary.BigEndian.PutUint16(h[offFlags:], uint16(f.Flags))
	binary.BigEndian.PutUint32(h[offPSN:], uint32(f.PSN))
	binary.BigEndian.PutUint64(h[offConnID:], f.ConnID)
	binary.BigEndian.PutUint32(h[offNext:], uint32(f.Next[RequestSpace]))
	binary.BigEndian.PutUint32(h[offNext+4:], uint32(f.Next[ResponseSpace]))
	binary.BigEndian.PutUint32(h[offTxTime:], f.TxTime)
	binary.BigEndian.PutUint32(h[offEcho:], f.Echo)
	binary.BigEndian.PutUint32(h[CRCOffset:], 0)
}

// PutCRC writes the checksum into the base header at the start of b (PROTOCOL §3.4).
func PutCRC(b []byte, crc uint32) { binary.BigEndian.PutUint32(b[CRCOffset:BaseHeaderLen], crc) }

package wire

import "encoding/binary"

// Offsets of the fields of an ACK body (PROTOCOL §5.1).
const (
	ackOffLimit      = 0
	ackOffLoad       = 4
	ackOffWords      = 5 // one byte per space
	ackOffFlags      = 7
	ackOffCE         = 8
	ackOffAccepted   = 12
	ackOffDuplicates = 16
)

// Ack is the body of an ACK (PROTOCOL §5.1); the cumulative part of the acknowledgement is in the base header. The
// struct is meant to be reused: only Bitmap[s][:Words[s]] is meaningful, words behind that are left over.
type Ack struct {
	ReceiveLimit uint32 // the SEND number from which on the peer must wait
	Load         uint8  // 0 idle to 255
	Flags        uint8  // AckRNR
	CECount      uint32
	Accepted     uint32
	Duplicates   uint32

	// Bit i, least significant first, says that PSN next+1+i was received, where next is the base header's NextPSN.
	Words  [NumSpaces]int
	Bitmap [NumSpaces][MaxSACKWords]uint64
}

// ParseAck decodes an ACK body into a (PROTOCOL §5.1). On a drop the contents of a are undefined.
func ParseAck(body []byte, a *Ack) DropReason {
	if len(body) < AckBodyLen {
		return DropShort
	}
	h := (*[AckBodyLen]byte)(body)
	request, response := int(h[ackOffWords]), int(h[ackOffWords+1])
	if request > MaxSACKWords || response > MaxSACKWords {
		return DropLength
	}
	if len(body) != AckBodyLen+8*(request+response) {
		return DropLength
	}
	if h[ackOffFlags]&^AckRNR != 0 {
		return DropReserved
	}
	a.ReceiveLimit = binary.BigEndian.Uint32(h[ackOffLimit:])
	a.Load = h[ackOffLoad]
	a.Flags = h[ackOffFlags]
	a.CECount = binary.BigEndian.Uint32(h[ackOffCE:])
	a.Accepted = binary.BigEndian.Uint32(h[ackOffAccepted:])
	a.Duplicates = binary.BigEndian.Uint32(h[ackOffDuplicates:])
	a.Words = [NumSpaces]int{request, response}
	rest := body[AckBodyLen:]
	for s := range a.Words {
		for i := range a.Words[s] {
			a.Bitmap[s][i] = binary.BigEndian.Uint64(rest)
			rest = rest[8:]
		}
	}
	return DropNone
}

// EncodedLen returns the number of bytes Append adds (PROTOCOL §5.1).
func (a *Ack) EncodedLen() int {
	return AckBodyLen + 8*(a.Words[RequestSpace]+a.Words[ResponseSpace])
}

// Append appends the ACK body to dst (PROTOCOL §5.1); it panics if Words is out of range.
func (a *Ack) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, a.ReceiveLimit)
	dst = append(dst, a.Load, uint8(a.Words[RequestSpace]), uint8(a.Words[ResponseSpace]), a.Flags)
	dst = binary.BigEndian.AppendUint32(dst, a.CECount)
	dst = binary.BigEndian.AppendUint32(dst, a.Accepted)
	dst = binary.BigEndian.AppendUint32(dst, a.Duplicates)
	for s := range a.Words {
		for _, w := range a.Bitmap[s][:a.Words[s]] {
			dst = binary.BigEndian.AppendUint64(dst, w)
		}
	}
	return dst
}

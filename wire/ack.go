package wire

import "encoding/binary"

// Lengths of the blocks between the base header and the contents of a packet (PROTOCOL §3.5).
const (
	ackLen      = 12 // with one range
	ackRangeLen = 8
)

// Ack is the ACK block (PROTOCOL §3.5): packet numbers that were received. Callers reuse the struct, so only Ranges[:N] is valid.
type Ack struct {
	Largest uint32 // low 32 bits of the largest number received
	Delay   uint16 // how long the receiver held this packet, in units of 256 ns; AckDelayUnknown if unknown
	Flags   AckFlags
	N       int // at least 1
	Ranges  [MaxAckRanges]AckRange
}

// AckRange are the received numbers from Largest-Last to Largest-First. The first range of a block begins with First zero. Each
// further range is at least two numbers below the previous one, so that ranges neither overlap nor touch.
type AckRange struct{ First, Last uint32 }

// maxAckSpan bounds the distance between the largest and the lowest number of a block. Beyond it, low 32 bits do not distinguish
// lower numbers from higher ones.
const maxAckSpan = 1 << 31

// ContentOffset returns where the contents of a packet or its control message begin: behind the blocks that its flags announce
// (PROTOCOL §3.5). first is the first fragment, whose base header was accepted by ParseBaseHeader. All blocks must lie in it.
func ContentOffset(first []byte) (at int, d DropReason) {
	at = BaseHeaderLen
	flags := Flags(first[offFlags])
	if flags&FlagAck != 0 {
		if len(first) < at+ackLen {
			return 0, DropShort
		}
		further := int(first[at+6])
		if further >= MaxAckRanges {
			return 0, DropAckRange
		}
		at += ackLen + further*ackRangeLen
	}
	if flags&FlagReport != 0 {
		at += ReportLen
	}
	if len(first) < at {
		return 0, DropShort
	}
	return at, DropNone
}

// ParseAck decodes the ACK block at the start of b into a (PROTOCOL §3.5). ContentOffset has checked that b contains it. On a drop
// the contents of a are undefined.
func ParseAck(b []byte, a *Ack) (rest []byte, d DropReason) {
	a.Largest = binary.BigEndian.Uint32(b)
	a.Delay = binary.BigEndian.Uint16(b[4:])
	a.N = 1 + int(b[6])
	a.Flags = AckFlags(b[7])
	if a.Flags&^knownAckFlags != 0 {
		return nil, DropReserved
	}
	last := uint64(binary.BigEndian.Uint32(b[8:]))
	a.Ranges[0] = AckRange{0, uint32(last)}
	b = b[ackLen:]
	for i := 1; i < a.N; i++ {
		first := last + 2 + uint64(binary.BigEndian.Uint32(b))
		last = first + uint64(binary.BigEndian.Uint32(b[4:]))
		if last >= maxAckSpan {
			return nil, DropAckRange
		}
		a.Ranges[i] = AckRange{uint32(first), uint32(last)}
		b = b[ackRangeLen:]
	}
	if last >= maxAckSpan {
		return nil, DropAckRange
	}
	return b, DropNone
}

// Append appends the ACK block to dst (PROTOCOL §3.5).
func (a *Ack) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, a.Largest)
	dst = binary.BigEndian.AppendUint16(dst, a.Delay)
	dst = append(dst, uint8(a.N-1), uint8(a.Flags))
	dst = binary.BigEndian.AppendUint32(dst, a.Ranges[0].Last)
	for i := 1; i < a.N; i++ {
		r := a.Ranges[i]
		dst = binary.BigEndian.AppendUint32(dst, r.First-a.Ranges[i-1].Last-2)
		dst = binary.BigEndian.AppendUint32(dst, r.Last-r.First)
	}
	return dst
}

// Report is the REPORT block (PROTOCOL §3.6): the receiver's state beside the received packet numbers.
type Report struct {
	ReceiveLimit uint32 // number of the first SEND that the peer may not send yet
	Message      uint16 // with ReportTakenBack: low bits of the next message in the request space
	Offset       uint32 // with ReportTakenBack: next offset in this message
	UpTo         uint32 // with ReportTakenBack: contents from this stream offset on, in packets up to this number, do not count as received
	Load         uint8  // 0 (idle) to 255
	Flags        ReportFlags
	CECount      uint32 // received packets with a congestion mark
}

// ParseReport decodes the REPORT block at the start of b into r (PROTOCOL §3.6). ContentOffset has checked that b contains it.
func ParseReport(b []byte, r *Report) DropReason {
	h := (*[ReportLen]byte)(b)
	*r = Report{
		ReceiveLimit: binary.BigEndian.Uint32(h[:]),
		Message:      binary.BigEndian.Uint16(h[14:]),
		Offset:       binary.BigEndian.Uint32(h[4:]),
		UpTo:         binary.BigEndian.Uint32(h[8:]),
		Load:         h[12],
		Flags:        ReportFlags(h[13]),
		CECount:      binary.BigEndian.Uint32(h[16:]),
	}
	if r.Flags&^knownReportFlags != 0 {
		return DropReserved
	}
	if taken := r.Flags&ReportTakenBack != 0; !taken && (r.Flags&ReportRNR != 0 || r.Message != 0 || r.Offset != 0 || r.UpTo != 0) {
		return DropReserved
	}
	return DropNone
}

// Append appends the REPORT block to dst (PROTOCOL §3.6).
func (r *Report) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, r.ReceiveLimit)
	dst = binary.BigEndian.AppendUint32(dst, r.Offset)
	dst = binary.BigEndian.AppendUint32(dst, r.UpTo)
	dst = append(dst, r.Load, uint8(r.Flags))
	dst = binary.BigEndian.AppendUint16(dst, r.Message)
	return binary.BigEndian.AppendUint32(dst, r.CECount)
}

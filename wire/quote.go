package wire

import "encoding/binary"

// ParseQuotedPacket decodes the beginning of an ND packet, which an ICMP error quotes: the receiver's connection id, and the low 32
// bits of the packet number. The values are not authenticated, because the quote is too short for the checksum.
func ParseQuotedPacket(b []byte) (connID uint64, number uint32, ok bool) {
	h, d := ParseBaseHeader(b)
	if d != DropNone || h.ConnID() == 0 {
		return 0, 0, false
	}
	return h.ConnID(), h.Number(), true
}

// Quote is the part of a REQ or RST that an ICMP error quotes. Fields behind the end of the quote are missing.
type Quote struct {
	ConnID, Nonce       uint64 // see ParseQuote
	HasConnID, HasNonce bool
}

// ParseQuote decodes the beginning of an ND packet, which may be cut off anywhere, even before its first byte. ok: it may be a REQ,
// or an RST of a side that gives up its attempt to connect. The values are not authenticated, because the quote is too short for
// the checksum.
func ParseQuote(b []byte) (q Quote, ok bool) {
	head := [offOffset + 4]byte{offVersion: Version<<4 | typeControl} // both are control packets with a zero connection id
	for i, c := range b[:min(len(b), len(head))] {
		if c != head[i] && i&^3 != offNumber {
			return q, false
		}
	}
	if len(b) <= ControlOffset {
		return q, true
	}
	op := Opcode(b[ControlOffset])
	if op != CtlREQ && op != CtlRST {
		return q, false
	}
	body := b[min(len(b), ControlOffset+ControlHeaderLen):]
	if q.HasConnID = len(body) >= helloOffConnID+8; q.HasConnID {
		q.ConnID = binary.BigEndian.Uint64(body[helloOffConnID:])
	}
	if q.HasNonce = op == CtlREQ && len(body) >= helloOffNonce+8; q.HasNonce {
		q.Nonce = binary.BigEndian.Uint64(body[helloOffNonce:])
	}
	return q, true
}

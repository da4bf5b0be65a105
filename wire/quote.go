package wire

import "encoding/binary"

// ParseQuotedPacket decodes the beginning of an ND packet of a connection that an ICMP error quotes: the receiver's connection id, and the low
// 32 bits of the packet number. Nothing in it is certain: the checksum covers bytes that are not there.
func ParseQuotedPacket(b []byte) (connID uint64, number uint32, ok bool) {
	h, d := ParseBaseHeader(b)
	if d != DropNone || h.ConnID() == 0 {
		return 0, 0, false
	}
	return h.ConnID(), h.Number(), true
}

// Quote is the part of a REQ or RST that an ICMP error quotes. An ICMP error repeats the beginning of its packet; fields behind the end of
// the quote are missing.
type Quote struct {
	ConnID, Nonce       uint64 // valid as said below
	HasConnID, HasNonce bool
}

// ParseQuote decodes the beginning of an ND packet, which may be cut off anywhere, even before its first byte. ok says whether it may be a
// packet that begins or ends an attempt to connect: REQ, or RST from the side that gives up. Nothing in it is certain, because the checksum
// covers bytes that are missing.
func ParseQuote(b []byte) (q Quote, ok bool) {
	head := [offOffset + 4]byte{offVersion: Version<<4 | typeControl} // both are control packets, for a connection without an id
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

package wire

import "testing"

// The connection id and nonce of a quoted packet.
const quotedID, quotedNonce = 0x1122334455667788, 0x99aabbccddeeff00

// quotedPacket returns the beginning of a packet with a control message.
func quotedPacket(op Opcode) []byte {
	b := make([]byte, ControlOffset+ControlHeaderLen, MinPacket)
	PutBaseHeader(b, &BaseFields{Number: 77})
	PutControl(b[ControlOffset:], op, 0, HelloLen)
	h := Hello{ConnID: quotedID, Nonce: quotedNonce}
	return h.Append(b)
}

// TestParseQuote truncates a REQ at every length: complete fields are returned, and no others.
func TestParseQuote(t *testing.T) {
	const body = ControlOffset + ControlHeaderLen
	whole := quotedPacket(CtlREQ)
	for n := range whole {
		want := Quote{}
		if n >= body+8 {
			want.ConnID, want.HasConnID = quotedID, true
		}
		if n >= body+16 {
			want.Nonce, want.HasNonce = quotedNonce, true
		}
		if q, ok := ParseQuote(whole[:n]); !ok || q != want {
			t.Errorf("%d bytes: %+v, %t, want %+v", n, q, ok, want)
		}
	}
	if q, ok := ParseQuote(quotedPacket(CtlRST)); !ok || q != (Quote{ConnID: quotedID, HasConnID: true}) {
		t.Errorf("RST: %+v, %t", q, ok)
	}
	for op := range 256 {
		if _, ok := ParseQuote(quotedPacket(Opcode(op))); ok != (Opcode(op) == CtlREQ || Opcode(op) == CtlRST) {
			t.Errorf("opcode %#x: %t", op, ok)
		}
	}
	for i := range offOffset + 4 { // each byte that is equal in every REQ
		changed := quotedPacket(CtlREQ)
		changed[i] ^= 0x10
		if _, ok := ParseQuote(changed[:i+1]); ok != (i&^3 == offNumber) {
			t.Errorf("byte %d changed: %t", i, ok)
		}
	}
}

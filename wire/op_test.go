package wire

import (
	"bytes"
	"testing"
)

// opCase is an encoded operation and the expected result of parsing it.
type opCase struct {
	name  string
	b     []byte
	space Space
	want  DropReason
}

func checkOpDrops(t *testing.T, cases []opCase) {
	t.Helper()
	for _, c := range cases {
		var o Op
		n, got := ParseOp(c.b, c.space, &o)
		if got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		if got == DropNone && n != OpLen(o.Opcode, o.Flags) {
			t.Errorf("%s: header of %d bytes", c.name, n)
		}
	}
}

// opsOf returns the contents of a test packet from an offset on.
func opsOf(name string, from int) []byte {
	b := packetNamed(name)
	at, _ := ContentOffset(b)
	return b[at+from:]
}

// TestParseWriteDrops covers the rules of PROTOCOL §4 for every operation, and those for a WRITE.
func TestParseWriteDrops(t *testing.T) {
	write, writeOf := opsOf("write", 0), opsOf("write_of", 24)
	checkOpDrops(t, []opCase{
		{"empty", nil, RequestSpace, DropShort},
		{"three bytes", write[:3], RequestSpace, DropShort},
		{"opcode 0", edited(write, 0, 0), RequestSpace, DropOpcode},
		{"opcode 9", edited(write, 0, 9), RequestSpace, DropOpcode},
		{"control opcode", edited(write, 0, byte(CtlPing)), RequestSpace, DropOpcode},

		{"write", write, RequestSpace, DropNone},
		{"write header only", write[:16], RequestSpace, DropNone},
		{"write cut", write[:15], RequestSpace, DropShort},
		{"write of nothing", edited(write, 2, 0, 0), RequestSpace, DropNone},
		{"write as response", write, ResponseSpace, DropOpSpace},
		{"write solicited", edited(write, 1, 0x06), RequestSpace, DropReserved},
		{"write with flag 0x01", edited(write, 1, 0x03), RequestSpace, DropReserved},
		{"unknown flag", edited(write, 1, 0x0a), RequestSpace, DropReserved},
		{"write that goes on", writeOf, RequestSpace, DropNone},
		{"write that goes on, header only", writeOf[:20], RequestSpace, DropNone},
		{"write that goes on, cut", writeOf[:19], RequestSpace, DropShort},
		{"write that goes on as LAST", edited(writeOf, 1, 0x02), RequestSpace, DropNone}, // the other header is shorter, so the total length becomes payload
		{"write that goes on, solicited", edited(writeOf, 1, 0x04), RequestSpace, DropReserved},
		{"write that goes on to its own length", edited(writeOf, 16, 0, 0, 0, 15), RequestSpace, DropLength},
		{"write that goes on to less", edited(writeOf, 16, 0, 0, 0, 14), RequestSpace, DropLength},
		{"write that goes on by a byte", edited(writeOf, 16, 0, 0, 0, 16), RequestSpace, DropNone},
		{"write that goes on from nothing", edited(writeOf, 2, 0, 0), RequestSpace, DropLength},
	})
}

// TestParseSendDrops covers the rules of PROTOCOL §4 for a SEND of each kind.
func TestParseSendDrops(t *testing.T) {
	send, inv, imm := opsOf("sends", 0), opsOf("sends", 24), opsOf("sends", 40)
	checkOpDrops(t, []opCase{
		{"send", send, RequestSpace, DropNone},
		{"send cut", send[:15], RequestSpace, DropShort},
		{"send as response", send, ResponseSpace, DropOpSpace},
		{"send of nothing", edited(edited(send, 2, 0, 0), 8, 0, 0, 0, 0), RequestSpace, DropNone},
		{"send not solicited", edited(send, 1, 0x02), RequestSpace, DropNone},
		{"send zero word", edited(send, 15, 1), RequestSpace, DropReserved},
		{"send that is LAST before its end", edited(send, 11, 4), RequestSpace, DropLength},
		{"send beyond its total", edited(send, 11, 2), RequestSpace, DropLength},
		{"send that is whole and not LAST", edited(send, 1, 0x04), RequestSpace, DropLength},
		{"send that goes on", edited(edited(send, 1, 0), 11, 4), RequestSpace, DropNone},
		{"send that goes on, solicited", edited(edited(send, 1, 0x04), 11, 4), RequestSpace, DropNone},
		{"send that goes on from nothing", edited(edited(send, 1, 0, 0, 0), 11, 4), RequestSpace, DropLength},
		{"send_inv", inv, RequestSpace, DropNone},
		{"send_imm that goes on", imm, RequestSpace, DropNone},
		{"send_imm LAST before its end", edited(imm, 1, 0x06), RequestSpace, DropLength},
		{"send_imm zero", edited(imm, 12, 0, 0, 0, 0), RequestSpace, DropNone},
		{"send_imm total of 32 bits", edited(imm, 8, 0xff, 0xff, 0xff, 0xff), RequestSpace, DropNone},
	})
}

// TestParseReadDrops covers the rules of PROTOCOL §4 for both ways of a READ.
func TestParseReadDrops(t *testing.T) {
	read, resp := opsOf("read_req", 0), opsOf("read_resp", 0)
	checkOpDrops(t, []opCase{
		{"read", read, RequestSpace, DropNone},
		{"read cut", read[:23], RequestSpace, DropShort},
		{"read as response", read, ResponseSpace, DropOpSpace},
		{"read not last", edited(read, 1, 0), RequestSpace, DropReserved},
		{"read solicited", edited(read, 1, 0x06), RequestSpace, DropReserved},
		{"read with payload", edited(read, 3, 1), RequestSpace, DropLength},
		{"read of nothing", edited(read, 16, 0, 0, 0, 0), RequestSpace, DropNone},

		{"response", resp, ResponseSpace, DropNone},
		{"response cut", resp[:7], ResponseSpace, DropShort},
		{"response as request", resp, RequestSpace, DropOpSpace},
		{"response solicited", edited(resp, 1, 0x04), ResponseSpace, DropReserved},
		{"response LAST before its end", edited(resp, 1, 0x02), ResponseSpace, DropLength},
		{"response whole", edited(edited(resp, 1, 0x02), 4, 0, 0, 0, 8), ResponseSpace, DropNone},
		{"response whole and not LAST", edited(resp, 4, 0, 0, 0, 8), ResponseSpace, DropLength},
		{"response beyond its total", edited(resp, 4, 0, 0, 0, 7), ResponseSpace, DropLength},
		{"response that goes on from nothing", edited(resp, 2, 0, 0), ResponseSpace, DropLength},
		{"response of nothing", edited(resp, 1, 0x02, 0, 0, 0, 0, 0, 0), ResponseSpace, DropNone},
	})
}

// TestParseTermAndMoreDrops covers the rules of PROTOCOL §4 for TERM and MORE.
func TestParseTermAndMoreDrops(t *testing.T) {
	term, more := opsOf("term", 0), opsOf("more", 0)
	checkOpDrops(t, []opCase{
		{"term", term, ResponseSpace, DropNone},
		{"term cut", term[:11], ResponseSpace, DropShort},
		{"term as request", term, RequestSpace, DropOpSpace},
		{"term not last", edited(term, 1, 0), ResponseSpace, DropReserved},
		{"term zero byte", edited(term, 7, 1), ResponseSpace, DropReserved},
		{"term with payload", edited(term, 3, 1), ResponseSpace, DropLength},

		{"more", more, RequestSpace, DropNone},
		{"more header only", more[:4], RequestSpace, DropNone},
		{"more of a response", more, ResponseSpace, DropNone},
		{"more that goes on", edited(more, 1, 0), RequestSpace, DropNone},
		{"more of nothing", edited(more, 2, 0, 0), RequestSpace, DropLength},
		{"more of nothing that goes on", edited(more, 1, 0, 0, 0), RequestSpace, DropLength},
		{"more solicited", edited(more, 1, 0x06), RequestSpace, DropReserved},
		{"more with an unknown flag", edited(more, 1, 0x12), RequestSpace, DropReserved},
	})
}

// TestParseOpClears checks that a reused Op keeps nothing of the operation before (PROTOCOL §4).
func TestParseOpClears(t *testing.T) {
	o := Op{Message: 1, Offset: 2, FailedOp: 3, Reason: 4, Number: 5, Total: 6, Imm: 7}
	b := packetNamed("write")[BaseHeaderLen:]
	want, _ := oracleReadOp(b)
	if _, r := ParseOp(b, RequestSpace, &o); r != DropNone || o != want {
		t.Errorf("%v, %+v", r, o)
	}
}

// TestPutOpIgnoresForeignFields: reserved bits are zero whatever values a reused Op still has (PROTOCOL §3.3, §4).
func TestPutOpIgnoresForeignFields(t *testing.T) {
	for o := OpWrite; o <= OpMore; o++ {
		for _, flags := range []OpFlags{0, OpLast} {
			dirty := Op{
				Opcode: o, Flags: flags, Length: 8, Message: ^uint32(0), Offset: ^uint32(0), Address: ^uint64(0), Token: ^uint32(0),
				Number: ^uint32(0), Total: 8, Imm: ^uint32(0), Reason: ^TermReason(0), FailedOp: ^Opcode(0),
			}
			whole := o == OpReadReq || o == OpTerm
			switch {
			case whole && flags == 0:
				continue
			case whole:
				dirty.Length = 0
			case flags == 0:
				dirty.Total = 9
			}
			b := bytes.Repeat([]byte{0xff}, MaxOpHeader)
			n := PutOp(b, &dirty)
			var got Op
			if length, d := ParseOp(b, o.Space(), &got); d != DropNone || length != n {
				t.Errorf("%v: %v, % x", o, d, b[:n])
			}
			if !bytes.Equal(b[n:], bytes.Repeat([]byte{0xff}, len(b)-n)) {
				t.Errorf("%v: wrote behind its %d bytes", o, n)
			}
		}
	}
	for _, o := range []Opcode{0, OpMore + 1, CtlPing} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("PutOp of opcode %#x did not panic", uint8(o))
				}
			}()
			PutOp(make([]byte, 64), &Op{Opcode: o})
		}()
	}
}

// TestPutWriteIsPutOp: both functions write the same header of a WRITE in one segment (PROTOCOL §4).
func TestPutWriteIsPutOp(t *testing.T) {
	for _, n := range []uint16{0, 1, 64, 0xff00, 0xffff} {
		op := Op{Opcode: OpWrite, Flags: OpLast, Length: n, Total: uint32(n), Address: 0x8182838485868788, Token: 0x91929394}
		want, got := make([]byte, WriteLen), bytes.Repeat([]byte{0xff}, WriteLen)
		PutOp(want, &op)
		PutWrite(got, op.Address, op.Token, n)
		if !bytes.Equal(got, want) {
			t.Errorf("% x, want % x", got, want)
		}
	}
}

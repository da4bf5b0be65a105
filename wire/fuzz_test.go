package wire

import (
	"bytes"
	"reflect"
	"testing"
)

// Every fuzz target checks three properties for arbitrary bytes: there is no panic, the oracle agrees, and the encoder produces the
// accepted bytes again, because every value has exactly one encoding (PROTOCOL §3.3).

// FuzzParseBaseHeader covers PROTOCOL §3.
func FuzzParseBaseHeader(f *testing.F) {
	for _, p := range testPackets() {
		f.Add(p.encode()[:BaseHeaderLen])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, r := ParseBaseHeader(b)
		if r != DropNone {
			return
		}
		fields, crc := oracleReadBase(b)
		if got := fieldsOf(h); got != fields || h.CRC() != crc {
			t.Fatalf("parsed %+v, oracle read %+v", got, fields)
		}
		out := make([]byte, BaseHeaderLen)
		PutBaseHeader(out, &fields)
		PutCRC(out, crc)
		if !bytes.Equal(out, h) {
			t.Fatalf("% x became % x", h, out)
		}
	})
}

// FuzzParseOps walks operations as the engine does (PROTOCOL §4).
func FuzzParseOps(f *testing.F) {
	for _, p := range testPackets() {
		if len(p.ops) > 0 {
			at, _ := ContentOffset(p.encode())
			f.Add(p.encode()[at:], uint8(p.space()))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, space uint8) {
		for {
			var op Op
			n, d := ParseOp(b, Space(space), &op)
			if d != DropNone {
				return
			}
			if want, length := oracleReadOp(b); op != want || n != length {
				t.Fatalf("parsed %+v of %d bytes, oracle read %+v of %d", op, n, want, length)
			}
			checkOpRules(t, &op, Space(space))
			out := make([]byte, MaxOpHeader)
			if out = out[:PutOp(out, &op)]; !bytes.Equal(out, b[:n]) {
				t.Fatalf("% x became % x", b[:n], out)
			}
			if n = (n + int(op.Length) + OpAlign - 1) &^ (OpAlign - 1); n > len(b) {
				return
			}
			b = b[n:]
		}
	})
}

// checkOpRules checks the rules that every accepted operation must respect, whatever its opcode (PROTOCOL §4).
func checkOpRules(t *testing.T, op *Op, space Space) {
	t.Helper()
	last, response := op.Flags&OpLast != 0, op.Opcode == OpReadResp || op.Opcode == OpTerm
	switch {
	case op.Opcode != OpMore && response != (space == ResponseSpace):
		t.Fatalf("%v in the %v space", op.Opcode, space)
	case !last && op.Length == 0:
		t.Fatalf("%+v is empty without LAST", op)
	case op.Opcode == OpReadReq, op.Opcode == OpTerm, op.Opcode == OpMore:
	case last != (uint32(op.Length) == op.Total) || uint32(op.Length) > op.Total:
		t.Fatalf("%+v: LAST disagrees with length and total", op)
	}
	if op.Message != 0 || op.Offset != 0 {
		t.Fatalf("%+v has an offset", op)
	}
}

// FuzzParseControl covers PROTOCOL §5 with every body.
func FuzzParseControl(f *testing.F) {
	for _, p := range testPackets() {
		if p.opcode != 0 {
			f.Add(p.encode())
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, r := ParseBaseHeader(b); r != DropNone {
			return
		}
		at, r := ContentOffset(b)
		if r != DropNone {
			return
		}
		c, r := ParseControl(b, at, len(b))
		if r != DropNone || c.Opcode == 0 {
			return
		}
		out := make([]byte, len(b)) // the padding is zero
		copy(out, b[:at])
		PutControl(out[at:], c.Opcode, c.Flags, len(c.Body))
		copy(out[at+ControlHeaderLen:], c.Body)
		if !bytes.Equal(out, b) {
			t.Fatalf("% x became % x", b, out)
		}
		body, r := parseTestBody(&c)
		if r != DropNone {
			return
		}
		if _, _, want := oracleReadControl(b[at:]); !reflect.DeepEqual(body, want) {
			t.Fatalf("parsed %+v, oracle read %+v", body, want)
		}
		checkBodyIdentity(t, c.Opcode, c.Body, body)
	})
}

func checkBodyIdentity(t *testing.T, op Opcode, in []byte, body any) {
	t.Helper()
	want := append([]byte{}, in...)
	if op == CtlREQ || op == CtlREP {
		if h := body.(Hello); h.Grease.Type != 0 && (h.Grease.Type < ItemGrease || len(h.Grease.Value) > MaxGrease) || len(h.Fragment.Bytes) > 0 && (len(h.Private) > 0 || len(h.Fragment.Bytes) > MaxHelloBytes) || len(in) != h.EncodedLen() {
			return // items of another implementation
		}
	}
	if got := appendTestBody(nil, body); !bytes.Equal(got, want) {
		t.Fatalf("% x became % x", want, got)
	}
}

// FuzzParseBlocks covers PROTOCOL §3.5 and §3.6.
func FuzzParseBlocks(f *testing.F) {
	for _, p := range testPackets() {
		if p.ack != nil || p.report != nil {
			f.Add(p.encode())
		}
	}
	most := Ack{N: MaxAckRanges}
	for i := range most.Ranges {
		most.Ranges[i] = AckRange{uint32(2 * i), uint32(2 * i)}
	}
	f.Add((&testPacket{ack: &most}).encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		h, d := ParseBaseHeader(b)
		if d != DropNone {
			return
		}
		at, d := ContentOffset(b)
		if d != DropNone {
			return
		}
		rest, r, out := b[BaseHeaderLen:], bytes.NewReader(b[BaseHeaderLen:at]), []byte(nil)
		if h.Flags()&FlagAck != 0 {
			var a Ack
			if rest, d = ParseAck(rest, &a); d != DropNone {
				return
			}
			if want := oracleReadAck(r); a != want {
				t.Fatalf("parsed %+v, oracle read %+v", a, want)
			}
			for i := 1; i < a.N; i++ {
				if a.Ranges[i].First < a.Ranges[i-1].Last+2 || a.Ranges[i].Last < a.Ranges[i].First || a.Ranges[i].Last >= maxAckSpan {
					t.Fatalf("ranges %+v", a.Ranges[:a.N])
				}
			}
			out = a.Append(out)
			if want := ackLen + (a.N-1)*ackRangeLen; len(out) != want {
				t.Fatalf("%d bytes, want %d", len(out), want)
			}
		}
		if h.Flags()&FlagReport != 0 {
			var v Report
			if ParseReport(rest, &v) != DropNone {
				return
			}
			if want := oracleReadReport(r); v != want {
				t.Fatalf("parsed %+v, oracle read %+v", v, want)
			}
			out = v.Append(out)
		}
		if !bytes.Equal(out, b[BaseHeaderLen:at]) {
			t.Fatalf("% x became % x", b[BaseHeaderLen:at], out)
		}
	})
}

// FuzzParseHello covers PROTOCOL §7.1.
func FuzzParseHello(f *testing.F) {
	h := testHello()
	f.Add(h.Append(nil))
	h.Cookie = make([]byte, CookieLen)
	f.Add(h.Append(nil))
	f.Add(appendItem(h.Append(nil), Item{0xffff, nil})) // two unknown items
	f.Add(appendItem(h.Append(nil), Item{ItemCookie, h.Cookie}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var h Hello
		if ParseHello(b, &h) != DropNone {
			return
		}
		if want := oracleReadHello(bytes.NewReader(b)); !reflect.DeepEqual(h, want) {
			t.Fatalf("parsed %+v, oracle read %+v", h, want)
		}
		if len(b) < h.EncodedLen() {
			t.Fatalf("%d bytes, announced %d", len(b), h.EncodedLen())
		}
		checkBodyIdentity(t, CtlREQ, b, h)
	})
}

// FuzzParseFrame covers PROTOCOL §2. A frame has fields that are not kept (TTL, priority), so the test compares the parsed values
// of the frame and of its encoding.
func FuzzParseFrame(f *testing.F) {
	for _, frame := range frameCases() {
		f.Add(frame, uint16(0))
	}
	f.Fuzz(func(t *testing.T, first []byte, beyond uint16) {
		total := len(first) + int(beyond)
		var got Frame
		if ParseFrame(first, total, &got) != DropNone {
			return
		}
		if got.Offset > len(first) || got.Length < 0 || got.Offset+got.Length > total || got.Src.Is4() != got.Dst.Is4() {
			t.Fatalf("%+v out of a frame of %d and %d", got, len(first), total)
		}
		payload := make([]byte, got.Length)
		copy(payload, first[got.Offset:])
		frame := testFrame(got.Src, got.Dst, ECT0, payload)
		var again Frame
		if r := ParseFrame(frame, len(frame), &again); r != DropNone {
			t.Fatalf("%+v rebuilt: %v", got, r)
		}
		checkChecksums(t, frame, &again)
		if again.Src != got.Src || again.Dst != got.Dst || again.Length != got.Length {
			t.Fatalf("%+v became %+v", got, again)
		}
	})
}

// FuzzParseParams covers the transport parameters of PROTOCOL §10.2.
func FuzzParseParams(f *testing.F) {
	p := testParams()
	f.Add(p.Append(nil))
	f.Add(make([]byte, ParamsLen))
	f.Fuzz(func(t *testing.T, b []byte) {
		var p Params
		if ParseParams(b, &p) == DropNone && !bytes.Equal(p.Append(nil), b) {
			t.Fatalf("% x became % x", b, p.Append(nil))
		}
	})
}

package wire

import (
	"bytes"
	"reflect"
	"testing"
)

// Every target proves three things about whatever bytes arrive: no panic, agreement with the oracle, and that accepted
// bytes are the ones the encoder produces (PROTOCOL §3.3: there is no second encoding of anything).

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
			f.Add(p.encode()[BaseHeaderLen:], uint8(p.ops[0].Opcode.Space()))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, space uint8) {
		for {
			var op Op
			if ParseOp(b, Space(space), &op) != DropNone {
				return
			}
			if want := oracleReadOp(b); op != want {
				t.Fatalf("parsed %+v, oracle read %+v", op, want)
			}
			n := OpHeaderLen
			if op.Opcode == OpReadReq {
				n += ReadReqPayloadLen
			}
			out := make([]byte, n)
			PutOp(out, &op)
			if !bytes.Equal(out, b[:n]) {
				t.Fatalf("% x became % x", b[:n], out)
			}
			if opSize(int(op.Length)) > len(b) {
				return
			}
			b = b[opSize(int(op.Length)):]
		}
	})
}

// FuzzParseControl covers PROTOCOL §5 with every body.
func FuzzParseControl(f *testing.F) {
	for _, p := range testPackets() {
		if len(p.ops) == 0 {
			f.Add(p.encode())
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, r := ParseBaseHeader(b); r != DropNone {
			return
		}
		c, r := ParseControl(b, len(b))
		if r != DropNone {
			return
		}
		out := make([]byte, len(b)) // the padding is zero
		copy(out, b[:BaseHeaderLen])
		PutControl(out[ControlOffset:], c.Opcode, c.Flags, len(c.Body))
		copy(out[ControlOffset+ControlHeaderLen:], c.Body)
		if !bytes.Equal(out, b) {
			t.Fatalf("% x became % x", b, out)
		}
		body, r := parseTestBody(&c)
		if r != DropNone {
			return
		}
		if _, _, want := oracleReadControl(b); !reflect.DeepEqual(body, want) {
			t.Fatalf("parsed %+v, oracle read %+v", body, want)
		}
		checkBodyIdentity(t, c.Opcode, c.Body, body)
	})
}

func checkBodyIdentity(t *testing.T, op Opcode, in []byte, body any) {
	t.Helper()
	want := append([]byte{}, in...)
	if op == CtlREQ || op == CtlREP {
		for _, reserved := range []int{26, 27, 34, 35} { // they are ignored (PROTOCOL §3.3, §7.1)
			want[reserved] = 0
		}
		if h := body.(Hello); h.Grease.Type != 0 && (h.Grease.Type < ItemGrease || len(h.Grease.Value) > MaxGrease) || len(in) != h.EncodedLen() {
			return // items that somebody else may send
		}
	}
	if got := appendTestBody(nil, body); !bytes.Equal(got, want) {
		t.Fatalf("% x became % x", want, got)
	}
}

// FuzzParseAck covers PROTOCOL §5.1.
func FuzzParseAck(f *testing.F) {
	a := testAck()
	f.Add(a.Append(nil))
	a.Words = [2]int{MaxSACKWords, MaxSACKWords}
	f.Add(a.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var a Ack
		if ParseAck(b, &a) != DropNone {
			return
		}
		if want := oracleReadAck(bytes.NewReader(b)); a != want {
			t.Fatalf("parsed %+v, oracle read %+v", a, want)
		}
		if len(b) != a.EncodedLen() {
			t.Fatalf("%d bytes, announced %d", len(b), a.EncodedLen())
		}
		checkBodyIdentity(t, CtlAck, b, a)
	})
}

// FuzzParseHello covers PROTOCOL §7.1.
func FuzzParseHello(f *testing.F) {
	h := testHello()
	f.Add(h.Append(nil))
	h.Cookie = make([]byte, CookieLen)
	f.Add(h.Append(nil))
	f.Add(appendItem(h.Append(nil), Item{0xffff, nil})) // two that are unknown
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

// FuzzParseFrame covers PROTOCOL §2. A frame has fields we do not keep (TTL, priority), so the identity is that of the
// parsed value, through the template and back.
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

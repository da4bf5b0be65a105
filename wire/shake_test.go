package wire

import (
	"bytes"
	"testing"
)

func testParams() Params {
	return Params{
		ConnID: 0x0102030405060708, PeerID: 0x090a0b0c0d0e0f10, Nonce: 0x1112131415161718, SrcPort: 0x2122, DstPort: 0x2324,
		UDPPort: 0x2526, BulkPort: 0xb1b2, Features: FeatureECT | FeatureSecure, MinVersion: 3, MaxVersion: 4, Window: 0x00a00000, MaxPacket: 65507,
	}
}

// The transport parameters are the bytes of PROTOCOL §10.2, and come back from them.
func TestParams(t *testing.T) {
	p := testParams()
	b := p.Append(nil)
	want := "NDX3" + "\x01\x02\x03\x04\x05\x06\x07\x08" + "\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10" + "\x11\x12\x13\x14\x15\x16\x17\x18" +
		"\x21\x22\x23\x24\x25\x26\xb1\xb2" + "\x00\x00\x00\x09\x03\x04\x00\x00" + "\x00\xa0\x00\x00\x00\x00\xff\xe3"
	if string(b) != want || len(b) != ParamsLen {
		t.Errorf("encoded % x", b)
	}
	var got Params
	if d := ParseParams(b, &got); d != DropNone || got != p {
		t.Errorf("parsed %+v (%v)", got, d)
	}
	for name, c := range map[string]struct {
		b    []byte
		want DropReason
	}{
		"cut": {b[:ParamsLen-1], DropLength}, "longer": {append(bytes.Clone(b), 0), DropLength}, "empty": {nil, DropLength},
		"another magic": {edited(b, 3, '2'), DropControl}, "reserved": {edited(b, 43, 1), DropReserved},
	} {
		if d := ParseParams(c.b, &got); d != c.want {
			t.Errorf("%s: %v, want %v", name, d, c.want)
		}
	}
}

// A SHAKE has one level, known offsets, and no reserved bits.
func TestParseShakeDrops(t *testing.T) {
	m := Shake{ConnID: 1, Nonce: 2, UDPPort: 3, Level: ShakeHandshake, Offset: 4, Total: 10, Bytes: []byte("123456")}
	ok := m.Append(nil)
	empty := (&Shake{ConnID: 1, UDPPort: 3}).Append(nil)
	for _, c := range []struct {
		name string
		b    []byte
		want DropReason
	}{
		{"ok", ok, DropNone},
		{"without bytes", empty, DropNone},
		{"cut", ok[:27], DropShort},
		{"no id", edited(ok, 0, 0, 0, 0, 0, 0, 0, 0, 0), DropControl},
		{"no port", edited(ok, 16, 0, 0), DropControl},
		{"early level", edited(ok, 18, 1), DropControl},
		{"application level", edited(ok, 18, 3), DropControl},
		{"flags", edited(ok, 19, 1), DropReserved},
		{"bytes behind the total", edited(ok, 25, 5), DropLength},
		{"offset without bytes", edited(empty, 25, 1), DropLength},
		{"total without bytes", edited(empty, 27, 1), DropLength},
		{"offset and length beyond 16 bits", edited(ok, 24, 0xff, 0xff, 0xff, 0xff), DropLength},
	} {
		if got := ParseShake(c.b, &m); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// A REQ carries a part of a ClientHello in an item, which ends inside of the ClientHello.
func TestHelloFragmentItem(t *testing.T) {
	plain := testHello()
	plain.Private, plain.Grease = nil, Item{}
	body := plain.Append(nil)
	for _, c := range []struct {
		name  string
		value []byte
		want  DropReason
	}{
		{"ok", []byte("\x00\x00\x00\x05hello"), DropNone},
		{"at the end", []byte("\xff\xfa\xff\xffhello"), DropNone},
		{"without bytes", []byte("\x00\x00\x00\x00"), DropItem},
		{"cut", []byte("\x00\x00\x00"), DropItem},
		{"empty", nil, DropItem},
		{"behind the total", []byte("\x00\x01\x00\x05hello"), DropItem},
		{"beyond 16 bits", []byte("\xff\xff\xff\xffhello"), DropItem},
	} {
		var h Hello
		if got := ParseHello(appendItem(bytes.Clone(body), Item{ItemHello, c.value}), &h); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// A sealed packet's sizes count its tag: a sealed REQ and a sealed PROBE are 16 bytes shorter when opened.
func TestSizesOfSealedControlMessages(t *testing.T) {
	for _, name := range []string{"req", "probe"} {
		b := packetNamed(name)
		sealed := edited(b, 1, b[1]|byte(FlagSecure))
		for length, want := range map[int]DropReason{len(b) - TagLen: DropNone, len(b) - TagLen - 1: DropLength} {
			if _, d := ParseControl(sealed[:length], BaseHeaderLen, length); d != want {
				t.Errorf("%s of %d bytes: %v, want %v", name, length, d, want)
			}
		}
	}
	var h BaseHeader = edited(packetNamed("pong")[:BaseHeaderLen], 1, byte(FlagSecure))
	if PutGeneration(h, 0x01020304); !h.Secure() || h.Generation() != 0x01020304 {
		t.Errorf("secure %v, generation %#x", h.Secure(), h.Generation())
	}
}

// TestGoldenSealedPackets checks the header of sealed packets (PROTOCOL §10.1). Its bytes never change. What is behind it is opaque here.
func TestGoldenSealedPackets(t *testing.T) {
	for name, f := range map[string]BaseFields{
		"sealed_control": {Flags: FlagSecure | FlagAck, Message: 0x39c7, Number: 0x30313233, ConnID: 0x8081828384858687},
		"sealed_write":   {Flags: FlagSecure | FlagAckReq, Operations: true, Message: 0xfff3, Number: 0x30313233, ConnID: 0x8081828384858687, Offset: 64},
	} {
		b := make([]byte, BaseHeaderLen, 100)
		PutBaseHeader(b, &f)
		PutGeneration(b, 0x01020304)
		checkGolden(t, name, append(b, "encrypted contents, and a tag.."...))
		h, d := ParseBaseHeader(b)
		if d != DropNone || fieldsOf(h) != f || !h.Secure() || h.Generation() != 0x01020304 {
			t.Errorf("%s: parsed %+v, generation %#x (%v)", name, fieldsOf(h), h.Generation(), d)
		}
	}
}

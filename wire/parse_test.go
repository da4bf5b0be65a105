package wire

import (
	"bytes"
	"errors"
	"testing"
)

// edited returns a copy of b with v at off.
func edited(b []byte, off int, v ...byte) []byte {
	c := append([]byte{}, b...)
	copy(c[off:], v)
	return c
}

func packetNamed(name string) []byte {
	for _, p := range testPackets() {
		if p.name == name {
			return p.encode()
		}
	}
	panic("no test packet " + name)
}

// TestParseBaseHeaderDrops covers length, version, type and reserved bits, and the message number and offset of each type (PROTOCOL
// §3, §3.1 to §3.3).
func TestParseBaseHeaderDrops(t *testing.T) {
	ok, write, piece := packetNamed("ping"), packetNamed("write"), packetNamed("piece")
	for _, c := range []struct {
		name string
		b    []byte
		want DropReason
	}{
		{"ok", ok, DropNone},
		{"header only", ok[:BaseHeaderLen], DropNone},
		{"every flag of control", edited(ok, 1, 0x0d), DropNone},
		{"every flag of operations", edited(write, 1, 0x0f), DropNone},
		{"every flag of a piece", edited(piece, 1, 0x1f), DropNone},
		{"operations at offset 0", edited(write, 16, 0, 0, 0, 0), DropNone},
		{"operations at the last offset", edited(write, 16, 0xff, 0xff, 0xff, 0xff), DropNone},
		{"empty", nil, DropShort},
		{"cut", ok[:BaseHeaderLen-1], DropShort},
		{"version 0", edited(ok, 0, 0x00), DropVersion},
		{"version 1", edited(ok, 0, 0x10), DropVersion},
		{"version 2", edited(ok, 0, 0x20), DropVersion},
		{"version 4", edited(ok, 0, 0x40), DropVersion},
		{"type 3", edited(ok, 0, 0x33), DropReserved},
		{"type 15", edited(ok, 0, 0x3f), DropReserved},
		{"message of control", edited(ok, 3, 1), DropReserved},
		{"high byte of a message of control", edited(ok, 2, 1), DropReserved},
		{"offset of control", edited(ok, 19, 1), DropReserved},
		{"space of control", edited(ok, 1, 0x02), DropReserved},
		{"end of control", edited(ok, 1, 0x10), DropReserved},
		{"end of operations", edited(write, 1, 0x10), DropReserved},
		{"piece at offset 0", edited(piece, 16, 0, 0, 0, 0), DropReserved},
		{"piece at offset 1", edited(piece, 16, 0, 0, 0, 1), DropNone},
		{"sealed control", edited(ok, 1, 0x2d), DropNone},
		{"sealed control with a UDP port", edited(edited(ok, 1, 0x20), 2, 0x39, 0xc7), DropNone},
		{"sealed control with an offset", edited(edited(ok, 1, 0x20), 19, 1), DropReserved},
		{"sealed piece", edited(piece, 1, 0x3f), DropNone},
		{"flag 0x80 of operations", edited(write, 1, 0x80), DropReserved},
		{"highest flag", edited(ok, 1, 0x80), DropReserved},
	} {
		h, got := ParseBaseHeader(c.b)
		if got != c.want || (h == nil) != (got != DropNone) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		if h != nil && (len(h) != BaseHeaderLen || cap(h) != BaseHeaderLen) {
			t.Errorf("%s: view of %d bytes, capacity %d", c.name, len(h), cap(h))
		}
	}
}

// TestBaseHeaderPatches covers the fields that are written after the rest (PROTOCOL §3.1, §3.4).
func TestBaseHeaderPatches(t *testing.T) {
	b := bytes.Repeat([]byte{0xff}, BaseHeaderLen)
	PutBaseHeader(b, &BaseFields{})
	if want := append([]byte{0x30}, make([]byte, 23)...); !bytes.Equal(b, want) {
		t.Errorf("empty header over old bytes: % x", b)
	}
	PutBaseHeader(b, &BaseFields{Operations: true})
	PutCRC(b, 0x01020304)
	h, r := ParseBaseHeader(b)
	if r != DropNone || h.Control() || h.Piece() || h.CRC() != 0x01020304 {
		t.Errorf("%v, control %t, piece %t, CRC %#x", r, h.Control(), h.Piece(), h.CRC())
	}
}

// TestParseControlDrops covers the rules that apply to all control messages (PROTOCOL §5, §7.1).
func TestParseControlDrops(t *testing.T) {
	ping, probe, req := packetNamed("ping"), packetNamed("probe"), packetNamed("req")
	dreq, pend, rep := packetNamed("dreq_abort"), packetNamed("pend"), packetNamed("rep")
	more := func(b []byte, n int) []byte { return append(append([]byte{}, b...), make([]byte, n)...) }
	for _, c := range []struct {
		name string
		b    []byte
		want DropReason
	}{
		{"ping", ping, DropNone},
		{"abort", dreq, DropNone},
		{"longer REQ", more(req, 9), DropNone},
		{"no control header", ping[:27], DropShort},
		{"body cut", ping[:31], DropShort},
		{"operation opcode", edited(ping, 24, byte(OpWrite)), DropOpcode},
		{"opcode hole", edited(ping, 24, 0x17), DropOpcode},
		{"opcode 0x2b", edited(ping, 24, 0x2b), DropOpcode},
		{"opcode 0xff", edited(ping, 24, 0xff), DropOpcode},
		{"flag on ping", edited(ping, 25, 1), DropReserved},
		{"unknown flag on DREQ", edited(dreq, 25, 3), DropReserved},
		{"short nonce", edited(ping[:31], 27, 3), DropLength},
		{"long nonce", edited(more(ping, 1), 27, 5), DropLength},
		{"PEND with body", edited(more(pend, 1), 27, 1), DropLength},
		{"short REP", edited(rep[:28+59], 26, 0, 59), DropLength},
		{"long REP", edited(more(rep, 1200), 26, 0x04, 0x95), DropLength},
		{"REP as long as every path carries", edited(more(rep[:28], 1160), 26, 0x04, 0x88), DropNone},
		{"REP longer than every path carries", edited(more(rep[:28], 1161), 26, 0x04, 0x89), DropLength},
		{"REQ longer than every path carries", edited(more(req[:28], 1172), 26, 0x04, 0x89), DropLength},
		{"nothing", ping[:24], DropShort},
		{"ping padding", more(ping, 28), DropNone},
		{"ping padding not zero", edited(more(ping, 28), 59, 1), DropTrailing},
		{"byte behind PEND", more(pend, 1), DropTrailing},
		{"byte behind REP", more(rep, 1), DropTrailing},
		{"REQ below 1200", req[:1199], DropLength},
		{"REQ padding not zero", edited(req, 1199, 1), DropTrailing},
		{"PROBE below its size", probe[:1279], DropLength},
		{"PROBE above its size", more(probe, 1), DropLength},
		{"PROBE padding not zero", edited(probe, 36, 1), DropTrailing},
	} {
		if _, got := ParseControl(c.b, BaseHeaderLen, len(c.b)); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// A REQ has no blocks (PROTOCOL §5): its sender has received nothing that it could acknowledge, and the body in the quote of an
// ICMP error is always at the same offset.
func TestParseREQWithBlocks(t *testing.T) {
	req := packetNamed("req")
	for n, name := range map[int]string{0: "none", ackLen: "ACK", ReportLen: "REPORT", ackLen + ReportLen: "both"} {
		b := append(append(append([]byte{}, req[:BaseHeaderLen]...), make([]byte, n)...), req[BaseHeaderLen:]...)
		want := DropControl
		if n == 0 {
			want = DropNone
		}
		if _, got := ParseControl(b, BaseHeaderLen+n, len(b)); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// TestParseBodyDrops covers the rules within the bodies (PROTOCOL §5, §6, §7.1).
func TestParseBodyDrops(t *testing.T) {
	body := func(name string) []byte {
		c, r := ParseControl(packetNamed(name), BaseHeaderLen, len(packetNamed(name)))
		if r != DropNone {
			t.Fatal(r)
		}
		return c.Body
	}
	req, retried, rej, rst := body("req"), body("req_cookie"), body("rej"), body("rst")
	probe := body("probe")
	with := func(items ...Item) []byte { // a REQ with other items (PROTOCOL §7.1, §11.1)
		b := append([]byte{}, req[:HelloLen]...)
		for _, it := range items {
			b = appendItem(b, it)
		}
		return b
	}
	for _, c := range []struct {
		name string
		op   Opcode
		b    []byte
		want DropReason
	}{
		{"probe", CtlProbe, probe[:7], DropLength},
		{"probe zero", CtlProbe, edited(probe, 7, 1), DropReserved},
		{"hello cut", CtlREQ, req[:59], DropShort},
		{"no item", CtlREQ, req[:HelloLen], DropNone},
		{"cookie length", CtlREQ, with(Item{ItemCookie, make([]byte, 15)}), DropItem},
		{"cookie of nothing", CtlREQ, with(Item{ItemCookie, nil}), DropItem},
		{"private data of nothing", CtlREQ, with(Item{ItemPrivate, nil}), DropItem},
		{"private data of 512 bytes", CtlREQ, with(Item{ItemPrivate, make([]byte, 512)}), DropNone},
		{"private data of 513 bytes", CtlREQ, with(Item{ItemPrivate, make([]byte, 513)}), DropItem},
		{"bulk port of nothing", CtlREQ, with(Item{ItemBulkPort, nil}), DropItem},
		{"bulk port of three bytes", CtlREQ, with(Item{ItemBulkPort, make([]byte, 3)}), DropItem},
		{"bulk port zero is none", CtlREQ, with(Item{ItemBulkPort, make([]byte, 2)}), DropNone},
		{"item beyond the body", CtlREQ, req[:len(req)-4], DropItem},
		{"half an item header", CtlREQ, append(with(), 0, 1), DropItem},
		{"item of 65535 bytes", CtlREQ, edited(with(Item{0xffff, nil}), HelloLen+2, 0xff, 0xff), DropItem},
		{"item twice", CtlREQ, with(Item{ItemPrivate, []byte{1}}, Item{ItemPrivate, []byte{1}}), DropItem},
		{"unknown item twice", CtlREQ, with(Item{77, nil}, Item{77, nil}), DropItem},
		{"items in descending order", CtlREQ, with(Item{ItemPrivate, []byte{1}}, Item{ItemCookie, make([]byte, 16)}), DropItem},
		{"type zero", CtlREQ, with(Item{0, nil}), DropItem},
		{"item padding", CtlREQ, edited(with(Item{77, []byte{1}}), HelloLen+7, 1), DropItem},
		{"unknown items", CtlREP, with(Item{77, []byte{1}}, Item{78, make([]byte, 600)}, Item{0xf000, nil}, Item{0xffff, nil}), DropNone},
		{"hello id zero", CtlREQ, edited(req, 0, 0, 0, 0, 0, 0, 0, 0, 0), DropControl},
		{"hello reserved byte is ignored", CtlREQ, edited(retried, 27, 1), DropNone},
		{"hello unknown feature is for the engine", CtlREP, edited(req, 20, 0x80), DropNone},
		{"retry", CtlRETRY, make([]byte, 15), DropLength},
		{"rtu", CtlRTU, make([]byte, 5), DropLength},
		{"reject cut", CtlREJ, rej[:3], DropShort},
		{"reject length", CtlREJ, rej[:5], DropLength},
		{"reset", CtlRST, rst[:31], DropLength},
		{"reset zero", CtlRST, edited(rst, 15, 1), DropReserved},
	} {
		if _, got := parseTestBody(&Control{Opcode: c.op, Body: c.b}); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestEncodedLen checks that the announced length equals the encoded length (PROTOCOL §7.1).
func TestEncodedLen(t *testing.T) {
	h := testHello()
	if n := len(h.Append(nil)); n != h.EncodedLen() {
		t.Errorf("hello: %d, announced %d", n, h.EncodedLen())
	}
}

// TestAppendPanics: encoders refuse values that no receiver accepts (PROTOCOL §5, §7.1).
func TestAppendPanics(t *testing.T) {
	for name, f := range map[string]func(){
		"cookie":  func() { h := Hello{Cookie: make([]byte, 5)}; h.Append(nil) },
		"grease":  func() { h := Hello{Grease: Item{3, nil}}; h.Append(nil) },
		"private": func() { h := Hello{Private: make([]byte, 513)}; h.Append(nil) },
		"reject":  func() { r := Reject{Private: make([]byte, 513)}; r.Append(nil) },
		"ranges":  func() { a := Ack{N: MaxAckRanges + 1}; a.Append(nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

// TestCRC compares all ways to compute the checksum, in one fragment and in several (PROTOCOL §3.4).
func TestCRC(t *testing.T) {
	if got := Sum(0, []byte("123456789")); got != 0xe3069283 { // RFC 3720 §B.4 uses the same polynomial
		t.Errorf("check value %#x", got)
	}
	packet := packetNamed("probe")
	for i := range packet {
		packet[i] += byte(i * 7)
	}
	const number, message = 0x0123456789abcdef, 0x1f3d5b79
	want := oracleCRC(number, message, packet)
	for _, cut := range []int{24, 25, 28, 1000, len(packet)} {
		if got := Sum(SumFirst(number, message, packet[:cut]), packet[cut:]); got != want {
			t.Errorf("cut at %d: %#x, want %#x", cut, got, want)
		}
	}
}

// TestParseBlocksDrops covers the rules of blocks (PROTOCOL §3.5, §3.6).
func TestParseBlocksDrops(t *testing.T) {
	ok := packetNamed("ack") // ACK block of three ranges at 24, REPORT block at 52
	bare := edited(ok, 56, make([]byte, 12)...)
	for _, c := range []struct {
		name string
		b    []byte
		want DropReason
	}{
		{"ok", ok, DropNone},
		{"ACK cut", ok[:35], DropShort},
		{"ranges cut", ok[:51], DropShort},
		{"REPORT cut", ok[:71], DropShort},
		{"33 further ranges", edited(ok, 30, 33), DropAckRange},
		{"unknown ACK flag", edited(ok, 31, 0x04), DropReserved},
		{"first range wraps", edited(ok, 32, 0x80), DropAckRange},
		{"gap wraps", edited(ok, 36, 0xff, 0xff, 0xff, 0xff), DropAckRange},
		{"length wraps", edited(ok, 40, 0xff, 0xff, 0xff, 0xff), DropAckRange},
		{"unknown REPORT flag", edited(ok, 65, 0x07), DropReserved},
		{"RNR without place", edited(bare, 65, 0x01), DropReserved},
		{"nothing taken back", bare, DropNone},
		{"place without flag", edited(ok, 65, 0x00), DropReserved},
		{"offset without flag", edited(bare, 59, 1), DropReserved},
		{"number without flag", edited(bare, 60, 0x80), DropReserved},
		{"message without flag", edited(bare, 67, 1), DropReserved},
		{"RNR at the first place", edited(bare, 65, 0x03), DropNone},
	} {
		at, d := ContentOffset(c.b)
		if d == DropNone && at != len(ok) {
			t.Errorf("%s: contents begin at %d", c.name, at)
		}
		var a Ack
		var r Report
		var rest []byte
		if d == DropNone {
			rest, d = ParseAck(c.b[BaseHeaderLen:], &a)
		}
		if d == DropNone {
			d = ParseReport(rest, &r)
		}
		if d != c.want {
			t.Errorf("%s: %v, want %v", c.name, d, c.want)
		}
	}
}

// TestNames checks that every number has a name of its own (PROTOCOL §4, §5).
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for r := range NumDropReasons {
		if s := r.String(); s == "unknown" || seen[s] {
			t.Errorf("drop reason %d is called %q", r, s)
		}
		seen[r.String()] = true
	}
	controls := 0
	for o := range 256 {
		op := Opcode(o)
		known := op.IsControl() || (op >= OpWrite && op <= OpMore)
		if known != (op.String() != "unknown") {
			t.Errorf("opcode %#x is called %q", o, op)
		}
		if op.IsControl() {
			controls++
		}
	}
	if controls != 17 {
		t.Errorf("%d control opcodes", controls)
	}
	for i := range 9 {
		if RejectReason(i+1).String() == "unknown" || TermReason(i+1).String() == "unknown" {
			t.Errorf("reason %d has no name", i+1)
		}
	}
	if DropReason(200).String() != "unknown" || RejectReason(11).String() != "unknown" || TermReason(0).String() != "unknown" {
		t.Error("undefined numbers have names")
	}
	var err error = DropCRC
	if !errors.Is(err, DropCRC) || err.Error() != "crc" {
		t.Errorf("DropCRC as an error is %v", err)
	}
	if RequestSpace.String() != "request" || ResponseSpace.String() != "response" || Space(2).String() != "unknown" {
		t.Error("spaces have wrong names")
	}
}

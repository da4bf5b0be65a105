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

// TestParseBaseHeaderDrops covers length, version and reserved bits (PROTOCOL §3, §3.2, §3.3).
func TestParseBaseHeaderDrops(t *testing.T) {
	ok := packetNamed("ping")
	for _, c := range []struct {
		name string
		b    []byte
		want DropReason
	}{
		{"ok", ok, DropNone},
		{"header only", ok[:BaseHeaderLen], DropNone},
		{"every known flag", edited(packetNamed("write"), 1, 0x1f), DropNone},
		{"empty", nil, DropShort},
		{"cut", ok[:BaseHeaderLen-1], DropShort},
		{"version 0", edited(ok, 0, 0x00), DropVersion},
		{"version 1", edited(ok, 0, 0x10), DropVersion},
		{"version 3", edited(ok, 0, 0x30), DropVersion},
		{"operations without operations", edited(ok, 0, 0x21), DropReserved},
		{"control with operations", edited(ok, 2, 1), DropReserved},
		{"type 2", edited(ok, 0, 0x22), DropReserved},
		{"zero byte", edited(ok, 3, 1), DropReserved},
		{"PSN of control", edited(ok, 19, 1), DropReserved},
		{"part of control", edited(ok, 1, 0x10), DropReserved},
		{"keyphase", edited(ok, 1, 0x20), DropReserved},
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
	if want := append([]byte{0x20}, make([]byte, 23)...); !bytes.Equal(b, want) {
		t.Errorf("empty header over old bytes: % x", b)
	}
	PutBaseHeader(b, &BaseFields{OpCount: 255})
	PutCRC(b, 0x01020304)
	h, r := ParseBaseHeader(b)
	if r != DropNone || h.OpCount() != MaxOps || h.CRC() != 0x01020304 {
		t.Errorf("%v, count %d, CRC %#x", r, h.OpCount(), h.CRC())
	}
}

// TestParseOpDrops covers the rules of PROTOCOL §4 for every opcode.
func TestParseOpDrops(t *testing.T) {
	op := func(name string) []byte {
		at, _ := ContentOffset(packetNamed(name))
		return packetNamed(name)[at:]
	}
	write, send, read, resp, term := op("write"), op("sends"), op("read_req"), op("read_resp"), op("term")
	inv, imm := send[opSize(3):], send[opSize(3)+opSize(0):]
	const req, rsp = RequestSpace, ResponseSpace
	for _, c := range []struct {
		name  string
		b     []byte
		space Space
		want  DropReason
	}{
		{"write", write, req, DropNone},
		{"write header only", write[:OpHeaderLen], req, DropNone},
		{"write middle", edited(write, 1, 0), req, DropNone},
		{"send", send, req, DropNone},
		{"send_inv", inv, req, DropNone},
		{"send_imm", imm, req, DropNone},
		{"send_imm zero", edited(imm, 16, 0, 0, 0, 0), req, DropNone},
		{"read", read, req, DropNone},
		{"response", resp, rsp, DropNone},
		{"term", term, rsp, DropNone},
		{"empty", nil, req, DropShort},
		{"cut", write[:OpHeaderLen-1], req, DropShort},
		{"read cut", read[:27], req, DropShort},
		{"opcode 0", edited(write, 0, 0), req, DropOpcode},
		{"opcode 8", edited(write, 0, 8), req, DropOpcode},
		{"control opcode", edited(write, 0, byte(CtlPing)), req, DropOpcode},
		{"write as response", write, rsp, DropOpSpace},
		{"read as response", read, rsp, DropOpSpace},
		{"response as request", resp, req, DropOpSpace},
		{"term as request", term, req, DropOpSpace},
		{"unknown flag", edited(write, 1, 0x08), req, DropReserved},
		{"write solicited", edited(write, 1, 0x07), req, DropReserved},
		{"send solicited before last", edited(send, 1, 0x05), req, DropReserved},
		{"response solicited", edited(resp, 1, 0x06), rsp, DropReserved},
		{"read not last", edited(read, 1, 0x01), req, DropReserved},
		{"read not first", edited(read, 1, 0x02), req, DropReserved},
		{"read solicited", edited(read, 1, 0x07), req, DropReserved},
		{"term not last", edited(term, 1, 0x01), rsp, DropReserved},
		{"send zero word", edited(send, 19, 1), req, DropReserved},
		{"response zero word", edited(resp, 16, 1), rsp, DropReserved},
		{"read zero word", edited(read, 27, 1), req, DropReserved},
		{"term zero byte", edited(term, 7, 1), rsp, DropReserved},
		{"read payload 7", edited(read, 3, 7), req, DropLength},
		{"read payload 9", edited(read, 3, 9), req, DropLength},
		{"term payload", edited(term, 3, 1), rsp, DropLength},
		{"send ends exactly", edited(imm, 15, 0x08), req, DropNone},
		{"send beyond total", edited(imm, 15, 0x07), req, DropLength},
		{"send wraps 32 bits", edited(imm, 8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), req, DropLength},
		{"response wraps 32 bits", edited(resp, 8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), rsp, DropLength},
	} {
		var o Op
		if got := ParseOp(c.b, c.space, &o); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestParseOpClears proves that a reused Op keeps nothing of the operation before (PROTOCOL §4).
func TestParseOpClears(t *testing.T) {
	o := Op{Detail: 1, FailedPSN: 2, FailedOp: 3, Reason: 4, Offset: 5, Total: 6, Imm: 7}
	b := packetNamed("write")[BaseHeaderLen:]
	if r := ParseOp(b, RequestSpace, &o); r != DropNone || o != oracleReadOp(b) {
		t.Errorf("%v, %+v", r, o)
	}
}

// TestPutOpIgnoresForeignFields keeps reserved bits zero whatever a reused Op still holds (PROTOCOL §3.3, §4).
func TestPutOpIgnoresForeignFields(t *testing.T) {
	dirty := Op{
		Flags: OpFirst | OpLast, Address: ^uint64(0), Token: ^uint32(0), Number: ^uint32(0), Offset: 0, Total: ^uint32(0),
		Imm: ^uint32(0), Reason: ^TermReason(0), FailedOp: ^Opcode(0), FailedPSN: ^PSN(0), Detail: ^uint32(0),
	}
	for o := OpWrite; o <= OpTerm; o++ {
		b := bytes.Repeat([]byte{0xff}, OpHeaderLen+ReadReqPayloadLen)
		dirty.Opcode, dirty.Length = o, 8
		PutOp(b, &dirty)
		var got Op
		if r := ParseOp(b, o.Space(), &got); r != DropNone {
			t.Errorf("%v: %v, % x", o, r, b)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("PutOp of a control opcode did not panic")
		}
	}()
	PutOp(make([]byte, 64), &Op{Opcode: CtlPing})
}

// TestParseControlDrops covers the rules that hold for control messages as such (PROTOCOL §5, §7.1).
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
		{"opcode 0x2a", edited(ping, 24, 0x2a), DropOpcode},
		{"opcode 0xff", edited(ping, 24, 0xff), DropOpcode},
		{"flag on ping", edited(ping, 25, 1), DropReserved},
		{"unknown flag on DREQ", edited(dreq, 25, 3), DropReserved},
		{"short nonce", edited(ping[:31], 27, 3), DropLength},
		{"long nonce", edited(more(ping, 1), 27, 5), DropLength},
		{"PEND with body", edited(more(pend, 1), 27, 1), DropLength},
		{"short REP", edited(rep[:28+67], 26, 0, 67), DropLength},
		{"long REP", edited(more(rep, 1200), 26, 0x04, 0x95), DropLength},
		{"REP as long as every path carries", edited(more(rep[:28], 1172), 26, 0x04, 0x94), DropNone},
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
	with := func(items ...Item) []byte { // a REQ with other items
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
		{"hello cut", CtlREQ, req[:67], DropShort},
		{"no item", CtlREQ, req[:HelloLen], DropNone},
		{"cookie length", CtlREQ, with(Item{ItemCookie, make([]byte, 15)}), DropItem},
		{"cookie of nothing", CtlREQ, with(Item{ItemCookie, nil}), DropItem},
		{"private data of nothing", CtlREQ, with(Item{ItemPrivate, nil}), DropItem},
		{"private data of 512 bytes", CtlREQ, with(Item{ItemPrivate, make([]byte, 512)}), DropNone},
		{"private data of 513 bytes", CtlREQ, with(Item{ItemPrivate, make([]byte, 513)}), DropItem},
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

// TestEncodedLen checks that the lengths announced are the lengths written (PROTOCOL §3.5, §5, §7.1).
func TestEncodedLen(t *testing.T) {
	a, h, r := testAck(), testHello(), Reject{RejectPolicy, []byte("why")}
	if n := len(a.Append(nil)); n != a.EncodedLen() {
		t.Errorf("ACK: %d, announced %d", n, a.EncodedLen())
	}
	if n := len(h.Append(nil)); n != h.EncodedLen() {
		t.Errorf("hello: %d, announced %d", n, h.EncodedLen())
	}
	if n := len(r.Append(nil)); n != r.EncodedLen() {
		t.Errorf("REJ: %d, announced %d", n, r.EncodedLen())
	}
}

// TestAppendPanics refuses to send what no receiver accepts (PROTOCOL §5, §7.1).
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

// TestCRC compares all ways to the checksum, in one fragment and in several (PROTOCOL §3.4).
func TestCRC(t *testing.T) {
	if got := Sum(0, []byte("123456789")); got != 0xe3069283 { // RFC 3720 §B.4 uses the same polynomial
		t.Errorf("check value %#x", got)
	}
	packet := packetNamed("probe")
	for i := range packet {
		packet[i] += byte(i * 7)
	}
	want := oracleCRC(packet)
	for _, cut := range []int{24, 25, 28, 1000, len(packet)} {
		if got := Sum(SumFirst(packet[:cut]), packet[cut:]); got != want {
			t.Errorf("cut at %d: %#x, want %#x", cut, got, want)
		}
	}
}

// TestParseBlocksDrops covers the rules of blocks (PROTOCOL §3.5, §3.6).
func TestParseBlocksDrops(t *testing.T) {
	ok := packetNamed("ack") // ACK block of three ranges at 24, REPORT block at 52
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
		{"RNR without place", edited(ok, 65, 0x01), DropReserved},
		{"place without flag", edited(ok, 65, 0x00), DropReserved},
		{"zero", edited(ok, 67, 1), DropReserved},
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
		known := op.IsControl() || (op >= OpWrite && op <= OpTerm)
		if known != (op.String() != "unknown") {
			t.Errorf("opcode %#x is called %q", o, op)
		}
		if op.IsControl() {
			controls++
		}
	}
	if controls != 16 {
		t.Errorf("%d control opcodes", controls)
	}
	for i := range 9 {
		if RejectReason(i+1).String() == "unknown" || TermReason(i+1).String() == "unknown" {
			t.Errorf("reason %d has no name", i+1)
		}
	}
	if DropReason(200).String() != "unknown" || RejectReason(10).String() != "unknown" || TermReason(0).String() != "unknown" {
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

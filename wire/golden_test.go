package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files; review the diff")

var (
	testSrc = EndpointFrom(netip.MustParseAddrPort("192.0.2.1:50000"))
	testDst = EndpointFrom(netip.MustParseAddrPort("198.51.100.7:14791"))

	testSrc6 = EndpointFrom(netip.MustParseAddrPort("[2001:db8::1]:50000"))
	testDst6 = EndpointFrom(netip.MustParseAddrPort("[2001:db8:ffff::7]:14791"))

	testMACs = [2][6]byte{{0x02, 0, 0, 0, 0, 0x0a}, {0x02, 0, 0, 0, 0, 0x0b}}
)

// testPacket has the values of a packet: operations with their payloads, a segment, or a control message.
type testPacket struct {
	name     string
	flags    Flags
	offset   uint32  // offset of its first byte in its message
	ack      *Ack    // nil without an ACK block
	report   *Report // nil without a REPORT block
	ops      []Op
	payloads []string
	piece    string
	opcode   Opcode // control
	ctlFlags uint8
	body     any
	padTo    int
}

func testHello() Hello {
	h := Hello{
		ConnID: 0x0102030405060708, Nonce: 0x1112131415161718, SrcPort: 0x2122, DstPort: 0x2324, Features: FeatureECT,
		MinVersion: 2, MaxVersion: 2, UDPPort: 0x2526, IRD: 16, ORD: 8, Window: 0x00a00000, MaxPacket: 65507, ReceiveLimit: 64,
		Private: []byte("private data."), BulkPort: 0xb1b2, Grease: Item{0xfabc, []byte("grease")},
	}
	copy(h.ResetToken[:], "reset-token-here")
	return h
}

func testAck() Ack {
	a := Ack{Largest: 5, Delay: 0x1234, Flags: AckAway, N: 3} // the numbers wrap around
	a.Ranges[0], a.Ranges[1], a.Ranges[2] = AckRange{0, 2}, AckRange{4, 8}, AckRange{0x100, 0x100}
	return a
}

func testReport() Report {
	return Report{
		ReceiveLimit: 0x100, Message: 0xf1f2, Offset: 0x41424344, UpTo: 0x51525354, Load: 7, Flags: ReportRNR | ReportTakenBack, CECount: 3,
	}
}

// testPackets has every packet type at least once (PROTOCOL §4, §5).
func testPackets() []testPacket {
	hello, retried := testHello(), testHello()
	retried.Cookie, retried.Private, retried.BulkPort, retried.Grease = []byte("cookie-16-bytes."), nil, 0, Item{}
	secure := testHello()
	secure.Features, secure.Private, secure.Cookie = FeatureECT|FeatureSecure, nil, []byte("cookie-16-bytes.")
	secure.IRD, secure.ORD, secure.ReceiveLimit, secure.ResetToken = 0, 0, 0, [ResetTokenLen]byte{}
	secure.Fragment = HelloFragment{Offset: 1024, Total: 1527, Bytes: []byte("the rest of a ClientHello")}
	token := [16]byte([]byte("reset-token-here"))
	ack, beside, report := testAck(), Ack{Largest: 0x61626364, Delay: AckDelayUnknown, Flags: AckCE, N: 1}, testReport()
	return append(testContents(&beside), []testPacket{
		{name: "ack", ack: &ack, report: &report},
		{name: "report", report: &Report{ReceiveLimit: 9}},
		{name: "taken_back", ack: &beside, report: &Report{Message: 0xfffe, UpTo: 0x51525354, Flags: ReportTakenBack}},
		{name: "ping", opcode: CtlPing, body: Ping{0xe1e2e3e4, 40001}},
		{name: "pong", opcode: CtlPong, body: uint32(0xe1e2e3e4)},
		{name: "probe", opcode: CtlProbe, body: Probe{0xe1e2e3e4, 1280}, padTo: 1280},
		{name: "challenge", opcode: CtlChallenge, body: uint64(0xc1c2c3c4c5c6c7c8)},
		{name: "response", opcode: CtlResponse, body: uint64(0xc1c2c3c4c5c6c7c8)},
		{name: "probe_ack", opcode: CtlProbeAck, body: Probe{0xe1e2e3e4, 1280}},
		{name: "req", opcode: CtlREQ, body: hello, padTo: MinPacket},
		{name: "req_cookie", opcode: CtlREQ, body: retried, padTo: MinPacket},
		{name: "retry", opcode: CtlRETRY, body: [16]byte([]byte("cookie-16-bytes."))},
		{name: "pend", opcode: CtlPEND},
		{name: "rep", opcode: CtlREP, body: hello},
		{name: "repack", opcode: CtlREPACK},
		{name: "rtu", opcode: CtlRTU, body: RTU{64}},
		{name: "rej", opcode: CtlREJ, body: Reject{RejectConsumer, []byte("no")}},
		{name: "dreq", opcode: CtlDREQ},
		{name: "dreq_abort", opcode: CtlDREQ, ctlFlags: CtlFlagAbort},
		{name: "drep", opcode: CtlDREP},
		{name: "shake", opcode: CtlSHAKE, body: Shake{
			ConnID: 0x0102030405060708, Nonce: 0x1112131415161718, UDPPort: 0x2526, Level: ShakeHandshake,
			HaveInitial: 0x0601, HaveHandshake: 0x0102, Offset: 0x0300, Total: 0x0310, Bytes: []byte("handshake bytes."),
		}},
		{name: "shake_empty", opcode: CtlSHAKE, body: Shake{ConnID: 1, Nonce: 2, UDPPort: 3, HaveInitial: 0x0601}},
		{name: "req_secure", opcode: CtlREQ, body: secure, padTo: MinPacket},
		{name: "rst", opcode: CtlRST, body: Reset{0x0102030405060708, 0xfffffff3, token}},
	}...)
}

// testContents has every operation at least once, at the beginning of its message and inside of it (PROTOCOL §3.1, §4).
func testContents(beside *Ack) []testPacket {
	const offset = 0x00012340
	return []testPacket{
		{name: "write", flags: FlagAckReq, payloads: []string{"hello, remote memory"}, ops: []Op{
			{Opcode: OpWrite, Flags: OpLast, Length: 20, Address: 0x1122334455667788, Token: 0xa1a2a3a4, Total: 20},
		}},
		{name: "write_of", payloads: []string{"no", "the first piece"}, ops: []Op{
			{Opcode: OpWrite, Flags: OpLast, Length: 2, Address: 0x1122334455667788, Token: 0xa1a2a3a4, Total: 2},
			{Opcode: OpWrite, Length: 15, Address: 0x99aabbccddeeff00, Token: 0xb1b2b3b4, Total: 0x00200000},
		}},
		{name: "sends", ack: beside, payloads: []string{"abc", "", "12345678"}, ops: []Op{
			{Opcode: OpSend, Flags: OpLast | OpSolicit, Length: 3, Number: 6, Total: 3},
			{Opcode: OpSendInv, Flags: OpLast, Number: 7, Imm: 0xb1b2b3b4},
			{Opcode: OpSendImm, Flags: OpSolicit, Length: 8, Number: 8, Total: 0x1008, Imm: 0xc1c2c3c4},
		}},
		{name: "more", offset: offset, payloads: []string{"the end of one", "next"}, ops: []Op{
			{Opcode: OpMore, Flags: OpLast, Length: 14},
			{Opcode: OpSend, Flags: OpLast, Length: 4, Number: 9, Total: 4},
		}},
		{name: "more_response", flags: FlagSpace, offset: offset, payloads: []string{"the middle"}, ops: []Op{
			{Opcode: OpMore, Length: 10},
		}},
		{name: "piece", offset: offset, piece: "nothing but payload"},
		{name: "piece_end", flags: FlagSpace | FlagEnd, offset: offset, piece: "the last of it"},
		{name: "read_req", payloads: []string{""}, ops: []Op{{
			Opcode: OpReadReq, Flags: OpLast, Address: 0x1122334455667788, Token: 0xa1a2a3a4, Total: 0x00100000, Number: 9,
		}}},
		{name: "read_resp", flags: FlagSpace, payloads: []string{"response"}, ops: []Op{
			{Opcode: OpReadResp, Length: 8, Total: 0x00100000},
		}},
		{name: "term", flags: FlagSpace, offset: offset, payloads: []string{""}, ops: []Op{ // in the middle of a response
			{Opcode: OpTerm, Flags: OpLast, Reason: TermAccess, FailedOp: OpWrite, Number: 0xfffffff3},
		}},
	}
}

func (p *testPacket) space() Space {
	if p.flags&FlagSpace != 0 {
		return ResponseSpace
	}
	return RequestSpace
}

func (p *testPacket) base() BaseFields {
	f := BaseFields{
		Operations: len(p.ops) > 0, Piece: p.piece != "", Flags: p.flags, Offset: p.offset,
		Number: 0x230313233, ConnID: 0x8081828384858687,
	}
	if p.ack != nil {
		f.Flags |= FlagAck
	}
	if p.report != nil {
		f.Flags |= FlagReport
	}
	if f.Operations || f.Piece {
		f.Message = 0x1fff3
	}
	if p.opcode == CtlREQ {
		f.ConnID, f.Number = 0, f.Number&math.MaxUint32 // its sender has received nothing yet
	}
	return f
}

// encode builds the packet with the codecs under test.
func (p *testPacket) encode() []byte {
	b := make([]byte, BaseHeaderLen, 2048)
	f := p.base()
	PutBaseHeader(b, &f)
	if p.ack != nil {
		b = p.ack.Append(b)
	}
	if p.report != nil {
		b = p.report.Append(b)
	}
	first := len(b)
	for i := range p.ops {
		for (len(b)-first)%OpAlign > 0 {
			b = append(b, 0)
		}
		start := len(b)
		b = b[:start+MaxOpHeader]
		b = append(b[:start+PutOp(b[start:], &p.ops[i])], p.payloads[i]...)
	}
	b = append(b, p.piece...)
	if p.opcode != 0 {
		at := len(b)
		b = appendTestBody(b[:at+ControlHeaderLen], p.body)
		PutControl(b[at:], p.opcode, p.ctlFlags, len(b)-at-ControlHeaderLen)
		b = b[:max(len(b), p.padTo)]
	}
	PutCRC(b, SumFirst(f.Number, f.Message, b))
	return b
}

func appendTestBody(dst []byte, body any) []byte {
	switch v := body.(type) {
	case uint32:
		return binary.BigEndian.AppendUint32(dst, v)
	case uint64:
		return binary.BigEndian.AppendUint64(dst, v)
	case Probe:
		return v.Append(dst)
	case Hello:
		return v.Append(dst)
	case Ping:
		return v.Append(dst)
	case [16]byte:
		return AppendCookie(dst, &v)
	case RTU:
		return v.Append(dst)
	case Reject:
		return v.Append(dst)
	case Reset:
		return v.Append(dst)
	case Shake:
		return v.Append(dst)
	}
	return dst
}

// parseTestBody decodes a control body with the codec under test.
func parseTestBody(c *Control) (any, DropReason) {
	switch c.Opcode {
	case CtlPing:
		var p Ping
		r := ParsePing(c.Body, &p)
		return p, r
	case CtlPong:
		return binary.BigEndian.Uint32(c.Body), DropNone // ParseControl checked the length
	case CtlChallenge, CtlResponse:
		return binary.BigEndian.Uint64(c.Body), DropNone // the same
	case CtlProbe, CtlProbeAck:
		var p Probe
		r := ParseProbe(c.Body, &p)
		return p, r
	case CtlREQ, CtlREP:
		var h Hello
		r := ParseHello(c.Body, &h)
		return h, r
	case CtlRETRY:
		b, r := ParseCookie(c.Body)
		if r != DropNone {
			return nil, r
		}
		return [16]byte(b), r
	case CtlRTU:
		var u RTU
		r := ParseRTU(c.Body, &u)
		return u, r
	case CtlREJ:
		var j Reject
		r := ParseReject(c.Body, &j)
		return j, r
	case CtlSHAKE:
		var m Shake
		r := ParseShake(c.Body, &m)
		return m, r
	case CtlRST:
		var s Reset
		r := ParseReset(c.Body, &s)
		return s, r
	}
	return nil, DropNone
}

// checkGolden compares b with the golden file, 16 bytes a line.
func checkGolden(t *testing.T, name string, b []byte) {
	t.Helper()
	var text strings.Builder
	for off := 0; off < len(b); off += 16 {
		fmt.Fprintf(&text, "%04x: % x\n", off, b[off:min(off+16, len(b))])
	}
	path := filepath.Join("testdata", name+".hex")
	if *update {
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := readGolden(t, name); !bytes.Equal(b, want) {
		t.Errorf("%s: encoded\n%s\nwant\n% x", name, text.String(), want)
	}
}

func readGolden(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".hex"))
	if err != nil {
		t.Fatal(err)
	}
	var b []byte
	for line := range strings.Lines(string(text)) {
		_, digits, _ := strings.Cut(line, ":")
		part, err := hex.DecodeString(strings.Join(strings.Fields(digits), ""))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		b = append(b, part...)
	}
	return b
}

// TestGoldenPackets checks each packet type of PROTOCOL §3, §3.5, §3.6, §4, §5 and §7.1. Its bytes never change, and both the codec
// and the oracle decode the values from them.
func TestGoldenPackets(t *testing.T) {
	for _, p := range testPackets() {
		t.Run(p.name, func(t *testing.T) {
			checkGolden(t, p.name, p.encode())
			b := readGolden(t, p.name)
			checkBase(t, b, p.base())
			at := checkBlocks(t, b, &p)
			switch {
			case p.piece != "":
				if got := string(b[at:]); got != p.piece {
					t.Errorf("piece %q, want %q", got, p.piece)
				}
				return
			case len(p.ops) > 0:
				checkOps(t, b[at:], &p)
				return
			}
			c, r := ParseControl(b, at, len(b))
			if r != DropNone {
				t.Fatalf("ParseControl: %v", r)
			}
			body, r := parseTestBody(&c)
			if r != DropNone || c.Opcode != p.opcode || c.Flags != p.ctlFlags || !reflect.DeepEqual(body, p.body) {
				t.Errorf("parsed %v %#x %+v (%v), want %+v", c.Opcode, c.Flags, body, r, p.body)
			}
			if p.opcode == 0 {
				return
			}
			opcode, flags, body := oracleReadControl(b[at:])
			if opcode != p.opcode || flags != p.ctlFlags || !reflect.DeepEqual(body, p.body) {
				t.Errorf("oracle read %v %#x %+v, want %+v", opcode, flags, body, p.body)
			}
		})
	}
}

func checkBase(t *testing.T, b []byte, want BaseFields) {
	t.Helper()
	h, r := ParseBaseHeader(b)
	if r != DropNone {
		t.Fatalf("ParseBaseHeader: %v", r)
	}
	covered := oracleCRC(want.Number, want.Message, b)
	want.Message, want.Number = want.Message&math.MaxUint16, want.Number&math.MaxUint32
	if got := fieldsOf(h); got != want || (h.Space() == ResponseSpace) != (want.Flags&FlagSpace != 0) {
		t.Errorf("parsed %+v, want %+v", got, want)
	}
	fields, crc := oracleReadBase(b)
	if fields != want || crc != h.CRC() {
		t.Errorf("oracle read %+v and CRC %#x, want %+v and %#x", fields, crc, want, h.CRC())
	}
	if h.CRC() != covered {
		t.Errorf("CRC %#x, the oracle has %#x", h.CRC(), covered)
	}
}

func fieldsOf(h BaseHeader) BaseFields {
	return BaseFields{
		Operations: !h.Control() && !h.Piece(), Piece: h.Piece(), Flags: h.Flags(), Message: uint32(h.Message()), Number: uint64(h.Number()),
		Offset: h.Offset(), ConnID: h.ConnID(),
	}
}

// checkBlocks reads the blocks of a packet with the codec and the oracle, and returns where its contents begin.
func checkBlocks(t *testing.T, b []byte, p *testPacket) (at int) {
	t.Helper()
	at, d := ContentOffset(b)
	if d != DropNone {
		t.Fatalf("ContentOffset: %v", d)
	}
	rest, r := b[BaseHeaderLen:], bytes.NewReader(b[BaseHeaderLen:at])
	if p.ack != nil {
		var a Ack
		if rest, d = ParseAck(rest, &a); d != DropNone || a != *p.ack {
			t.Errorf("parsed %+v (%v), want %+v", a, d, *p.ack)
		}
		if got := oracleReadAck(r); got != *p.ack {
			t.Errorf("oracle read %+v, want %+v", got, *p.ack)
		}
	}
	if p.report != nil {
		var v Report
		if d := ParseReport(rest, &v); d != DropNone || v != *p.report {
			t.Errorf("parsed %+v (%v), want %+v", v, d, *p.report)
		}
		if got := oracleReadReport(r); got != *p.report {
			t.Errorf("oracle read %+v, want %+v", got, *p.report)
		}
	}
	if r.Len() != 0 {
		t.Errorf("the blocks have %d bytes more", r.Len())
	}
	return at
}

func checkOps(t *testing.T, rest []byte, p *testPacket) {
	t.Helper()
	for i, want := range p.ops {
		var op Op
		n, d := ParseOp(rest, p.space(), &op)
		if d != DropNone || op != want {
			t.Fatalf("op %d: parsed %+v (%v), want %+v", i, op, d, want)
		}
		if got, length := oracleReadOp(rest); got != want || length != n {
			t.Errorf("op %d: oracle read %+v of %d bytes, want %+v of %d", i, got, length, want, n)
		}
		end := n + int(op.Length)
		if got := string(rest[n:end]); got != p.payloads[i] {
			t.Errorf("op %d: payload %q, want %q", i, got, p.payloads[i])
		}
		if i == len(p.ops)-1 {
			if end != len(rest) {
				t.Errorf("%d bytes behind the last operation", len(rest)-end)
			}
			return
		}
		next := (end + OpAlign - 1) &^ (OpAlign - 1)
		if !AllZero(rest[end:next]) {
			t.Errorf("op %d: padding % x", i, rest[end:next])
		}
		rest = rest[next:]
	}
}

package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
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

// testPacket is a packet as values: operations with their payloads, or a control message.
type testPacket struct {
	name     string
	flags    Flags
	ack      *Ack    // block
	report   *Report // block
	ops      []Op
	payloads []string
	opcode   Opcode // control
	ctlFlags uint8
	body     any
	padTo    int
}

func testHello() Hello {
	h := Hello{
		ConnID: 0x0102030405060708, Nonce: 0x1112131415161718, SrcPort: 0x2122, DstPort: 0x2324, Features: FeatureECT,
		MinVersion: 2, MaxVersion: 2, IRD: 16, ORD: 8, Window: 1024, MaxPacket: 65507, ReceiveLimit: 64,
		FirstPSN: [2]PSN{0xfffffff0, 0x80000000}, Private: []byte("private data."),
		Grease: Item{0xfabc, []byte("grease")},
	}
	copy(h.ResetToken[:], "reset-token-here")
	return h
}

func testAck() Ack {
	a := Ack{Largest: 5, Delay: 0x1234, Flags: AckAway, N: 3} // the numbers go round
	a.Ranges[0], a.Ranges[1], a.Ranges[2] = AckRange{0, 2}, AckRange{4, 8}, AckRange{0x100, 0x100}
	return a
}

func testReport() Report {
	return Report{ReceiveLimit: 0x100, Place: 0xfffffff3, UpTo: 0x51525354, Load: 7, Flags: ReportRNR | ReportTakenBack, CECount: 3}
}

// testPackets has every packet type at least once (PROTOCOL §4, §5).
func testPackets() []testPacket {
	hello, retried := testHello(), testHello()
	retried.Cookie, retried.Private, retried.Grease = []byte("cookie-16-bytes."), nil, Item{}
	token := [16]byte([]byte("reset-token-here"))
	ack, beside, report := testAck(), Ack{Largest: 0x61626364, Delay: AckDelayUnknown, Flags: AckCE, N: 1}, testReport()
	const both = OpFirst | OpLast
	return []testPacket{
		{name: "write", flags: FlagAckReq, payloads: []string{"hello, remote memory"}, ops: []Op{
			{Opcode: OpWrite, Flags: both, Length: 20, Address: 0x1122334455667788, Token: 0xa1a2a3a4, Number: 5},
		}},
		{name: "sends", ack: &beside, payloads: []string{"abc", "", "12345678"}, ops: []Op{
			{Opcode: OpSend, Flags: both | OpSolicit, Length: 3, Number: 6, Total: 3},
			{Opcode: OpSendInv, Flags: both, Number: 7, Imm: 0xb1b2b3b4},
			{Opcode: OpSendImm, Flags: OpLast, Length: 8, Number: 8, Offset: 0x1000, Total: 0x1008, Imm: 0xc1c2c3c4},
		}},
		{name: "read_req", payloads: []string{""}, ops: []Op{{
			Opcode: OpReadReq, Flags: both, Length: 8,
			Address: 0x1122334455667788, Token: 0xa1a2a3a4, Total: 0x00100000, Number: 9,
		}}},
		{name: "read_resp", flags: FlagSpace, payloads: []string{"response"}, ops: []Op{
			{Opcode: OpReadResp, Flags: OpFirst, Length: 8, Number: 9, Total: 0x00100000},
		}},
		{name: "term", flags: FlagSpace, payloads: []string{""}, ops: []Op{{
			Opcode: OpTerm, Flags: both,
			Reason: TermAccess, FailedOp: OpWrite, FailedPSN: 0xfffffff3, Number: 5, Detail: 0xd1d2d3d4,
		}}},
		{name: "ack", ack: &ack, report: &report},
		{name: "report", report: &Report{ReceiveLimit: 9}},
		{name: "ping", opcode: CtlPing, body: uint32(0xe1e2e3e4)},
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
		{name: "rst", opcode: CtlRST, body: Reset{0x0102030405060708, 0xfffffff3, token}},
	}
}

func (p *testPacket) base() BaseFields {
	f := BaseFields{
		OpCount: uint8(len(p.ops)), Flags: p.flags, Number: 0x30313233, ConnID: 0x8081828384858687,
	}
	if p.ack != nil {
		f.Flags |= FlagAck
	}
	if p.report != nil {
		f.Flags |= FlagReport
	}
	if len(p.ops) > 0 {
		f.PSN = 0xfffffff3
	}
	if p.opcode == CtlREQ {
		f.ConnID = 0
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
	for i := range p.ops {
		start := len(b)
		n := OpHeaderLen + len(p.payloads[i])
		if p.ops[i].Opcode == OpReadReq {
			n += ReadReqPayloadLen
		}
		b = b[:start+n]
		PutOp(b[start:], &p.ops[i])
		copy(b[start+OpHeaderLen+int(p.ops[i].Length)-len(p.payloads[i]):], p.payloads[i])
		if i < len(p.ops)-1 {
			b = b[:start+opSize(int(p.ops[i].Length))]
		}
	}
	if p.opcode != 0 {
		at := len(b)
		b = appendTestBody(b[:at+ControlHeaderLen], p.body)
		PutControl(b[at:], p.opcode, p.ctlFlags, len(b)-at-ControlHeaderLen)
		b = b[:max(len(b), p.padTo)]
	}
	PutCRC(b, SumFirst(b))
	return b
}

// opSize is the bytes an operation with that much payload takes, padding to the next operation included (PROTOCOL §4).
func opSize(payload int) int { return (OpHeaderLen + payload + OpAlign - 1) &^ (OpAlign - 1) }

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
	case [16]byte:
		return AppendCookie(dst, &v)
	case RTU:
		return v.Append(dst)
	case Reject:
		return v.Append(dst)
	case Reset:
		return v.Append(dst)
	}
	return dst
}

// parseTestBody decodes a control body with the codec under test.
func parseTestBody(c *Control) (any, DropReason) {
	switch c.Opcode {
	case CtlPing, CtlPong:
		return binary.BigEndian.Uint32(c.Body), DropNone // ParseControl checked the length
	case CtlChallenge, CtlResponse:
		return binary.BigEndian.Uint64(c.Body), DropNone // so too
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

// TestGoldenPackets checks each packet type of PROTOCOL §3, §3.5, §3.6, §4, §5 and §7.1: its bytes never change, and both the
// codec and the oracle read the values back from them.
func TestGoldenPackets(t *testing.T) {
	for _, p := range testPackets() {
		t.Run(p.name, func(t *testing.T) {
			checkGolden(t, p.name, p.encode())
			b := readGolden(t, p.name)
			checkBase(t, b, p.base())
			at := checkBlocks(t, b, &p)
			if len(p.ops) > 0 {
				checkOps(t, b, at, &p)
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
	if got := fieldsOf(h); got != want {
		t.Errorf("parsed %+v, want %+v", got, want)
	}
	fields, crc := oracleReadBase(b)
	if fields != want || crc != h.CRC() {
		t.Errorf("oracle read %+v and CRC %#x, want %+v and %#x", fields, crc, want, h.CRC())
	}
	if want := oracleCRC(b); h.CRC() != want {
		t.Errorf("CRC %#x, oracle says %#x", h.CRC(), want)
	}
}

func fieldsOf(h BaseHeader) BaseFields {
	return BaseFields{
		OpCount: uint8(h.OpCount()), Flags: h.Flags(), Number: h.Number(), PSN: h.PSN(), ConnID: h.ConnID(),
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

func checkOps(t *testing.T, b []byte, off int, p *testPacket) {
	t.Helper()
	space := BaseHeader(b[:BaseHeaderLen]).Space()
	for i, want := range p.ops {
		var op Op
		if r := ParseOp(b[off:], space, &op); r != DropNone {
			t.Fatalf("op %d: %v", i, r)
		}
		if op != want {
			t.Errorf("op %d: parsed %+v, want %+v", i, op, want)
		}
		if got := oracleReadOp(b[off:]); got != want {
			t.Errorf("op %d: oracle read %+v, want %+v", i, got, want)
		}
		payload := b[off+OpHeaderLen:][:op.Length]
		if want.Opcode != OpReadReq && string(payload) != p.payloads[i] {
			t.Errorf("op %d: payload %q, want %q", i, payload, p.payloads[i])
		}
		if i == len(p.ops)-1 {
			if end := off + OpHeaderLen + int(op.Length); end != len(b) {
				t.Errorf("last operation ends at %d of %d", end, len(b))
			}
		}
		off += opSize(int(op.Length))
	}
}

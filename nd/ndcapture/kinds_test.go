package ndcapture

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ndxdp/ndxdp/wire"
)

// kind is one value of one field, and a packet with this value.
type kind struct {
	name string
	b    []byte
}

// packet encodes a packet with these blocks, operations or control message behind its base header, with a valid checksum.
func packet(fields wire.BaseFields, parts ...[]byte) []byte {
	fields.Number, fields.ConnID = 0x10203040, 0x0102030405060708
	if fields.Operations {
		fields.Message = 0x5060
	}
	b := make([]byte, wire.BaseHeaderLen)
	wire.PutBaseHeader(b, &fields)
	b = append(b, slices.Concat(parts...)...)
	wire.PutCRC(b, wire.SumFirst(fields.Number, fields.Message, b))
	return b
}

func controlBytes(op wire.Opcode, flags uint8, body []byte) []byte {
	b := make([]byte, wire.ControlHeaderLen)
	wire.PutControl(b, op, flags, len(body))
	return append(b, body...)
}

// opBytes encodes an operation, with 8 bytes of payload if it may have any.
func opBytes(op wire.Op) []byte {
	b := make([]byte, wire.MaxOpHeader+8)
	if op.Opcode != wire.OpTerm && op.Opcode != wire.OpReadReq {
		op.Length, op.Total = 8, op.Offset+8
	}
	code := op.Opcode
	if code.IsControl() || code.String() == "unknown" {
		op.Opcode = wire.OpWrite // the following bytes must form a valid operation
	}
	n := wire.PutOp(b, &op)
	b[0] = byte(code)
	return b[:n+int(op.Length)]
}

// ofSpace returns the flag for the space of an operation.
func ofSpace(op wire.Opcode) wire.Flags {
	if op.Space() == wire.ResponseSpace {
		return wire.FlagSpace
	}
	return 0
}

const whole = wire.OpLast

// kinds returns all values of each field that selects a kind: opcodes with all lengths of bodies, flags, reasons, and items. Most
// values are undefined, and receivers drop their packets.
func kinds() (all []kind) {
	add := func(b []byte, format string, args ...any) { all = append(all, kind{fmt.Sprintf(format, args...), b}) }
	write := opBytes(wire.Op{Opcode: wire.OpWrite, Flags: whole})
	ack, report := (&wire.Ack{Largest: 7, N: 1}).Append(nil), (&wire.Report{}).Append(nil)
	lengths := []int{wire.HelloLen}
	for n := range 41 {
		lengths = append(lengths, n)
	}
	for _, size := range []int{0, wire.MinPacket - 1, wire.MinPacket, 1408} {
		for _, off := range []int{-1, 0, 1} {
			m := wire.Probe{Nonce: 9, Size: uint16(size)}
			body := controlBytes(wire.CtlProbe, 0, m.Append(nil))
			add(packet(wire.BaseFields{}, body, make([]byte, max(0, size+off-wire.BaseHeaderLen-len(body)))), "PROBE of %d%+d", size, off)
		}
	}
	for v := range 256 {
		op := wire.Opcode(v)
		for _, n := range lengths {
			if n == 0 || op <= wire.CtlRST+8 {
				add(packet(wire.BaseFields{}, controlBytes(op, 0, make([]byte, n))), "control %v (%#x) of %d", op, v, n)
			}
		}
		add(packet(wire.BaseFields{Operations: true, Flags: ofSpace(op)}, opBytes(wire.Op{Opcode: op, Flags: whole})), "operation %v (%#x)", op, v)
		more := wire.BaseFields{Operations: true, Flags: wire.Flags(v&1) * wire.FlagSpace, Offset: 64}
		add(packet(more, opBytes(wire.Op{Opcode: wire.OpMore, Flags: wire.OpFlags(v)})), "MORE flags %#x", v)
		add(packet(wire.BaseFields{}, controlBytes(wire.CtlDREQ, uint8(v), nil)), "DREQ flags %#x", v)
		add(packet(wire.BaseFields{}, controlBytes(wire.CtlPEND, uint8(v), nil)), "PEND flags %#x", v)
		for _, op := range []wire.Opcode{wire.OpWrite, wire.OpSend, wire.OpSendInv, wire.OpSendImm, wire.OpReadReq, wire.OpReadResp, wire.OpTerm} {
			add(packet(wire.BaseFields{Operations: true, Flags: ofSpace(op)}, opBytes(wire.Op{Opcode: op, Flags: wire.OpFlags(v)})), "%v flags %#x", op, v)
		}
		var blocks []byte
		if wire.Flags(v)&wire.FlagAck != 0 {
			blocks = append(blocks, ack...)
		}
		if wire.Flags(v)&wire.FlagReport != 0 {
			blocks = append(blocks, report...)
		}
		if wire.Flags(v)&wire.FlagEnd == 0 {
			add(packet(wire.BaseFields{Operations: true, Flags: wire.Flags(v) &^ wire.FlagSpace}, blocks, write), "flags %#x of operations", v)
		}
		add(packet(wire.BaseFields{Flags: wire.Flags(v)}, blocks, controlBytes(wire.CtlPEND, 0, nil)), "flags %#x of a control packet", v)
		marked := slices.Clone(ack)
		marked[7] = byte(v)
		add(packet(wire.BaseFields{Flags: wire.FlagAck}, marked), "ACK flags %#x", v)
		told := slices.Clone(report)
		told[13] = byte(v)
		add(packet(wire.BaseFields{Flags: wire.FlagReport}, told), "REPORT flags %#x", v)
		both := packet(wire.BaseFields{Operations: true, Flags: wire.FlagAck | wire.FlagReport}, marked, told, write)
		add(both, "flags %#x of both blocks beside a WRITE", v)
		further := slices.Concat(ack, make([]byte, 8*min(v, 64)))
		further[6] = byte(v)
		add(packet(wire.BaseFields{Flags: wire.FlagAck}, further), "%d further ranges", v)
	}
	for v := range uint16(20) {
		for _, private := range []int{0, 1, wire.MaxPrivateData} {
			m := wire.Reject{Reason: wire.RejectReason(v), Private: make([]byte, private)}
			add(packet(wire.BaseFields{}, controlBytes(wire.CtlREJ, 0, m.Append(nil))), "REJ reason %d, private data of %d", v, private)
		}
		term := wire.Op{Opcode: wire.OpTerm, Flags: whole, Reason: wire.TermReason(v), FailedOp: wire.OpWrite}
		add(packet(wire.BaseFields{Operations: true, Flags: wire.FlagSpace}, opBytes(term)), "TERM reason %d", v)
	}
	return slices.Concat(all, items(), requests(), shakes())
}

// shakes returns SHAKEs with valid and invalid fields.
func shakes() (all []kind) {
	good := wire.Shake{ConnID: 1, Nonce: 2, UDPPort: 3, HaveInitial: 4, HaveHandshake: 5, Offset: 6, Total: 16, Bytes: []byte("0123456789")}
	add := func(what string, change func(body []byte) []byte) {
		body := change(good.Append(nil))
		all = append(all, kind{"SHAKE with " + what, packet(wire.BaseFields{}, controlBytes(wire.CtlSHAKE, 0, body))})
	}
	set := func(at int, v byte) func([]byte) []byte {
		return func(b []byte) []byte { b[at] = v; return b }
	}
	add("bytes", func(b []byte) []byte { return b })
	for level := range byte(4) {
		add(fmt.Sprint("level ", level), set(18, level))
	}
	add("another byte", set(19, 1))
	add("connection id zero", set(7, 0))
	add("UDP port zero", set(17, 0))
	add("bytes behind the total", set(27, 15))
	add("no bytes and an offset", func(b []byte) []byte { return b[:28] })
	add("no bytes", func(b []byte) []byte { clear(b[24:28]); return b[:28] })
	add("the most bytes", func(b []byte) []byte {
		b[26] = 0x40
		return append(b[:28], make([]byte, wire.MaxShakeBytes)...)
	})
	add("one byte more", func(b []byte) []byte {
		b[26] = 0x40
		return append(b[:28], make([]byte, wire.MaxShakeBytes+1)...)
	})
	return all
}

// requests returns REQ and REP with and without blocks, with bodies up to and beyond the longest allowed.
func requests() (all []kind) {
	ack, report := (&wire.Ack{Largest: 7, N: 1}).Append(nil), (&wire.Report{}).Append(nil)
	for _, op := range []wire.Opcode{wire.CtlREQ, wire.CtlREP} {
		for _, more := range []int{0, 1096, 1100, 1112, 1116} { // bytes of a grease item and its padding
			body := (&wire.Hello{ConnID: 1, MaxPacket: 1408, Window: 1}).Append(nil)
			if more > 0 {
				body = binary.BigEndian.AppendUint16(body, uint16(wire.ItemGrease))
				body = binary.BigEndian.AppendUint16(body, uint16(more-4))
				body = append(body, make([]byte, more)...)[:wire.HelloLen+more]
			}
			for v, blocks := range map[wire.Flags][]byte{0: nil, wire.FlagAck: ack, wire.FlagReport: report, wire.FlagAck | wire.FlagReport: slices.Concat(ack, report)} {
				var pad []byte
				if op == wire.CtlREQ {
					pad = make([]byte, max(0, wire.MinPacket-wire.BaseHeaderLen-len(blocks)-wire.ControlHeaderLen-len(body)))
				}
				all = append(all, kind{fmt.Sprintf("%v, body of %d, flags %#x", op, len(body), v), packet(wire.BaseFields{Flags: v}, blocks, controlBytes(op, 0, body), pad)})
			}
		}
	}
	return all
}

// items returns REQ and REP with items of every defined type, of some undefined types, and grease, with valid and invalid lengths.
func items() (all []kind) {
	for _, op := range []wire.Opcode{wire.CtlREQ, wire.CtlREP} {
		for _, typ := range []wire.ItemType{0, wire.ItemCookie, wire.ItemPrivate, 3, wire.ItemHello, 77, wire.ItemGrease - 1, wire.ItemGrease, 0xf123, 0xffff} {
			for _, n := range []int{0, 1, 3, 4, 15, 16, 17, 32, 512, 513} {
				body := (&wire.Hello{ConnID: 1, MaxPacket: 1408, Window: 1}).Append(nil)
				body = binary.BigEndian.AppendUint16(body, uint16(typ))
				body = binary.BigEndian.AppendUint16(body, uint16(n))
				body = append(body, make([]byte, (n+3)&^3)...)
				b := packet(wire.BaseFields{}, controlBytes(op, 0, body), make([]byte, max(0, wire.MinPacket-wire.ControlOffset-wire.ControlHeaderLen-len(body))))
				if op == wire.CtlREP {
					b = packet(wire.BaseFields{}, controlBytes(op, 0, body))
				}
				all = append(all, kind{fmt.Sprintf("%v with item %#x of %d", op, uint16(typ), n), b})
			}
		}
	}
	return all
}

// TestDissectorKnowsEveryKind gives every value of every field that selects a kind to both decoders (PROTOCOL §3.2, §3.5, §3.6, §4,
// §5, §7.1, §8). They agree on which values are defined, field by field, and on their names. A new kind fails here until both know
// it.
func TestDissectorKnowsEveryKind(t *testing.T) {
	all := kinds()
	packets := make([][]byte, len(all))
	for i, k := range all {
		packets[i] = k.b
	}
	extra := []string{"_ws.col.Info", "_ws.expert.message", "ndxdp.malformed", "ndxdp.unknown"}
	got := dissect(t, writePackets(t, peer4, 0, packets...), append(allFields(t), extra...))
	if len(got) != len(all) {
		t.Fatalf("tshark saw %d packets of %d", len(got), len(all))
	}
	shown := map[string]bool{}
	for i, k := range all {
		info, expert := strings.Join(got[i]["_ws.col.Info"], " "), strings.Join(got[i]["_ws.expert.message"], " ")
		bad := got[i]["ndxdp.malformed"] != nil || got[i]["ndxdp.unknown"] != nil
		want, d := decode(k.b)
		if bad != (d != wire.DropNone) {
			t.Errorf("%s: Go says %v, Lua %q %q", k.name, d, info, expert)
		}
		if bad || d != wire.DropNone {
			continue
		}
		for _, name := range extra {
			delete(got[i], name)
		}
		if diff := want.differences(got[i]); diff != "" {
			t.Errorf("%s: the decoders disagree:\n%s", k.name, diff)
		}
		for _, field := range []string{"ndxdp.ctl.code", "ndxdp.op.code"} {
			for _, v := range want[field] {
				n, _ := strconv.Atoi(v)
				name := wire.Opcode(n).String()
				if shown[name] = true; !strings.Contains(info, name) {
					t.Errorf("%s: %q does not name %s", k.name, info, name)
				}
			}
		}
		for _, v := range want["ndxdp.rej.reason"] {
			n, _ := strconv.Atoi(v)
			checkName(t, k.name, info, "("+v+")", wire.RejectReason(n).String())
			shown["REJ "+wire.RejectReason(n).String()] = true
		}
		for _, v := range want["ndxdp.op.reason"] {
			n, _ := strconv.Atoi(v)
			checkName(t, k.name, expert, "ends "+v, wire.TermReason(n).String())
			shown["TERM "+wire.TermReason(n).String()] = true
		}
	}
	for v := range 256 {
		for _, name := range []string{wire.Opcode(v).String(), "REJ " + wire.RejectReason(v).String(), "TERM " + wire.TermReason(v).String()} {
			if !shown[name] && !strings.HasSuffix(name, "unknown") {
				t.Errorf("no packet has %s", name)
			}
		}
	}
}

// checkName checks that the dissector has a name exactly for values that have one in Go. For other values it shows the number.
func checkName(t *testing.T, kind, shows, number, name string) {
	t.Helper()
	if strings.Contains(shows, number) != (name == "unknown") {
		t.Errorf("%s: the dissector shows %q, Go %q", kind, shows, name)
	}
}

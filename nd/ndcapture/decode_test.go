package ndcapture

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ndxdp/ndxdp/wire"
)

// fields has the values of a packet, by the dissector's field names, in the order in which they appear.
type fields map[string][]string

func (f fields) num(name string, values ...uint64) {
	for _, v := range values {
		f["ndxdp."+name] = append(f["ndxdp."+name], fmt.Sprint(v))
	}
}

func (f fields) flag(name string, set bool) {
	f.num(name, map[bool]uint64{true: 1}[set])
}

func (f fields) bytes(name string, b []byte) {
	if len(b) > 0 {
		f["ndxdp."+name] = append(f["ndxdp."+name], hex.EncodeToString(b))
	}
}

// differences returns the fields that another decoder reads in another way, each in a line.
func (f fields) differences(other fields) string {
	var lines strings.Builder
	all := maps.Clone(f)
	maps.Copy(all, other)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !slices.Equal(f[name], other[name]) {
			fmt.Fprintf(&lines, "%s: Go %q, Lua %q\n", name, f[name], other[name])
		}
	}
	return lines.String()
}

// decode reads a packet with the codec of package wire, and returns the reason why a receiver would drop it.
func decode(b []byte) (fields, wire.DropReason) {
	f := fields{}
	h, d := wire.ParseBaseHeader(b)
	if d != wire.DropNone {
		return f, d
	}
	f.num("version", 3)
	f.num("type", kindOf(h))
	f.num("flags", uint64(h.Flags()))
	for i, name := range []string{"ackreq", "space", "ack", "report", "end", "secure", "long"} {
		f.flag("flags."+name, h.Flags()>>i&1 != 0)
	}
	if h.Secure() && h.Control() {
		f.num("from_port", uint64(h.Message()))
	} else {
		f.num("message", uint64(h.Message()))
	}
	f.num("number", uint64(h.Number()))
	f.num("conn_id", h.ConnID())
	f.num("offset", uint64(h.Offset()))
	if h.Secure() {
		return f, f.sealed(b[wire.BaseHeaderLen:], h)
	}
	f.num("crc", uint64(h.CRC()))
	at, d := wire.ContentOffset(b)
	if d == wire.DropNone {
		d = f.blocks(b, h)
	}
	switch {
	case d != wire.DropNone:
	case h.Control():
		d = f.control(b, at)
	case h.Piece():
		if at == len(b) { // a segment is not empty (PROTOCOL §4)
			d = wire.DropLength
		}
		f.bytes("piece", b[at:])
	default:
		d = f.operations(b[at:], h)
	}
	return f, d
}

// kindOf returns the type of a packet.
func kindOf(h wire.BaseHeader) uint64 {
	switch {
	case h.Control():
		return 0
	case h.Piece():
		return 2
	}
	return 1
}

// sealed reads a sealed packet as far as it is visible (PROTOCOL §10.1).
func (f fields) sealed(b []byte, h wire.BaseHeader) wire.DropReason {
	f.num("generation", uint64(h.Generation()))
	if len(b) < wire.TagLen {
		return wire.DropShort
	}
	f.bytes("sealed", b[:len(b)-wire.TagLen])
	f.bytes("tag", b[len(b)-wire.TagLen:])
	return wire.DropNone
}

// handshake has the place of handshake bytes and the bytes.
func (f fields) handshake(offset, total uint16, b []byte) {
	f.num("shake.offset", uint64(offset))
	f.num("shake.total", uint64(total))
	f.bytes("shake.bytes", b)
}

// blocks reads the ACK and the REPORT block.
func (f fields) blocks(b []byte, h wire.BaseHeader) (d wire.DropReason) {
	rest := b[wire.BaseHeaderLen:]
	if h.Flags()&wire.FlagAck != 0 {
		var a wire.Ack
		if rest, d = wire.ParseAck(rest, &a); d != wire.DropNone {
			return d
		}
		f.ack(&a)
	}
	if h.Flags()&wire.FlagReport == 0 {
		return wire.DropNone
	}
	var r wire.Report
	if d := wire.ParseReport(rest, &r); d != wire.DropNone {
		return d
	}
	f.num("limit", uint64(r.ReceiveLimit))
	f.num("report.message", uint64(r.Message))
	f.num("report.offset", uint64(r.Offset))
	f.num("report.up_to", uint64(r.UpTo))
	f.num("report.load", uint64(r.Load))
	f.num("report.flags", uint64(r.Flags))
	f.flag("report.flags.rnr", r.Flags&wire.ReportRNR != 0)
	f.flag("report.flags.taken_back", r.Flags&wire.ReportTakenBack != 0)
	f.num("report.ce_count", uint64(r.CECount))
	return wire.DropNone
}

func (f fields) ack(a *wire.Ack) {
	f.num("ack.largest", uint64(a.Largest))
	f.num("ack.delay", uint64(a.Delay))
	f.num("ack.further", uint64(a.N-1))
	f.num("ack.flags", uint64(a.Flags))
	f.flag("ack.flags.ce", a.Flags&wire.AckCE != 0)
	f.flag("ack.flags.away", a.Flags&wire.AckAway != 0)
	for i, r := range a.Ranges[:a.N] {
		if i > 0 {
			f.num("ack.gap", uint64(r.First-a.Ranges[i-1].Last-2))
		}
		f.num("ack.length", uint64(r.Last-r.First))
		f.num("ack.high", uint64(a.Largest-r.First))
		f.num("ack.low", uint64(a.Largest-r.Last))
	}
}

// operations walks the operations in the layout of PROTOCOL §4. Each begins a message, except MORE and TERM. MORE is the first of
// its packet and continues a message. TERM may stand anywhere.
func (f fields) operations(b []byte, h wire.BaseHeader) wire.DropReason {
	message, inside := h.Message(), h.Offset() > 0
	for at := 0; ; {
		if len(b) == at {
			return wire.DropLength
		}
		var op wire.Op
		n, d := wire.ParseOp(b[at:], h.Space(), &op)
		if d != wire.DropNone {
			return d
		}
		more := op.Opcode == wire.OpMore
		if op.Opcode != wire.OpTerm && more != inside || more && at > 0 {
			return wire.DropLength
		}
		end := at + n + int(op.Length)
		if end > len(b) {
			return wire.DropLength
		}
		f.operation(&op)
		f.num("op.message", uint64(message))
		f.bytes("op.payload", b[at+n:end])
		if end == len(b) {
			return wire.DropNone
		}
		inside = op.Flags&wire.OpLast == 0
		if !inside {
			message++
		}
		at = (end + wire.OpAlign - 1) &^ (wire.OpAlign - 1)
		if at > len(b) {
			return wire.DropLength
		}
		f.bytes("op.padding", b[end:at])
	}
}

func (f fields) operation(op *wire.Op) {
	last := op.Flags&wire.OpLast != 0
	f.num("op.code", uint64(op.Opcode))
	f.num("op.flags", uint64(op.Flags))
	f.flag("op.flags.last", last)
	f.flag("op.flags.solicit", op.Flags&wire.OpSolicit != 0)
	f.num("op.length", uint64(op.Length))
	switch op.Opcode {
	case wire.OpWrite:
		f.num("op.address", op.Address)
		f.num("op.token", uint64(op.Token))
		if !last {
			f.num("op.total", uint64(op.Total))
		}
	case wire.OpReadReq:
		f.num("op.address", op.Address)
		f.num("op.token", uint64(op.Token))
		f.num("op.read_length", uint64(op.Total))
		f.num("op.number", uint64(op.Number))
	case wire.OpReadResp:
		f.num("op.total", uint64(op.Total))
	case wire.OpTerm:
		f.num("op.reason", uint64(op.Reason))
		f.num("op.failed_code", uint64(op.FailedOp))
		f.num("op.zero", 0)
		f.num("op.number", uint64(op.Number))
	case wire.OpSend, wire.OpSendInv, wire.OpSendImm:
		f.num("op.number", uint64(op.Number))
		f.num("op.total", uint64(op.Total))
		third := map[wire.Opcode]string{wire.OpSend: "op.zero", wire.OpSendInv: "op.invalidate", wire.OpSendImm: "op.immediate"}
		f.num(third[op.Opcode], uint64(op.Imm))
	}
}

func (f fields) control(b []byte, at int) wire.DropReason {
	c, d := wire.ParseControl(b, at, len(b))
	if d != wire.DropNone || c.Opcode == 0 {
		return d
	}
	f.num("ctl.code", uint64(c.Opcode))
	f.num("ctl.flags", uint64(c.Flags))
	f.flag("ctl.flags.abort", c.Flags&wire.CtlFlagAbort != 0)
	f.num("ctl.length", uint64(len(c.Body)))
	f.bytes("ctl.padding", b[at+wire.ControlHeaderLen+len(c.Body):])
	switch c.Opcode {
	case wire.CtlREQ, wire.CtlREP:
		return f.hello(c.Body)
	case wire.CtlPing:
		var p wire.Ping
		d := wire.ParsePing(c.Body, &p)
		f.num("nonce", uint64(p.Nonce))
		f.num("ping.udp_port", uint64(p.Port))
		f.num("ping.zero", 0)
		return d
	case wire.CtlPong:
		f.num("nonce", uint64(binary.BigEndian.Uint32(c.Body))) // ParseControl checked the length
		return wire.DropNone
	case wire.CtlChallenge, wire.CtlResponse:
		f.num("challenge", binary.BigEndian.Uint64(c.Body)) // the same
		return wire.DropNone
	case wire.CtlProbe, wire.CtlProbeAck:
		var p wire.Probe
		d := wire.ParseProbe(c.Body, &p)
		f.num("nonce", uint64(p.Nonce))
		f.num("probe.size", uint64(p.Size))
		f.num("probe.zero", 0)
		return d
	default:
		return f.ending(&c)
	}
}

// ending reads the control messages that refuse, end or complete a connection.
func (f fields) ending(c *wire.Control) wire.DropReason {
	switch c.Opcode {
	case wire.CtlRETRY:
		cookie, d := wire.ParseCookie(c.Body)
		f.bytes("cookie", cookie)
		return d
	case wire.CtlRTU:
		var u wire.RTU
		d := wire.ParseRTU(c.Body, &u)
		f.num("limit", uint64(u.ReceiveLimit))
		return d
	case wire.CtlREJ:
		var r wire.Reject
		d := wire.ParseReject(c.Body, &r)
		f.num("rej.reason", uint64(r.Reason))
		f.num("rej.private_length", uint64(len(r.Private)))
		f.bytes("private", r.Private)
		return d
	case wire.CtlSHAKE:
		var m wire.Shake
		if d := wire.ParseShake(c.Body, &m); d != wire.DropNone {
			return d
		}
		f.num("hello.conn_id", m.ConnID)
		f.num("hello.nonce", m.Nonce)
		f.num("hello.udp_port", uint64(m.UDPPort))
		f.num("shake.level", uint64(m.Level))
		f.num("shake.zero", 0)
		f.num("shake.have_initial", uint64(m.HaveInitial))
		f.num("shake.have_handshake", uint64(m.HaveHandshake))
		f.handshake(m.Offset, m.Total, m.Bytes)
		return wire.DropNone
	case wire.CtlRST:
		var r wire.Reset
		d := wire.ParseReset(c.Body, &r)
		f.num("rst.conn_id", r.ConnID)
		f.num("rst.number", uint64(r.Number))
		f.num("rst.zero", 0)
		f.bytes("reset_token", r.Token[:])
		return d
	default:
		return wire.DropNone
	}
}

func (f fields) hello(body []byte) wire.DropReason {
	var m wire.Hello
	if d := wire.ParseHello(body, &m); d != wire.DropNone {
		return d
	}
	f.num("hello.conn_id", m.ConnID)
	f.num("hello.nonce", m.Nonce)
	f.num("hello.src_port", uint64(m.SrcPort))
	f.num("hello.dst_port", uint64(m.DstPort))
	f.num("hello.features", uint64(m.Features))
	f.num("hello.min_version", uint64(m.MinVersion))
	f.num("hello.max_version", uint64(m.MaxVersion))
	f.num("hello.udp_port", uint64(m.UDPPort))
	f.num("hello.ird", uint64(m.IRD))
	f.num("hello.ord", uint64(m.ORD))
	f.num("hello.window", uint64(m.Window))
	f.num("hello.max_packet", uint64(m.MaxPacket))
	f.num("limit", uint64(m.ReceiveLimit))
	f.bytes("reset_token", m.ResetToken[:])
	return f.items(body[wire.HelloLen:])
}

// items walks the items in the layout of PROTOCOL §7.1.
func (f fields) items(b []byte) wire.DropReason {
	for last := wire.ItemType(0); len(b) > 0; {
		it, rest, d := wire.ParseItem(b, last)
		if d != wire.DropNone {
			return d
		}
		f.num("item.type", uint64(it.Type))
		f.num("item.length", uint64(len(it.Value)))
		switch it.Type {
		case wire.ItemCookie:
			f.bytes("cookie", it.Value)
		case wire.ItemPrivate:
			f.bytes("private", it.Value)
		case wire.ItemBulkPort: // PROTOCOL §11.1
			f.num("bulk_port", uint64(binary.BigEndian.Uint16(it.Value))) // ParseHello checked the length
		case wire.ItemHello: // ParseHello checked the length
			f.handshake(binary.BigEndian.Uint16(it.Value), binary.BigEndian.Uint16(it.Value[2:]), it.Value[4:])
		default:
			f.bytes("item.unknown", it.Value)
		}
		f.bytes("item.padding", b[4+len(it.Value):len(b)-len(rest)])
		b, last = rest, it.Type
	}
	return wire.DropNone
}

package ndcapture

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/bits"

	"github.com/ndxdp/ndxdp/wire"
)

// fields are the values of a packet under the names that the dissector gives them, in the order in which they appear.
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

// decode reads a packet with the codec of package wire, and says why a receiver would drop it.
func decode(b []byte) (fields, wire.DropReason) {
	f := fields{}
	h, d := wire.ParseBaseHeader(b)
	if d != wire.DropNone {
		return f, d
	}
	f.num("version", 1)
	f.num("zero", 0)
	f.num("op_count", uint64(h.OpCount()))
	f.num("flags", uint64(h.Flags()))
	for i, name := range []string{"ackreq", "rtx", "ce", "space", "keyphase", "ext", "away"} {
		f.flag("flags."+name, h.Flags()>>i&1 != 0)
	}
	f.num("psn", uint64(h.PSN()))
	f.num("conn_id", h.ConnID())
	f.num("next.request", uint64(h.NextPSN(wire.RequestSpace)))
	f.num("next.response", uint64(h.NextPSN(wire.ResponseSpace)))
	f.num("tx_time", uint64(h.TxTime()))
	f.num("echo", uint64(h.Echo()))
	f.num("crc", uint64(h.CRC()))
	switch {
	case h.OpCount() == 0:
		d = f.control(b, h)
	case h.Flags()&wire.FlagExt != 0:
		d = f.part(b[wire.BaseHeaderLen:])
	default:
		d = f.operations(b[wire.BaseHeaderLen:], h)
	}
	return f, d
}

func (f fields) part(b []byte) wire.DropReason {
	var p wire.Part
	if d := wire.ParsePart(b, len(b)-wire.PartLen, &p); d != wire.DropNone {
		return d
	}
	from, _ := p.Range()
	f.num("part.type", 1)
	f.num("part.index", uint64(p.Index))
	f.num("part.count", uint64(p.Count))
	f.num("part.zero", 0, 0)
	f.num("part.total", uint64(p.Total))
	f.num("part.offset", uint64(from))
	f.bytes("part.data", b[wire.PartLen:])
	return wire.DropNone
}

// operations walks the operations as PROTOCOL §4 lays them out.
func (f fields) operations(b []byte, h wire.BaseHeader) wire.DropReason {
	for i, at := 0, 0; i < h.OpCount(); i++ {
		if start := (at + wire.OpAlign - 1) &^ (wire.OpAlign - 1); i > 0 && start > at {
			if start > len(b) {
				return wire.DropLength
			}
			f.bytes("op.padding", b[at:start])
			at = start
		}
		if len(b)-at < wire.OpHeaderLen {
			return wire.DropLength
		}
		var op wire.Op
		if d := wire.ParseOp(b[at:], h.Space(), &op); d != wire.DropNone {
			return d
		}
		end := at + wire.OpHeaderLen + int(op.Length)
		if end > len(b) {
			return wire.DropLength
		}
		// PROTOCOL §4: a READ_RESP whose LAST disagrees with offset and total is a protocol error.
		if op.Opcode == wire.OpReadResp && (op.Flags&wire.OpLast != 0) != (op.Offset+uint32(op.Length) == op.Total) {
			return wire.DropLength
		}
		f.operation(&op)
		if op.Opcode != wire.OpReadReq {
			f.bytes("op.payload", b[at+wire.OpHeaderLen:end])
		}
		at = end
		if i == h.OpCount()-1 && at < len(b) {
			return wire.DropTrailing
		}
	}
	return wire.DropNone
}

func (f fields) operation(op *wire.Op) {
	f.num("op.code", uint64(op.Opcode))
	f.num("op.flags", uint64(op.Flags))
	f.flag("op.flags.first", op.Flags&wire.OpFirst != 0)
	f.flag("op.flags.last", op.Flags&wire.OpLast != 0)
	f.flag("op.flags.solicit", op.Flags&wire.OpSolicit != 0)
	f.num("op.length", uint64(op.Length))
	switch op.Opcode {
	case wire.OpWrite:
		f.num("op.address", op.Address)
		f.num("op.token", uint64(op.Token))
	case wire.OpReadReq:
		f.num("op.address", op.Address)
		f.num("op.token", uint64(op.Token))
		f.num("op.read_length", uint64(op.Total))
		f.num("op.zero", 0)
	case wire.OpTerm:
		f.num("op.reason", uint64(op.Reason))
		f.num("op.failed_code", uint64(op.FailedOp))
		f.num("op.zero", 0)
		f.num("op.failed_psn", uint64(op.FailedPSN))
		f.num("op.detail", uint64(op.Detail))
	default:
		f.num("op.offset", uint64(op.Offset))
		f.num("op.total", uint64(op.Total))
		last := map[wire.Opcode]string{wire.OpSendInv: "op.invalidate", wire.OpSendImm: "op.immediate"}[op.Opcode]
		if last == "" {
			last = "op.zero"
		}
		f.num(last, uint64(op.Imm))
	}
	f.num("op.number", uint64(op.Number))
}

func (f fields) control(b []byte, h wire.BaseHeader) wire.DropReason {
	c, d := wire.ParseControl(b, len(b))
	if d != wire.DropNone {
		return d
	}
	f.num("ctl.code", uint64(c.Opcode))
	f.num("ctl.flags", uint64(c.Flags))
	f.flag("ctl.flags.abort", c.Flags&wire.CtlFlagAbort != 0)
	f.num("ctl.length", uint64(len(c.Body)))
	f.bytes("ctl.padding", b[wire.ControlOffset+wire.ControlHeaderLen+len(c.Body):])
	switch c.Opcode {
	case wire.CtlAck:
		return f.ack(c.Body, h)
	case wire.CtlREQ, wire.CtlREP:
		return f.hello(c.Body)
	case wire.CtlPing, wire.CtlPong:
		f.num("nonce", uint64(binary.BigEndian.Uint32(c.Body))) // ParseControl checked the length
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
	case wire.CtlRST:
		var r wire.Reset
		d := wire.ParseReset(c.Body, &r)
		f.num("rst.conn_id", r.ConnID)
		f.num("rst.psn", uint64(r.PSN))
		f.num("rst.zero", 0)
		f.bytes("reset_token", r.Token[:])
		return d
	default:
		return wire.DropNone
	}
}

func (f fields) ack(body []byte, h wire.BaseHeader) wire.DropReason {
	var a wire.Ack
	if d := wire.ParseAck(body, &a); d != wire.DropNone {
		return d
	}
	f.num("limit", uint64(a.ReceiveLimit))
	f.num("ack.load", uint64(a.Load))
	f.num("ack.flags", uint64(a.Flags))
	f.flag("ack.flags.rnr", a.Flags&wire.AckRNR != 0)
	f.num("ack.ce_count", uint64(a.CECount))
	f.num("ack.accepted", uint64(a.Accepted))
	f.num("ack.duplicates", uint64(a.Duplicates))
	for s, name := range []string{"ack.request_", "ack.response_"} {
		f.num(name+"words", uint64(a.Words[s]))
		for i, word := range a.Bitmap[s][:a.Words[s]] {
			f.num(name+"bitmap", word)
			for ; word != 0; word &= word - 1 {
				psn := h.NextPSN(wire.Space(s)) + 1 + wire.PSN(64*i+bits.TrailingZeros64(word))
				f.num(name+"psn", uint64(psn))
			}
		}
	}
	return wire.DropNone
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
	f.num("hello.zero", 0, 0)
	f.num("hello.ird", uint64(m.IRD))
	f.num("hello.ord", uint64(m.ORD))
	f.num("hello.window", uint64(m.Window))
	f.num("hello.max_packet", uint64(m.MaxPacket))
	f.num("limit", uint64(m.ReceiveLimit))
	f.num("hello.first_request", uint64(m.FirstPSN[wire.RequestSpace]))
	f.num("hello.first_response", uint64(m.FirstPSN[wire.ResponseSpace]))
	f.bytes("reset_token", m.ResetToken[:])
	return f.items(body[wire.HelloLen:])
}

// items walks the items as PROTOCOL §7.1 lays them out.
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
		default:
			f.bytes("item.unknown", it.Value)
		}
		f.bytes("item.padding", b[4+len(it.Value):len(b)-len(rest)])
		b, last = rest, it.Type
	}
	return wire.DropNone
}

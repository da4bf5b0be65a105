package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// The oracle decodes packets the slow way, with binary.Read into structs that repeat the tables of PROTOCOL.md. It shares neither
// offsets nor code with the codecs that it checks.

type oracleBase struct {
	VersionType, Flags uint8
	Message            uint16
	Number             uint32
	ConnID             uint64
	Offset, CRC        uint32
}

type oracleOpHeader struct {
	Opcode, Flags uint8
	Length        uint16
}

type oracleHello struct {
	ConnID, Nonce                   uint64
	SrcPort, DstPort                uint16
	Features                        uint32
	MinVersion, MaxVersion          uint8
	UDPPort                         uint16
	IRD, ORD                        uint16
	Window, MaxPacket, ReceiveLimit uint32
	Token                           [16]byte
}

type oracleAck struct {
	Largest        uint32
	Delay          uint16
	Further, Flags uint8
	Length         uint32 // the length minus one
}

type oracleReport struct {
	ReceiveLimit, Offset, UpTo uint32
	Load, Flags                uint8
	Message                    uint16
	CECount                    uint32
}

// mustRead fills v from r. The oracle only gets bytes that the codec accepted or produced, so it may panic.
func mustRead(r *bytes.Reader, v any) {
	if err := binary.Read(r, binary.BigEndian, v); err != nil {
		panic(fmt.Sprintf("oracle: %v", err))
	}
}

func mustBytes(r *bytes.Reader, n int) []byte {
	if n == 0 {
		return nil
	}
	b := make([]byte, n)
	mustRead(r, b)
	return b
}

// oracleReadBase reads the fields and the CRC of a base header.
func oracleReadBase(b []byte) (BaseFields, uint32) {
	var o oracleBase
	mustRead(bytes.NewReader(b), &o)
	f := BaseFields{Flags: Flags(o.Flags), Message: uint32(o.Message), Number: uint64(o.Number), Offset: o.Offset, ConnID: o.ConnID}
	switch o.VersionType {
	case 0x30:
	case 0x31:
		f.Operations = true
	case 0x32:
		f.Piece = true
	default:
		panic("oracle: version and type")
	}
	return f, o.CRC
}

// oracleReadOp reads one operation header, and returns its length.
func oracleReadOp(b []byte) (op Op, n int) {
	r := bytes.NewReader(b)
	var h oracleOpHeader
	mustRead(r, &h)
	op = Op{Opcode: Opcode(h.Opcode), Flags: OpFlags(h.Flags), Length: h.Length}
	switch h.Opcode {
	case 0x01:
		var o struct {
			Token   uint32
			Address uint64
		}
		mustRead(r, &o)
		op.Token, op.Address, op.Total = o.Token, o.Address, uint32(h.Length)
		if h.Flags&2 == 0 {
			mustRead(r, &op.Total)
		}
	case 0x02, 0x03, 0x04:
		var o struct{ Number, Total, Last uint32 }
		mustRead(r, &o)
		op.Number, op.Total, op.Imm = o.Number, o.Total, o.Last
	case 0x05:
		var o struct {
			Token          uint32
			Address        uint64
			Length, ReadID uint32
		}
		mustRead(r, &o)
		op.Token, op.Address, op.Total, op.Number = o.Token, o.Address, o.Length, o.ReadID
	case 0x06:
		mustRead(r, &op.Total)
	case 0x07:
		var o struct {
			Reason       uint16
			Opcode, Zero uint8
			Message      uint32
		}
		mustRead(r, &o)
		op.Reason, op.FailedOp, op.Number = TermReason(o.Reason), Opcode(o.Opcode), o.Message
	case 0x08:
	default:
		panic("oracle: opcode")
	}
	return op, len(b) - r.Len()
}

// oracleReadControl reads a control message and returns its body as the value the codec would produce.
func oracleReadControl(message []byte) (opcode Opcode, flags uint8, body any) {
	r := bytes.NewReader(message)
	var h oracleOpHeader // a control header has the same shape
	mustRead(r, &h)
	switch h.Opcode {
	case 0x11:
		var o struct {
			Nonce      uint32
			Port, Zero uint16
		}
		mustRead(r, &o)
		body = Ping{o.Nonce, o.Port}
	case 0x12:
		var nonce uint32
		mustRead(r, &nonce)
		body = nonce
	case 0x15, 0x16:
		var nonce uint64
		mustRead(r, &nonce)
		body = nonce
	case 0x13, 0x14:
		var p Probe
		mustRead(r, &p)
		body = p
	case 0x20, 0x23:
		body = oracleReadHello(bytes.NewReader(mustBytes(r, int(h.Length)))) // a REQ is padded
	case 0x21:
		body = [16]byte(mustBytes(r, 16))
	case 0x25:
		var rtu RTU
		mustRead(r, &rtu)
		body = rtu
	case 0x26:
		var o struct{ Reason, Length uint16 }
		mustRead(r, &o)
		body = Reject{RejectReason(o.Reason), mustBytes(r, int(o.Length))}
	case 0x29:
		var o struct {
			ConnID       uint64
			Number, Zero uint32
			Token        [16]byte
		}
		mustRead(r, &o)
		body = Reset{o.ConnID, o.Number, o.Token}
	}
	if h.Opcode == 0x2a {
		var o struct {
			ConnID, Nonce                 uint64
			Port                          uint16
			Level, Flags                  uint8
			Initial, Handshake, At, Total uint16
		}
		mustRead(r, &o)
		body = Shake{o.ConnID, o.Nonce, o.Port, ShakeLevel(o.Level), o.Initial, o.Handshake, o.At, o.Total, mustBytes(r, int(h.Length)-28)}
	}
	return Opcode(h.Opcode), h.Flags, body
}

func oracleReadAck(r *bytes.Reader) Ack {
	var o oracleAck
	mustRead(r, &o)
	a := Ack{Largest: o.Largest, Delay: o.Delay, Flags: AckFlags(o.Flags), N: 1 + int(o.Further)}
	lowest := int64(o.Largest) - int64(o.Length)
	a.Ranges[0].Last = o.Length
	for i := 1; i < a.N; i++ {
		var further struct{ Gap, Length uint32 }
		mustRead(r, &further)
		highest := lowest - int64(further.Gap) - 2
		lowest = highest - int64(further.Length)
		a.Ranges[i] = AckRange{uint32(int64(o.Largest) - highest), uint32(int64(o.Largest) - lowest)}
	}
	return a
}

func oracleReadReport(r *bytes.Reader) Report {
	var o oracleReport
	mustRead(r, &o)
	return Report{
		ReceiveLimit: o.ReceiveLimit, Message: o.Message, Offset: o.Offset, UpTo: o.UpTo, Load: o.Load, Flags: ReportFlags(o.Flags),
		CECount: o.CECount,
	}
}

func oracleReadHello(r *bytes.Reader) Hello {
	var o oracleHello
	mustRead(r, &o)
	h := Hello{
		ConnID: o.ConnID, Nonce: o.Nonce, SrcPort: o.SrcPort, DstPort: o.DstPort, Features: o.Features,
		MinVersion: o.MinVersion, MaxVersion: o.MaxVersion, UDPPort: o.UDPPort, IRD: o.IRD, ORD: o.ORD, Window: o.Window,
		MaxPacket: o.MaxPacket, ReceiveLimit: o.ReceiveLimit, ResetToken: o.Token,
	}
	for r.Len() > 0 {
		var it struct{ Type, Length uint16 }
		mustRead(r, &it)
		value := mustBytes(r, int(it.Length))
		mustBytes(r, (4-int(it.Length)%4)%4)
		switch it.Type {
		case 1:
			h.Cookie = value
		case 2:
			h.Private = value
		case 3:
			h.BulkPort = uint16(value[0])<<8 | uint16(value[1])
		case 4:
			h.Fragment = HelloFragment{Offset: uint16(value[0])<<8 | uint16(value[1]), Total: uint16(value[2])<<8 | uint16(value[3]), Bytes: value[4:]}
		default:
			h.Grease = Item{ItemType(it.Type), value}
		}
	}
	return h
}

// oracleCRC is CRC32C one bit at a time over the full numbers and the packet (PROTOCOL §3.4).
func oracleCRC(number uint64, message uint32, packet []byte) uint32 {
	var covered []byte
	for shift := 56; shift >= 0; shift -= 8 {
		covered = append(covered, byte(number>>shift))
	}
	for shift := 24; shift >= 0; shift -= 8 {
		covered = append(covered, byte(message>>shift))
	}
	covered = append(covered, packet[0:20]...)
	covered = append(covered, packet[24:]...)
	crc := ^uint32(0)
	for _, b := range covered {
		crc ^= uint32(b)
		for range 8 {
			if crc&1 != 0 {
				crc = crc>>1 ^ 0x82f63b78
			} else {
				crc >>= 1
			}
		}
	}
	return ^crc
}

// oracleSum returns the Internet checksum by its definition: add 16-bit words, the last one padded with a zero byte.
func oracleSum(b []byte) uint16 {
	var sum uint32
	for i := 0; i < len(b); i += 2 {
		w := uint32(b[i]) << 8
		if i+1 < len(b) {
			w |= uint32(b[i+1])
		}
		sum += w
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}

package link

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

// ConnID returns the connection id of a packet, or zero if the packet is too short to have one.
func (p *RxPacket) ConnID() uint64 {
	if h, short := wire.ParseBaseHeader(p.Frags[0].Data); short == wire.DropNone {
		return h.ConnID()
	}
	return 0
}

// Intact verifies the CRC32C over the full packet number, the full message number and all fragments (PROTOCOL §3.4).
func (p *RxPacket) Intact(h wire.BaseHeader, number uint64, message uint32) bool {
	crc := wire.SumFirst(number, message, p.Frags[0].Data)
	for i := 1; i < p.N; i++ {
		crc = wire.Sum(crc, p.Frags[i].Data)
	}
	return crc == h.CRC()
}

// Control parses the control message of a packet. A control message lies in one fragment, except for the padding of a PROBE.
func (p *RxPacket) Control(h wire.BaseHeader) (wire.Control, wire.DropReason) {
	if !h.Control() {
		return wire.Control{}, wire.DropControl
	}
	at, d := wire.ContentOffset(p.Frags[0].Data)
	if d != wire.DropNone {
		return wire.Control{}, d
	}
	msg, d := wire.ParseControl(p.Frags[0].Data, at, p.Len)
	if d != wire.DropNone || p.N == 1 {
		return msg, d
	}
	if msg.Opcode != wire.CtlProbe {
		return wire.Control{}, wire.DropControl
	}
	for i := 1; i < p.N; i++ {
		if !wire.AllZero(p.Frags[i].Data) {
			return wire.Control{}, wire.DropTrailing
		}
	}
	return msg, wire.DropNone
}

// ReadBlocks reads the ACK and REPORT blocks of a packet (PROTOCOL §3.5, §3.6), and sets At to the offset of the contents behind
// them.
func (p *RxPacket) ReadBlocks(h wire.BaseHeader, ack *wire.Ack, report *wire.Report) (d wire.DropReason) {
	first := p.Frags[0].Data
	if p.At, d = wire.ContentOffset(first); d != wire.DropNone || p.At == wire.BaseHeaderLen {
		return d
	}
	rest := first[wire.BaseHeaderLen:]
	if h.Flags()&wire.FlagAck != 0 {
		if rest, d = wire.ParseAck(rest, ack); d != wire.DropNone {
			return d
		}
	}
	if h.Flags()&wire.FlagReport != 0 {
		return wire.ParseReport(rest, report)
	}
	return wire.DropNone
}

// AsksForReset reports whether a control packet has a message other than RST.
func (p *RxPacket) AsksForReset() bool {
	first := p.Frags[0].Data
	at, d := wire.ContentOffset(first)
	return d == wire.DropNone && len(first) > at && wire.Opcode(first[at]) != wire.CtlRST
}

// ResetPort returns the UDP port on which the sender of a packet expects an RST. A PING names it, and every sealed control packet
// (PROTOCOL §10.1). For other packets it is the well-known port (PROTOCOL §7.4).
func (p *RxPacket) ResetPort(h wire.BaseHeader, wellKnown uint16) (uint16, wire.DropReason) {
	if !h.Control() {
		return wellKnown, wire.DropNone
	}
	if h.Secure() {
		if h.Message() == 0 {
			return 0, wire.DropControl
		}
		return h.Message(), wire.DropNone
	}
	msg, d := p.Control(h)
	if d != wire.DropNone || msg.Opcode != wire.CtlPing {
		return wellKnown, d
	}
	var ping wire.Ping
	if d = wire.ParsePing(msg.Body, &ping); d == wire.DropNone && ping.Port == 0 {
		d = wire.DropControl
	}
	return ping.Port, d
}

// farOff is the largest plausible difference between an arrival time and now. A larger one means that another clock made the
// timestamp, because no packet waits for so long.
const farOff = time.Minute

// Came returns when the packet reached this machine. If that is unknown, it returns now and false.
func (p *RxPacket) Came(now clock.Time) (at clock.Time, known bool) {
	if d := now.Sub(p.Arrived); p.Arrived == 0 || d > farOff || d < -farOff {
		return now, false
	}
	return min(p.Arrived, now), true
}

package wire

import "encoding/binary"

// Control is a decoded control header (PROTOCOL §5). Body aliases the packet.
type Control struct {
	Opcode Opcode
	Flags  uint8
	Body   []byte
}

// ParseControl decodes the control message of a control packet of total bytes, without the tag of a sealed packet (PROTOCOL §5). ParseBaseHeader has accepted the base
// header, and the message begins at offset at (ContentOffset). If the packet has only blocks, Opcode is zero. ParseControl checks
// the message except the fields of its body, which the parser of the body checks. packet is the first fragment. Further fragments,
// which only a PROBE has, are padding, and the caller checks that they are zero.
func ParseControl(packet []byte, at, total int) (Control, DropReason) {
	rest := packet[at:]
	if len(rest) == 0 && at > BaseHeaderLen && total == at {
		return Control{}, DropNone
	}
	if len(rest) < ControlHeaderLen {
		return Control{}, DropShort
	}
	c := Control{Opcode: Opcode(rest[0]), Flags: rest[1]}
	if !c.Opcode.IsControl() {
		return Control{}, DropOpcode
	}
	if c.Flags != 0 && (c.Opcode != CtlDREQ || c.Flags != CtlFlagAbort) {
		return Control{}, DropReserved
	}
	n := int(binary.BigEndian.Uint16(rest[2:]))
	rest = rest[ControlHeaderLen:]
	if n > len(rest) {
		return Control{}, DropShort
	}
	if least, most := bodyBounds(c.Opcode); n < least || n > most {
		return Control{}, DropLength
	}
	c.Body = rest[:n:n]
	tag := 0
	if Flags(packet[offFlags])&FlagSecure != 0 {
		tag = TagLen // the sizes in a message are sizes of whole packets
	}
	if r := checkPadding(&c, at, total, tag, rest[n:]); r != DropNone {
		return Control{}, r
	}
	return c, DropNone
}

// bodyBounds returns the shortest and the longest body of a control message (PROTOCOL §5, §7.1).
func bodyBounds(o Opcode) (least, most int) {
	switch o {
	case CtlPing:
		return PingLen, PingLen
	case CtlPong:
		return NonceLen, NonceLen
	case CtlProbe, CtlProbeAck:
		return ProbeLen, ProbeLen
	case CtlChallenge, CtlResponse:
		return ChallengeLen, ChallengeLen
	case CtlREQ, CtlREP:
		return HelloLen, maxHelloBody
	case CtlRETRY:
		return CookieLen, CookieLen
	case CtlRTU:
		return RTULen, RTULen
	case CtlREJ:
		return rejectLen, rejectLen + MaxPrivateData
	case CtlRST:
		return resetLen, resetLen
	case CtlSHAKE:
		return shakeLen, shakeLen + MaxShakeBytes
	default: // PEND, REPACK, DREQ, DREP
		return 0, 0
	}
}

// checkPadding checks the bytes behind the body (PROTOCOL §5, §7.1). There must be none, with three exceptions. A REQ has no
// blocks, and zeros up to MinPacket. A PROBE has zeros up to exactly the size in it. A message that asks for an RST may have zeros.
func checkPadding(c *Control, at, packetLen, tag int, padding []byte) DropReason {
	switch c.Opcode {
	case CtlREQ:
		if at != ControlOffset { // a REQ with blocks: its sender cannot have received anything
			return DropControl
		}
		if packetLen+tag < MinPacket {
			return DropLength
		}
	case CtlProbe:
		if packetLen+tag != int(binary.BigEndian.Uint16(c.Body[4:])) {
			return DropLength
		}
	case CtlPing, CtlRTU, CtlDREQ:
	default:
		if packetLen != at+ControlHeaderLen+len(c.Body) {
			return DropTrailing
		}
	}
	if !AllZero(padding) {
		return DropTrailing
	}
	return DropNone
}

// AllZero reports whether b holds only zeros. It compares eight bytes at a time, because the padding of a PROBE may have 64 KiB.
func AllZero(b []byte) bool {
	for ; len(b) >= 8; b = b[8:] {
		if binary.LittleEndian.Uint64(b) != 0 {
			return false
		}
	}
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// PutControl writes a control header to b[:ControlHeaderLen], where b starts behind the packet's blocks
// (PROTOCOL §5). The body follows at b[ControlHeaderLen:].
func PutControl(b []byte, op Opcode, flags uint8, bodyLen int) {
	h := (*[ControlHeaderLen]byte)(b)
	h[0] = uint8(op)
	h[1] = flags
	binary.BigEndian.PutUint16(h[2:], uint16(bodyLen))
}

package wire

import "encoding/binary"

// ShakeLevel is an encryption level of a TLS handshake (PROTOCOL §10.2). Its values are equal to the levels of crypto/tls.
type ShakeLevel uint8

// Levels. Bytes of level ShakeInitial are not encrypted. Bytes of level ShakeHandshake travel in packets of key generation 0.
const (
	ShakeInitial   ShakeLevel = 0
	ShakeHandshake ShakeLevel = 2
)

// shakeLen is the length of the body of SHAKE without its bytes (PROTOCOL §10.2).
const shakeLen = 28

const (
	// MaxShakeBytes is the largest number of handshake bytes in a SHAKE: the packet fits every path, with an ACK block and a tag.
	MaxShakeBytes = MinPacket - BaseHeaderLen - ackLen - ControlHeaderLen - shakeLen - TagLen
	// MaxHelloBytes is the largest number of bytes of a ClientHello in one REQ: the REQ fits every path with a cookie, a bulk port
	// and grease.
	MaxHelloBytes = 1024
)

// Shake is the body of SHAKE: bytes of a TLS handshake, and how many the sender has received (PROTOCOL §10.2). Bytes is a view into
// the parsed body, nil if the message has none.
type Shake struct {
	ConnID, Nonce uint64     // the sender's connection id, and the nonce of the REQ
	UDPPort       uint16     // on which the sender receives
	Level         ShakeLevel // of Bytes
	HaveInitial   uint16     // bytes received without a gap, of level ShakeInitial
	HaveHandshake uint16     // the same of level ShakeHandshake
	Offset, Total uint16     // where Bytes begin among the bytes of their level, and how many the level has so far
	Bytes         []byte
}

// ParseShake decodes a SHAKE body into m (PROTOCOL §10.2). On a drop the contents of m are undefined.
func ParseShake(body []byte, m *Shake) DropReason {
	if len(body) < shakeLen {
		return DropShort
	}
	b := (*[shakeLen]byte)(body)
	m.ConnID = binary.BigEndian.Uint64(b[0:])
	m.Nonce = binary.BigEndian.Uint64(b[8:])
	m.UDPPort = binary.BigEndian.Uint16(b[16:])
	m.Level = ShakeLevel(b[18])
	m.HaveInitial = binary.BigEndian.Uint16(b[20:])
	m.HaveHandshake = binary.BigEndian.Uint16(b[22:])
	m.Offset = binary.BigEndian.Uint16(b[24:])
	m.Total = binary.BigEndian.Uint16(b[26:])
	m.Bytes = view(body[shakeLen:], len(body)-shakeLen)
	switch {
	case b[19] != 0:
		return DropReserved
	case m.ConnID == 0, m.UDPPort == 0, m.Level != ShakeInitial && m.Level != ShakeHandshake:
		return DropControl
	case len(m.Bytes) == 0 && (m.Offset != 0 || m.Total != 0), int(m.Offset)+len(m.Bytes) > int(m.Total):
		return DropLength
	}
	return DropNone
}

// EncodedLen returns the number of bytes Append adds.
func (m *Shake) EncodedLen() int { return shakeLen + len(m.Bytes) }

// Append appends the SHAKE body to dst (PROTOCOL §10.2). It panics if there are more than MaxShakeBytes bytes, or if they end behind
// Total.
func (m *Shake) Append(dst []byte) []byte {
	if len(m.Bytes) > MaxShakeBytes || int(m.Offset)+len(m.Bytes) > int(m.Total) {
		panic("wire: handshake bytes that cannot be sent")
	}
	dst = binary.BigEndian.AppendUint64(dst, m.ConnID)
	dst = binary.BigEndian.AppendUint64(dst, m.Nonce)
	dst = binary.BigEndian.AppendUint16(dst, m.UDPPort)
	dst = append(dst, byte(m.Level), 0)
	dst = binary.BigEndian.AppendUint16(dst, m.HaveInitial)
	dst = binary.BigEndian.AppendUint16(dst, m.HaveHandshake)
	dst = binary.BigEndian.AppendUint16(dst, m.Offset)
	dst = binary.BigEndian.AppendUint16(dst, m.Total)
	return append(dst, m.Bytes...)
}

// HelloFragment is the value of the item with a part of a ClientHello (PROTOCOL §10.2).
type HelloFragment struct {
	Offset, Total uint16 // where Bytes begin in the ClientHello, and its length
	Bytes         []byte // at least one; a view of the body after parsing
}

// fragmentLen is the length of the item's value without the bytes.
const fragmentLen = 4

// parse decodes the value of an item.
func (f *HelloFragment) parse(value []byte) DropReason {
	if len(value) <= fragmentLen {
		return DropItem
	}
	f.Offset, f.Total = binary.BigEndian.Uint16(value), binary.BigEndian.Uint16(value[2:])
	f.Bytes = view(value[fragmentLen:], len(value)-fragmentLen)
	if int(f.Offset)+len(f.Bytes) > int(f.Total) {
		return DropItem
	}
	return DropNone
}

// append appends the item to dst.
func (f *HelloFragment) append(dst []byte) []byte {
	n := fragmentLen + len(f.Bytes)
	dst = binary.BigEndian.AppendUint16(dst, uint16(ItemHello))
	dst = binary.BigEndian.AppendUint16(dst, uint16(n))
	dst = binary.BigEndian.AppendUint16(dst, f.Offset)
	dst = binary.BigEndian.AppendUint16(dst, f.Total)
	return appendPadding(append(dst, f.Bytes...), n)
}

// paramsMagic begins the transport parameters. No transport parameters of QUIC can begin with it.
const paramsMagic = 0x4e445833 // NDX3

// ParamsLen is the length of the transport parameters (PROTOCOL §10.2).
const ParamsLen = 52

// Params are the transport parameters that each side puts into its TLS handshake: the facts about the connection that travel
// unprotected before (PROTOCOL §10.2). Both sides compare them with what they received.
type Params struct {
	ConnID, PeerID         uint64 // the sender's connection id, and the receiver's, zero in a ClientHello
	Nonce                  uint64
	SrcPort, DstPort       uint16 // ND ports, sender's and receiver's
	UDPPort, BulkPort      uint16 // on which the sender receives
	Features               uint32
	MinVersion, MaxVersion uint8
	Window, MaxPacket      uint32
}

// ParseParams decodes transport parameters into p. They have exactly ParamsLen bytes.
func ParseParams(b []byte, p *Params) DropReason {
	if len(b) != ParamsLen {
		return DropLength
	}
	if binary.BigEndian.Uint32(b) != paramsMagic {
		return DropControl
	}
	if binary.BigEndian.Uint16(b[42:]) != 0 {
		return DropReserved
	}
	*p = Params{
		ConnID:     binary.BigEndian.Uint64(b[4:]),
		PeerID:     binary.BigEndian.Uint64(b[12:]),
		Nonce:      binary.BigEndian.Uint64(b[20:]),
		SrcPort:    binary.BigEndian.Uint16(b[28:]),
		DstPort:    binary.BigEndian.Uint16(b[30:]),
		UDPPort:    binary.BigEndian.Uint16(b[32:]),
		BulkPort:   binary.BigEndian.Uint16(b[34:]),
		Features:   binary.BigEndian.Uint32(b[36:]),
		MinVersion: b[40],
		MaxVersion: b[41],
		Window:     binary.BigEndian.Uint32(b[44:]),
		MaxPacket:  binary.BigEndian.Uint32(b[48:]),
	}
	return DropNone
}

// Append appends the transport parameters to dst.
func (p *Params) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, paramsMagic)
	dst = binary.BigEndian.AppendUint64(dst, p.ConnID)
	dst = binary.BigEndian.AppendUint64(dst, p.PeerID)
	dst = binary.BigEndian.AppendUint64(dst, p.Nonce)
	dst = binary.BigEndian.AppendUint16(dst, p.SrcPort)
	dst = binary.BigEndian.AppendUint16(dst, p.DstPort)
	dst = binary.BigEndian.AppendUint16(dst, p.UDPPort)
	dst = binary.BigEndian.AppendUint16(dst, p.BulkPort)
	dst = binary.BigEndian.AppendUint32(dst, p.Features)
	dst = append(dst, p.MinVersion, p.MaxVersion, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, p.Window)
	return binary.BigEndian.AppendUint32(dst, p.MaxPacket)
}

package wire

import "encoding/binary"

// Probe is the body of PROBE and PROBE_ACK (PROTOCOL §5).
type Probe struct {
	Nonce uint32
	Size  uint16 // size of the ND packet with the PROBE, in bytes
}

// ParseProbe decodes a PROBE or PROBE_ACK body into p (PROTOCOL §5).
func ParseProbe(body []byte, p *Probe) DropReason {
	if len(body) != ProbeLen {
		return DropLength
	}
	if body[6]|body[7] != 0 {
		return DropReserved
	}
	p.Nonce = binary.BigEndian.Uint32(body)
	p.Size = binary.BigEndian.Uint16(body[4:])
	return DropNone
}

// Append appends the PROBE or PROBE_ACK body to dst, without the padding that a PROBE needs (PROTOCOL §5).
func (p *Probe) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, p.Nonce)
	dst = binary.BigEndian.AppendUint16(dst, p.Size)
	return append(dst, 0, 0)
}

// Ping is the body of PING (PROTOCOL §5).
type Ping struct {
	Nonce uint32
	Port  uint16 // the UDP port on which its sender receives
}

// ParsePing decodes a PING body into p (PROTOCOL §5).
func ParsePing(body []byte, p *Ping) DropReason {
	if len(body) != PingLen {
		return DropLength
	}
	if body[6]|body[7] != 0 {
		return DropReserved
	}
	p.Nonce = binary.BigEndian.Uint32(body)
	p.Port = binary.BigEndian.Uint16(body[4:])
	return DropNone
}

// Append appends the PING body to dst (PROTOCOL §5).
func (p *Ping) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, p.Nonce)
	dst = binary.BigEndian.AppendUint16(dst, p.Port)
	return append(dst, 0, 0)
}

// Reset is the body of RST (PROTOCOL §5). It names the packet that had no connection. Its token proves that its sender once owned
// the connection.
type Reset struct {
	ConnID uint64 // connection id of the packet without a connection
	Number uint32 // low 32 bits of its packet number
	Token  [ResetTokenLen]byte
}

// ParseReset decodes an RST body into r (PROTOCOL §5).
func ParseReset(body []byte, r *Reset) DropReason {
	if len(body) != resetLen {
		return DropLength
	}
	b := (*[resetLen]byte)(body)
	if binary.BigEndian.Uint32(b[12:]) != 0 {
		return DropReserved
	}
	r.ConnID = binary.BigEndian.Uint64(b[:])
	r.Number = binary.BigEndian.Uint32(b[8:])
	r.Token = [ResetTokenLen]byte(b[16:])
	return DropNone
}

// Append appends the RST body to dst (PROTOCOL §5).
func (r *Reset) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, r.ConnID)
	dst = binary.BigEndian.AppendUint32(dst, r.Number)
	dst = append(dst, 0, 0, 0, 0)
	return append(dst, r.Token[:]...)
}

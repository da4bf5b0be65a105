package wire

import (
	"encoding/binary"
	"math/bits"
)

// IPv4, IPv6 and UDP (PROTOCOL §2, RFC 791, RFC 8200, RFC 768).
const (
	ipv4Len = 20 // IP options are not accepted
	ipv6Len = 40
	udpLen  = 8

	protoUDP = 17
	hopLimit = 64 // PROTOCOL §2, both families

	ipv4VersionIHL = 0x45
	ipv4DF         = 0x4000
	ipv4Fragment   = 0x3fff // "more fragments" and the fragment offset

	ecnMask = 0x3
	ecnCE   = 0x3 // RFC 3168 §5
)

// ECN is the ECN field of a sent packet: whether routers may mark it instead of dropping it (PROTOCOL §2, RFC 3168 §5).
type ECN uint8

// The sent codepoints. A router that marks a packet changes ECT0 to CE, which ParseFrame reports.
const (
	NotECT ECN = 0
	ECT0   ECN = 2
)

func parseIPv4(first []byte, offset, total int, f *Frame) DropReason {
	if len(first) < offset+ipv4Len+udpLen {
		return DropShort
	}
	h := (*[ipv4Len]byte)(first[offset:])
	if h[0] != ipv4VersionIHL {
		if h[0]>>4 != 4 {
			return DropIPVersion
		}
		return DropIPOptions
	}
	if fold(headerSum(h)) != 0xffff {
		return DropIPChecksum
	}
	if binary.BigEndian.Uint16(h[6:])&ipv4Fragment != 0 {
		return DropFragment
	}
	if h[9] != protoUDP {
		return DropNotUDP
	}
	length := int(binary.BigEndian.Uint16(h[2:]))
	if length < ipv4Len+udpLen || length > total-offset {
		return DropIPLength
	}
	f.CE = h[1]&ecnMask == ecnCE
	f.Src.setIP4((*[4]byte)(h[12:]))
	f.Dst.setIP4((*[4]byte)(h[16:]))
	udp := (*[udpLen]byte)(first[offset+ipv4Len:])
	return f.parseUDP(udp, offset+ipv4Len, length-ipv4Len)
}

func parseIPv6(first []byte, offset, total int, f *Frame) DropReason {
	if len(first) < offset+ipv6Len+udpLen {
		return DropShort
	}
	h := (*[ipv6Len]byte)(first[offset:])
	if h[0]>>4 != 6 {
		return DropIPVersion
	}
	if h[6] != protoUDP {
		return DropNotUDP
	}
	length := int(binary.BigEndian.Uint16(h[4:]))
	if length < udpLen || length > total-offset-ipv6Len {
		return DropIPLength
	}
	f.CE = h[1]>>4&ecnMask == ecnCE
	f.Src.IP = [16]byte(h[8:])
	f.Dst.IP = [16]byte(h[24:])
	// A mapped address never appears in an IPv6 header (RFC 4942 §2.2). If it were accepted, an IPv6 packet could pass as a packet
	// of an IPv4 connection.
	if f.Src.Is4() || f.Dst.Is4() {
		return DropAddress
	}
	udp := (*[udpLen]byte)(first[offset+ipv6Len:])
	if udp[6]|udp[7] == 0 {
		return DropUDPChecksum
	}
	return f.parseUDP(udp, offset+ipv6Len, length)
}

// parseUDP decodes the UDP header at offset. ipPayload is the length of the datagram according to IP.
func (f *Frame) parseUDP(h *[udpLen]byte, offset, ipPayload int) DropReason {
	if int(binary.BigEndian.Uint16(h[4:])) != ipPayload {
		return DropUDPLength
	}
	f.Src.Port = binary.BigEndian.Uint16(h[0:])
	f.Dst.Port = binary.BigEndian.Uint16(h[2:])
	f.Offset = offset + udpLen
	f.Length = ipPayload - udpLen
	return DropNone
}

// appendIPv4 appends an IPv4 header with zero total length and checksum (PROTOCOL §2). The identification is zero, because it has
// no meaning if DF is set (RFC 6864 §4.1).
func appendIPv4(b []byte, src, dst *Endpoint) []byte {
	b = append(b, ipv4VersionIHL, 0, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, ipv4DF)
	b = append(b, hopLimit, protoUDP, 0, 0)
	return dst.appendIP(src.appendIP(b))
}

// appendIPv6 appends an IPv6 header with zero payload length (PROTOCOL §2).
func appendIPv6(b []byte, src, dst *Endpoint) []byte {
	b = binary.BigEndian.AppendUint32(b, 6<<28|flowLabel(src.Port, dst.Port))
	b = append(b, 0, 0, protoUDP, hopLimit)
	return dst.appendIP(src.appendIP(b))
}

// headerSum returns the unfolded one's complement sum of an IPv4 header (RFC 1071).
func headerSum(h *[ipv4Len]byte) uint64 {
	return uint64(binary.BigEndian.Uint32(h[0:])) + uint64(binary.BigEndian.Uint32(h[4:])) +
		uint64(binary.BigEndian.Uint32(h[8:])) + uint64(binary.BigEndian.Uint32(h[12:])) +
		uint64(binary.BigEndian.Uint32(h[16:]))
}

// fold reduces a one's complement sum to 16 bits (RFC 1071).
func fold(sum uint64) uint16 {
	sum = sum>>32 + sum&0xffffffff
	sum = sum>>32 + sum&0xffffffff
	sum = sum>>16 + sum&0xffff
	sum = sum>>16 + sum&0xffff
	return uint16(sum>>16 + sum)
}

// PartialSum adds b to a one's complement sum of 16-bit words (RFC 1071). Data in several fragments are summed fragment by
// fragment. Each fragment but the last must have an even length; otherwise use PartialSumAt. The result is folded to 16 bits, so
// sums never overflow.
func PartialSum(sum uint32, b []byte) uint32 {
	// The sum does not depend on the byte order if one order is kept (RFC 1071 §2). So words are loaded in the machine's order and swapped
	// once at the end.
	var acc, carry uint64
	for len(b) >= 32 {
		acc, carry = bits.Add64(acc, binary.LittleEndian.Uint64(b), carry)
		acc, carry = bits.Add64(acc, binary.LittleEndian.Uint64(b[8:]), carry)
		acc, carry = bits.Add64(acc, binary.LittleEndian.Uint64(b[16:]), carry)
		acc, carry = bits.Add64(acc, binary.LittleEndian.Uint64(b[24:]), carry)
		b = b[32:]
	}
	for len(b) >= 8 {
		acc, carry = bits.Add64(acc, binary.LittleEndian.Uint64(b), carry)
		b = b[8:]
	}
	var tail uint64
	for i, c := range b {
		tail |= uint64(c) << (8 * i)
	}
	acc, carry = bits.Add64(acc, tail, carry)
	acc, carry = bits.Add64(acc, 0, carry)
	folded := bits.ReverseBytes16(fold(acc + carry))
	return uint32(fold(uint64(sum) + uint64(folded)))
}

// PartialSumAt is PartialSum of a fragment at offset at of the data. Fragments may have any length. Behind an odd length, bytes are
// in the opposite halves of words, so the halves of the sum are swapped (RFC 1071 §2).
func PartialSumAt(sum uint32, at int, b []byte) uint32 {
	if at%2 == 0 {
		return PartialSum(sum, b)
	}
	return exchanged(PartialSum(exchanged(sum), b))
}

// exchanged swaps the bytes of a folded sum.
func exchanged(sum uint32) uint32 { return uint32(bits.ReverseBytes16(uint16(sum))) }

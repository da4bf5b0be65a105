package wire

import (
	"encoding/binary"
	"net/netip"
)

// Ethernet and 802.1Q (PROTOCOL §2, IEEE 802.3, IEEE 802.1Q).
const (
	etherLen = 14
	vlanLen  = 4

	etherTypeIPv4  = 0x0800
	etherTypeIPv6  = 0x86dd
	etherTypeVLAN  = 0x8100
	etherTypeSVLAN = 0x88a8 // outer tag of a service provider, always followed by a second tag

	vlanIDMask = 0x0fff // the rest of the tag is the priority, which is ignored
)

// Frame is a decoded Ethernet frame that carries a UDP datagram (PROTOCOL §2).
type Frame struct {
	Src, Dst Endpoint
	SrcMAC   [6]byte
	Offset   int  // offset of the UDP payload in the frame's first fragment
	Length   int  // length of the UDP payload
	CE       bool // marked by a router (RFC 3168)
}

// ParseFrame decodes the headers of a frame (PROTOCOL §2). first is the frame's first fragment and must hold all headers. total is
// the length of all fragments; bytes beyond the IP length are link padding. The destination port is not checked, because only the
// caller knows the configured port. On a drop the contents of f are undefined.
//
// The UDP checksum is not verified: the CRC32C of the ND packet covers the same addresses, ports and payload with 32 bits instead
// of 16, and is always checked (PROTOCOL §3.4). Over IPv6 a zero checksum is dropped, as RFC 8200 §8.1 requires.
func ParseFrame(first []byte, total int, f *Frame) DropReason {
	if len(first) < etherLen || total < len(first) {
		return DropShort
	}
	f.SrcMAC = [6]byte(first[6:12])
	etherType := binary.BigEndian.Uint16(first[12:])
	offset := etherLen
	if etherType == etherTypeVLAN {
		if len(first) < etherLen+vlanLen {
			return DropShort
		}
		etherType = binary.BigEndian.Uint16(first[16:])
		offset += vlanLen
		if etherType == etherTypeVLAN || binary.BigEndian.Uint16(first[14:])&vlanIDMask != 0 {
			return DropVLAN
		}
	}
	switch etherType {
	case etherTypeIPv4:
		return parseIPv4(first, offset, total, f)
	case etherTypeIPv6:
		return parseIPv6(first, offset, total, f)
	case etherTypeSVLAN:
		return DropVLAN
	}
	return DropEther
}

// FrameTemplate holds the Ethernet, IP and UDP headers of one path, except lengths and checksums (PROTOCOL §2). The zero value is
// not usable.
type FrameTemplate struct {
	header    [maxFrameHeader]byte
	headerLen uint8
	ipOffset  uint8
	is6       bool
	sum       uint32 // partial sum without lengths: IPv4: of the IP header; IPv6: of the pseudo header and UDP header
}

// SetDestination changes the link-layer destination, because the next hop has a new address.
func (t *FrameTemplate) SetDestination(mac [6]byte) { copy(t.header[:6], mac[:]) }

// SetSource changes the link-layer source, because the interface has a new address.
func (t *FrameTemplate) SetSource(mac [6]byte) { copy(t.header[6:12], mac[:]) }

// Destination returns the link-layer destination.
func (t *FrameTemplate) Destination() [6]byte { return [6]byte(t.header[:6]) }

// To returns the IP destination, without a zone.
func (t *FrameTemplate) To() netip.Addr {
	end := t.headerLen - udpLen
	if t.is6 {
		return netip.AddrFrom16([16]byte(t.header[end-16 : end]))
	}
	return netip.AddrFrom4([4]byte(t.header[end-4 : end]))
}

const maxFrameHeader = etherLen + ipv6Len + udpLen

// NewFrameTemplate builds the headers from src to dst, which are both IPv4 or both IPv6 (PROTOCOL §2).
func NewFrameTemplate(srcMAC, dstMAC [6]byte, src, dst Endpoint) FrameTemplate {
	t := FrameTemplate{is6: !src.Is4()}
	if t.is6 == dst.Is4() {
		panic("wire: frame template with addresses of two families")
	}
	b := append(t.header[:0], dstMAC[:]...)
	b = append(b, srcMAC[:]...)
	if t.is6 {
		b = binary.BigEndian.AppendUint16(b, etherTypeIPv6)
		t.ipOffset = uint8(len(b))
		b = appendIPv6(b, &src, &dst)
	} else {
		b = binary.BigEndian.AppendUint16(b, etherTypeIPv4)
		t.ipOffset = uint8(len(b))
		b = appendIPv4(b, &src, &dst)
		t.sum = PartialSum(0, b[t.ipOffset:])
	}
	udp := len(b)
	b = binary.BigEndian.AppendUint16(b, src.Port)
	b = binary.BigEndian.AppendUint16(b, dst.Port)
	b = append(b, 0, 0, 0, 0)
	if t.is6 {
		t.sum = PartialSum(PartialSum(PartialSum(protoUDP, src.IP[:]), dst.IP[:]), b[udp:])
	}
	t.headerLen = uint8(len(b))
	return t
}

// Len returns the length of the headers: 42 over IPv4, 62 over IPv6 (PROTOCOL §2).
func (t *FrameTemplate) Len() int { return int(t.headerLen) }

// Is6 reports whether the path is IPv6, so that SetUDPChecksum is needed (PROTOCOL §2).
func (t *FrameTemplate) Is6() bool { return t.is6 }

// Put writes the headers for an ND packet of udpPayload bytes, at most MaxPacket, to b[:Len()] (PROTOCOL §2). Over IPv4 the headers
// are complete. Over IPv6 the UDP checksum is zero until SetUDPChecksum.
func (t *FrameTemplate) Put(b []byte, udpPayload int, ecn ECN) {
	n := int(t.headerLen)
	b = b[:n]
	copy(b, t.header[:n])
	udp := (*[udpLen]byte)(b[n-udpLen:])
	binary.BigEndian.PutUint16(udp[4:], uint16(udpLen+udpPayload))
	if t.is6 {
		ip := (*[ipv6Len]byte)(b[t.ipOffset:])
		ip[1] |= byte(ecn) << 4
		binary.BigEndian.PutUint16(ip[4:], uint16(udpLen+udpPayload))
		return
	}
	ip := (*[ipv4Len]byte)(b[t.ipOffset:])
	length := uint32(ipv4Len + udpLen + udpPayload)
	ip[1] = byte(ecn)
	binary.BigEndian.PutUint16(ip[2:], uint16(length))
	binary.BigEndian.PutUint16(ip[10:], ^fold(uint64(t.sum)+uint64(length)+uint64(ecn)))
}

// SetUDPChecksum completes IPv6 headers that Put wrote to hdr[:Len()] (PROTOCOL §2, RFC 8200 §8.1). payloadPartial is the
// PartialSum of the ND packet, udpPayload its length. It must not be called over IPv4.
func (t *FrameTemplate) SetUDPChecksum(hdr []byte, payloadPartial uint32, udpPayload int) {
	udp := (*[udpLen]byte)(hdr[int(t.headerLen)-udpLen:])
	// The UDP length counts twice: in the pseudo header and in the UDP header.
	sum := ^fold(uint64(t.sum) + uint64(payloadPartial) + 2*uint64(udpLen+udpPayload))
	if sum == 0 {
		sum = 0xffff // RFC 768: zero means "no checksum"
	}
	binary.BigEndian.PutUint16(udp[6:], sum)
}

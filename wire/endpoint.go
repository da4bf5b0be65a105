package wire

import "net/netip"

// Endpoint is an IP address and UDP port. It is comparable and has no pointers. An IPv4 address is stored as an IPv4-mapped IPv6
// address.
type Endpoint struct {
	IP   [16]byte
	Port uint16
}

// mappedPrefix precedes an IPv4 address in its IPv6 form (RFC 4291 §2.5.5.2).
var mappedPrefix = [12]byte{10: 0xff, 11: 0xff}

// EndpointFrom converts from the standard library's type, without the zone.
func EndpointFrom(ap netip.AddrPort) Endpoint {
	return Endpoint{IP: ap.Addr().As16(), Port: ap.Port()}
}

// AddrPort converts to the standard library's type. A mapped address becomes an IPv4 address.
func (e Endpoint) AddrPort() netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom16(e.IP).Unmap(), e.Port)
}

// Is4 reports whether the address is IPv4.
func (e Endpoint) Is4() bool { return [12]byte(e.IP[:12]) == mappedPrefix }

// String returns the endpoint as 192.0.2.1:14791 or [2001:db8::1]:14791.
func (e Endpoint) String() string { return e.AddrPort().String() }

// setIP4 stores a mapped IPv4 address.
func (e *Endpoint) setIP4(addr *[4]byte) {
	copy(e.IP[:12], mappedPrefix[:])
	copy(e.IP[12:], addr[:])
}

// FirstSourcePort is the first dynamic port (RFC 6335 §6). Source ports are the 16384 ports from there on.
const (
	FirstSourcePort = 49152
	sourcePorts     = 16384

	_ = uint(65536 - FirstSourcePort - sourcePorts)
)

// SourcePort returns the UDP source port of the connection whose sender owns connID (PROTOCOL §2).
func SourcePort(connID uint64) uint16 {
	return FirstSourcePort + uint16(mix64(connID)%sourcePorts)
}

// IsSourcePort reports whether a port is in the range of SourcePort.
func IsSourcePort(port uint16) bool { return port >= FirstSourcePort }

// mix64 returns the 64-bit finalizer of MurmurHash3: a bijection in which every input bit reaches every output bit.
func mix64(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// flowLabel returns the IPv6 flow label of a port pair: 20 bits, never zero, which would mean "unlabelled" (RFC 6437 §2).
func flowLabel(src, dst uint16) uint32 {
	return max(1, uint32(mix64(uint64(src)<<16|uint64(dst)))&0xfffff)
}

func (e *Endpoint) appendIP(dst []byte) []byte {
	if e.Is4() {
		return append(dst, e.IP[12:]...)
	}
	return append(dst, e.IP[:]...)
}

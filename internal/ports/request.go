package ports

import (
	"encoding/binary"
	"net/netip"
)

// Request is a packet on its way to the process that has its ND port.
type Request struct {
	From, To netip.AddrPort
	Packet   []byte
	// Trusted says that root or a process of our own user handed it over: others may have made up where it came from.
	Trusted bool
}

// A request as a datagram: version, address (16), port (2) of its sender, port that it came to (2), packet.
const (
	requestVersion = 1
	requestHeader  = 1 + 16 + 2 + 2
	// maxPacket is the longest packet that is handed over; a request that nobody padded for long has 1200 bytes.
	maxPacket  = 4096
	maxMessage = requestHeader + maxPacket
)

// appendHeader appends what stands in front of the packet.
func appendHeader(b []byte, from netip.AddrPort, to uint16) []byte {
	ip := from.Addr().As16()
	b = append(append(b, requestVersion), ip[:]...)
	b = binary.BigEndian.AppendUint16(b, from.Port())
	return binary.BigEndian.AppendUint16(b, to)
}

// parse reads a message that came to the sockets of an address. The packet refers to it.
func parse(b []byte, at netip.Addr) (r Request, ok bool) {
	if len(b) <= requestHeader || b[0] != requestVersion {
		return r, false
	}
	ip := netip.AddrFrom16([16]byte(b[1:17])).Unmap()
	r.From = netip.AddrPortFrom(ip, binary.BigEndian.Uint16(b[17:]))
	r.To = netip.AddrPortFrom(at, binary.BigEndian.Uint16(b[19:]))
	r.Packet = b[requestHeader:]
	return r, ip.Is4() == at.Is4() && !ip.IsUnspecified() && !ip.IsMulticast()
}

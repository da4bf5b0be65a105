package ports

import (
	"encoding/binary"
	"net/netip"
)

// Request is a packet for the process that has its ND port.
type Request struct {
	From, To netip.AddrPort
	Packet   []byte
	// Trusted means that root or a process of our own user handed the packet over. Other processes may have forged its source address.
	Trusted bool
}

// A request as a datagram: version, address (16) and port (2) of the sender, port at which it arrived (2), packet.
const (
	requestVersion = 1
	requestHeader  = 1 + 16 + 2 + 2
	// maxPacket is the longest packet that is handed over. A normal request has 1200 bytes.
	maxPacket  = 4096
	maxMessage = requestHeader + maxPacket
)

// appendHeader appends the fields before the packet.
func appendHeader(b []byte, from netip.AddrPort, to uint16) []byte {
	ip := from.Addr().As16()
	b = append(append(b, requestVersion), ip[:]...)
	b = binary.BigEndian.AppendUint16(b, from.Port())
	return binary.BigEndian.AppendUint16(b, to)
}

// parse parses a message that arrived at the sockets of an address. The packet aliases the message.
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

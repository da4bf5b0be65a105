package icmp

import (
	"encoding/binary"

	"github.com/ndxdp/ndxdp/wire"
)

// Kind is what an ICMP error means for the destination.
type Kind uint8

// Kinds of errors.
const (
	None    Kind = iota // not an error about reachability
	Network             // the network is unreachable
	Host                // the host is unreachable
	Port                // the host is reachable, but no process has the UDP port
	TooBig              // a link on the path has a smaller MTU than the quoted packet, which must not be fragmented
)

// Error is an ICMP error and its quote.
type Error struct {
	Kind     Kind
	Sender   [16]byte      // source of the error, IPv4 as a mapped address
	From, To wire.Endpoint // source and destination of the quoted packet
	Quoted   []byte        // beginning of its UDP payload; aliases the parsed message
}

const (
	headerLen      = 8 // of ICMP and ICMPv6
	ipv4Len        = 20
	ipv6Len        = 40
	udpLen         = 8
	protoUDP       = 17
	unreachable4   = 3      // ICMP type
	unreachable6   = 1      // ICMPv6 type
	tooBig6        = 2      // ICMPv6 type
	ipv4Fragment   = 0x1fff // the fragment offset
	ipv4VersionIHL = 0x45   // PROTOCOL §2: IPv4 headers have no options
)

// kinds4 are the codes of ICMP "destination unreachable" (RFC 792, RFC 1122 §3.2.2.1, RFC 1812 §5.2.7.1). Codes of a prohibition
// count like codes of a failure. Code 4 is "fragmentation needed".
var kinds4 = [...]Kind{
	0: Network, 1: Host, 2: Port, 3: Port, 4: TooBig, 5: Host, 6: Network, 7: Host, 8: Host, 9: Network, 10: Host, 11: Network, 12: Host,
	13: Host, 14: Host, 15: Host,
}

// kinds6 are the codes of ICMPv6 (RFC 4443 §3.1): no route; forbidden; beyond the scope of the source; address; port; source address
// forbidden; rejecting route.
var kinds6 = [...]Kind{0: Network, 1: Host, 2: Network, 3: Host, 4: Port, 5: Host, 6: Host}

// KindOf returns the meaning of an ICMP message, or of an ICMPv6 message unless ipv4 is set.
func KindOf(kind, code uint8, ipv4 bool) Kind {
	if !ipv4 && kind == tooBig6 {
		return TooBig
	}
	unreachable, kinds := uint8(unreachable6), kinds6[:]
	if ipv4 {
		unreachable, kinds = unreachable4, kinds4[:]
	}
	if kind != unreachable || int(code) >= len(kinds) {
		return None
	}
	return kinds[code]
}

// Parse4 decodes an IPv4 packet, with its header, from a raw socket. ok is false unless it is a "destination unreachable" that
// quotes a UDP packet like ours.
func Parse4(b []byte) (e Error, ok bool) {
	if len(b) < ipv4Len || b[0]>>4 != 4 {
		return e, false
	}
	head := int(b[0]&15) * 4
	if head < ipv4Len || len(b) < head+headerLen {
		return e, false
	}
	sender := mapped([4]byte(b[12:])).IP
	b = b[head:]
	// A raw socket receives packets with wrong checksums, too.
	if b[0] != unreachable4 || wire.PartialSum(0, b) != 0xffff {
		return e, false
	}
	e.Kind, e.Sender = KindOf(b[0], b[1], true), sender
	quote := b[headerLen:]
	if len(quote) < ipv4Len+udpLen || quote[0] != ipv4VersionIHL || quote[9] != protoUDP ||
		binary.BigEndian.Uint16(quote[6:])&ipv4Fragment != 0 {
		return e, false
	}
	e.From = mapped([4]byte(quote[12:]))
	e.To = mapped([4]byte(quote[16:]))
	return e.udp(quote[ipv4Len:])
}

// Parse6 decodes an ICMPv6 message, without its IPv6 header, from a raw socket: "destination unreachable" or "packet too big".
func Parse6(b []byte, sender [16]byte) (e Error, ok bool) {
	if len(b) < headerLen+ipv6Len+udpLen || b[0] != unreachable6 && b[0] != tooBig6 {
		return e, false
	}
	e.Kind, e.Sender = KindOf(b[0], b[1], false), sender
	quote := b[headerLen:]
	if quote[0]>>4 != 6 || quote[6] != protoUDP {
		return e, false
	}
	e.From.IP = [16]byte(quote[8:])
	e.To.IP = [16]byte(quote[24:])
	if e.From.Is4() || e.To.Is4() { // impossible in an IPv6 header (RFC 4942 §2.2)
		return e, false
	}
	return e.udp(quote[ipv6Len:])
}

// udp decodes the quoted UDP header and payload. RFC 4884 extensions behind a short quote look like payload. They do no harm:
// routers pad the quote with zeros to at least 128 bytes, which is more than is compared.
func (e Error) udp(b []byte) (Error, bool) {
	e.From.Port = binary.BigEndian.Uint16(b[0:])
	e.To.Port = binary.BigEndian.Uint16(b[2:])
	e.Quoted = b[udpLen:]
	return e, true
}

func mapped(ip [4]byte) (at wire.Endpoint) {
	at.IP[10], at.IP[11] = 0xff, 0xff
	copy(at.IP[12:], ip[:])
	return at
}

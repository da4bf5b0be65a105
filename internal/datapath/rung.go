package datapath

import "fmt"

// Rung is a way to move packets. All rungs speak one wire format, so peers need not match.
type Rung uint8

// The rungs. RungAuto chooses by driver, and takes RungRing or RungUDP where AF_XDP is out of reach.
const (
	RungAuto Rung = iota
	RungGeneric
	RungNative
	RungUDP
	RungRing // plain sockets, and a ring that a program fills with small packets
	RungTCX  // AF_XDP that sends, and that ring
)

// String names the rung as flags and reports do.
func (r Rung) String() string {
	switch r {
	case RungAuto:
		return "auto"
	case RungGeneric:
		return "generic"
	case RungNative:
		return "native"
	case RungUDP:
		return "udp"
	case RungRing:
		return "ring"
	case RungTCX:
		return "tcx"
	}
	return fmt.Sprintf("rung %d", uint8(r))
}

// OverSockets says that packets leave by plain sockets.
func (r Rung) OverSockets() bool { return r == RungUDP || r == RungRing }

// ByXDP says that an XDP program of the adapter's brings packets.
func (r Rung) ByXDP() bool { return r == RungGeneric || r == RungNative }

// ParseRung is the inverse of String.
func ParseRung(s string) (Rung, error) {
	for _, r := range []Rung{RungAuto, RungGeneric, RungNative, RungUDP, RungRing, RungTCX} {
		if s == r.String() {
			return r, nil
		}
	}
	return RungAuto, fmt.Errorf("unknown datapath %q: use auto, generic, native, udp, ring or tcx", s)
}

// The reasons of DatapathAuto's choice. Measured on two namespaces and one veth pair, Linux 6.18, 2 cores: a raw packet of 64 bytes takes
// 1.78 µs one way with a ring at tcx, 2.18 in generic and 2.88 in native mode. For an XDP program the kernel copies each packet that
// arrives in pieces or without room for the program's headers. So it copies all packets of an AF_XDP socket, and all GSO batches of any
// program. Native mode also disables segmentation for other traffic of the peer.
const (
	vethDriver      = "on veth the kernel copies every packet once more for XDP, but not for a program at tcx"
	vethWithoutRing = "native XDP on veth copies every packet once more: generic mode is faster at every MTU"
	// otherDriver is for drivers without a measurement: native first, because that is what native XDP is for.
	otherDriver = "no measurement for this driver: native mode first, generic mode where it is refused"
	// askedFor is the reason of what was asked for.
	askedFor = "asked for"
)

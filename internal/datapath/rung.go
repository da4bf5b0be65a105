package datapath

import (
	"fmt"
	"net/netip"
	"slices"
)

// Rung is a way to move packets. All rungs speak one wire format, so peers need not match.
type Rung uint8

// The rungs. RungAuto chooses by driver, and takes RungRing or RungUDP where AF_XDP is out of reach.
const (
	RungAuto Rung = iota
	RungGeneric
	RungNative
	RungUDP
	RungRing // plain sockets, and a ring that a program fills with small packets
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
	}
	return fmt.Sprintf("rung %d", uint8(r))
}

// OverSockets says that packets leave by plain sockets.
func (r Rung) OverSockets() bool { return r == RungUDP || r == RungRing }

// ParseRung is the inverse of String.
func ParseRung(s string) (Rung, error) {
	for _, r := range []Rung{RungAuto, RungGeneric, RungNative, RungUDP, RungRing} {
		if s == r.String() {
			return r, nil
		}
	}
	return RungAuto, fmt.Errorf("unknown datapath %q: use auto, generic, native, udp or ring", s)
}

// choice is what is taken on an interface, and the fact behind it.
type choice struct {
	rung     Rung
	reason   string
	fallback bool // generic mode will do where native mode is refused
}

// byDriver is the table of facts. Measured on two namespaces and one veth pair, Linux 6.18, 2 cores: generic mode reaches
// 5.5-6.5 Gb/s at MTU 1500 where native mode reaches 3.2-5.1, because native XDP on veth allocates a new skb head for
// every packet before the program runs, and 3.9 µs round trip against 4.5-7.
var byDriver = map[string]choice{
	"veth": {rung: RungGeneric, reason: "native XDP on veth copies every packet once more: generic mode is faster at every MTU"},
}

// otherDriver is for drivers without a measurement: native first, because that is what native XDP is for.
var otherDriver = choice{RungNative, "no measurement for this driver: native mode first, generic mode where it is refused", true}

// choose resolves a rung of AF_XDP for an interface. The error says that there is none, or that the one that was asked for would
// lose packets.
func choose(want Rung, s *stack, addr netip.Addr) (choice, error) {
	if slices.Contains(silentKinds, s.kind) {
		return choice{}, &notSeenError{s, addr}
	}
	if s.layer3 {
		return choice{}, &layer3Error{s.name, addr}
	}
	beneath := s.beneath()
	switch {
	case want == RungNative && len(s.lowers) > 0:
		return choice{}, fmt.Errorf("open %s on interface %s in native mode: %s, and the kernel drops what a native program redirects "+
			"there: use generic mode", addr, s.name, beneath)
	case want != RungAuto:
		return choice{rung: want, reason: askedFor}, nil
	case beneath != "":
		return choice{rung: RungGeneric, reason: beneath + ", where native mode loses them"}, nil
	}
	if c, ok := byDriver[s.driver]; ok {
		return c, nil
	}
	return otherDriver, nil
}

package provider

import (
	"math/rand/v2"
	"net/netip"

	"github.com/ndxdp/ndxdp/wire"
)

// Endpoint is an address and an ND port.
type Endpoint = wire.Endpoint

// EndpointFrom converts an address; IPv4 is mapped into IPv6.
func EndpointFrom(ap netip.AddrPort) Endpoint { return wire.EndpointFrom(ap) }

// The ND port space (ND specification, section 6.1). It has nothing to do with the ports of the host.
const (
	firstEphemeral = 49152
	lastEphemeral  = 65535
)

// ports is who uses which endpoint: how many listeners, connectors and shared endpoints each has. An endpoint that nobody uses
// is not in it.
type ports map[addrPort]int

// take makes an endpoint owned. Port 0 chooses a free ephemeral one, starting at a random place. A wildcard and a specific
// address on one port exclude each other.
func (p ports) take(at addrPort, rng *rand.Rand) (addrPort, Outcome) {
	if at.Port != 0 {
		if p.taken(at) {
			return at, OutcomeSharingViolation
		}
		p[at]++
		return at, OutcomeSuccess
	}
	const span = lastEphemeral - firstEphemeral + 1
	start := rng.IntN(span)
	for i := range span {
		at.Port = uint16(firstEphemeral + (start+i)%span)
		if !p.taken(at) {
			p[at]++
			return at, OutcomeSuccess
		}
	}
	return at, OutcomeTooManyAddresses
}

func (p ports) taken(at addrPort) bool {
	if p[at] > 0 || p[addrPort{Port: at.Port}] > 0 {
		return true
	}
	if at.IP != (addrPort{}).IP {
		return false
	}
	for other := range p {
		if other.Port == at.Port {
			return true
		}
	}
	return false
}

// share counts a connector that uses the endpoint of a listener, or a shared one.
func (p ports) share(at addrPort) { p[at]++ }

// release takes back one use of an endpoint.
func (p ports) release(at addrPort) {
	if p[at]--; p[at] <= 0 {
		delete(p, at)
	}
}

// PortUse tells what keeps an endpoint from being taken: whether a listener listens there, and how many listeners, connectors and shared
// endpoints have it, with that one.
func (e *Engine) PortUse(at Endpoint) (listening bool, users int) {
	return e.directory.use(at)
}

// SharedEndpoint is a local endpoint from which many connections are made, to different remote ones (ND specification 6.4). The
// leading engine's owner uses it.
type SharedEndpoint struct {
	engine *Engine
	at     addrPort
	closed bool
}

// NewSharedEndpoint takes a local endpoint, port 0 for a free ephemeral one.
func (e *Engine) NewSharedEndpoint(at addrPort) (*SharedEndpoint, Outcome) {
	at, o := e.directory.ports.take(at, e.rng)
	if o != OutcomeSuccess {
		return nil, o
	}
	return &SharedEndpoint{engine: e, at: at}, OutcomeSuccess
}

// Local returns the endpoint.
func (s *SharedEndpoint) Local() Endpoint { return s.at }

// Close frees the endpoint once no connector has it.
func (s *SharedEndpoint) Close() {
	if !s.closed {
		s.closed = true
		s.engine.directory.ports.release(s.at)
	}
}

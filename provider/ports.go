package provider

import (
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

// takePort makes an endpoint owned. Port 0 chooses a free ephemeral one, starting at a random place. A wildcard and a
// specific address on one port exclude each other.
func (e *Engine) takePort(at addrPort) (addrPort, Outcome) {
	if at.Port != 0 {
		if e.portTaken(at) {
			return at, OutcomeSharingViolation
		}
		e.ports[at]++
		return at, OutcomeSuccess
	}
	const span = lastEphemeral - firstEphemeral + 1
	start := e.rng.IntN(span)
	for i := range span {
		at.Port = uint16(firstEphemeral + (start+i)%span)
		if !e.portTaken(at) {
			e.ports[at]++
			return at, OutcomeSuccess
		}
	}
	return at, OutcomeTooManyAddresses
}

func (e *Engine) portTaken(at addrPort) bool {
	if e.ports[at] > 0 || e.ports[addrPort{Port: at.Port}] > 0 {
		return true
	}
	if at.IP != (addrPort{}).IP {
		return false
	}
	for other := range e.ports {
		if other.Port == at.Port {
			return true
		}
	}
	return false
}

// PortUse tells what keeps an endpoint from being taken: whether a listener listens there, and how many listeners, connectors and shared
// endpoints have it, with that one.
func (e *Engine) PortUse(at Endpoint) (listening bool, users int) {
	anywhere := addrPort{}.IP
	for other, n := range e.ports {
		if other.Port == at.Port && (other.IP == at.IP || other.IP == anywhere || at.IP == anywhere) {
			users += n
			listening = listening || e.listeners[other] != nil
		}
	}
	return listening, users
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
	at, o := e.takePort(at)
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
		s.engine.releasePort(s.at)
	}
}

// sharePort counts a connector that uses the endpoint of a listener, or a shared one.
func (e *Engine) sharePort(at addrPort) { e.ports[at]++ }

// releasePort takes back one use of an endpoint.
func (e *Engine) releasePort(at addrPort) {
	if e.ports[at]--; e.ports[at] <= 0 {
		delete(e.ports, at)
	}
}

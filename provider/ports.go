package provider

import (
	"net/netip"

	"github.com/ndxdp/ndxdp/provider/internal/ndports"
	"github.com/ndxdp/ndxdp/wire"
)

// Endpoint is an address and an ND port.
type Endpoint = wire.Endpoint

// The names of package ndports that upper layers use.
type (
	// PortSpace is who has which ND port of an adapter's address on this machine.
	PortSpace = ndports.PortSpace
	// HandOver is what became of a REQ for an ND port of others.
	HandOver = ndports.HandOver
)

// Results of PortSpace.HandOver; package ndports documents them.
const (
	HandOverNobody  = ndports.Nobody
	HandOverDone    = ndports.Done
	HandOverDropped = ndports.Dropped
	HandOverRefused = ndports.Refused
)

// EndpointFrom converts an address; IPv4 is mapped into IPv6.
func EndpointFrom(ap netip.AddrPort) Endpoint { return wire.EndpointFrom(ap) }

// PortUse says why an endpoint is in use: whether a listener listens on it, and how many listeners, connectors and shared endpoints are
// bound to it.
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
	at, o := e.directory.ports.Take(at, false, e.rng)
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
		s.engine.directory.ports.Release(s.at)
	}
}

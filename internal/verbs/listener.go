package verbs

import (
	"net/netip"

	"github.com/ndxdp/ndxdp/provider"
)

// Listener receives connection requests. The methods of provider.Listener are for the owner of the leading engine, as which Adapter.Call
// runs a function. All other methods may be called from any goroutine.
type Listener struct {
	*provider.Listener
	adapter *Adapter

	encrypts bool // every connection is encrypted; guarded as the engine's listener is
}

// NewListener makes an unbound listener. announce, which may be nil, is called for each request (provider.Listener.OnRequest).
func (a *Adapter) NewListener(announce func(*provider.Connector)) Listener {
	l := Listener{adapter: a}
	a.Do(func(e *provider.Engine) {
		l.Listener = e.NewListener()
		l.OnRequest(announce)
	})
	return l
}

// PortUse says who uses a port that Bind could not get.
type PortUse struct {
	Listening bool // a listener listens on it
	Users     int  // connectors and listeners that are bound to it
}

func portUse(e *provider.Engine, at provider.Endpoint, o provider.Outcome) (use PortUse) {
	if o == provider.OutcomeSharingViolation {
		use.Listening, use.Users = e.PortUse(at)
	}
	return use
}

// Place returns the endpoint of a listener's address. It reports whether the address is the adapter's own or the unspecified address.
func (l *Listener) Place(addr netip.AddrPort) (provider.Endpoint, bool) {
	if addr.Addr().IsUnspecified() {
		return provider.Endpoint{Port: addr.Port()}, true
	}
	return l.adapter.Local(addr)
}

// Bind binds a local address; port 0 selects a free one. With OutcomeSharingViolation, use says who has the port.
//
// Outcomes: OutcomeSuccess, OutcomeWrongAddress, OutcomeSharingViolation, OutcomeInsufficientResources, OutcomeTooManyAddresses,
// OutcomeAddressAssociated, OutcomeInvalidState (closed), OutcomeDeviceRemoved.
func (l *Listener) Bind(addr netip.AddrPort) (use PortUse, o provider.Outcome) {
	at, ok := l.Place(addr)
	o = l.adapter.Call(func(e *provider.Engine) provider.Outcome {
		if !ok {
			return OutcomeWrongAddress
		}
		_, o := l.Listener.Bind(at)
		use = portUse(e, at, o)
		return o
	})
	return use, o
}

// Listen starts to accept requests (provider.Listener.Listen).
//
// Outcomes: OutcomeSuccess, OutcomeInvalidState, OutcomeWrongArgument (RequireTLS, and connections may be plain), OutcomeDeviceRemoved.
func (l *Listener) Listen(backlog int) provider.Outcome {
	return l.adapter.Call(func(*provider.Engine) provider.Outcome {
		if l.needsTLS() {
			return OutcomeWrongArgument
		}
		return l.Listener.Listen(backlog)
	})
}

// LocalAddress returns the address while listening. The unspecified address has the adapter's address family.
//
// Outcomes: OutcomeSuccess, OutcomeInvalidState, OutcomeDeviceRemoved.
func (l *Listener) LocalAddress() (addr netip.AddrPort, o provider.Outcome) {
	o = l.adapter.Call(func(*provider.Engine) provider.Outcome {
		at, o := l.Local()
		switch {
		case o != provider.OutcomeSuccess:
			return o
		case at.IP != (provider.Endpoint{}).IP:
			addr = at.AddrPort()
		case l.adapter.Addr.Is4():
			addr = netip.AddrPortFrom(netip.IPv4Unspecified(), at.Port)
		default:
			addr = netip.AddrPortFrom(netip.IPv6Unspecified(), at.Port)
		}
		return o
	})
	return addr, o
}

// Close refuses all waiting and later requests. Closing twice is harmless.
func (l *Listener) Close() { l.adapter.Do(func(*provider.Engine) { l.Listener.Close() }) }

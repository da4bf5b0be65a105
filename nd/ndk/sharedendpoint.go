package ndk

import (
	"net/netip"

	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// SharedEndpoint is a local address and port from which any number of connectors connect, to different destinations.
type SharedEndpoint struct {
	object
	shared *provider.SharedEndpoint
}

// CreateSharedEndpoint binds a local ND address, whose port may be 0.
//
// Statuses: StatusSuccess; StatusPending with a done; StatusInvalidAddress, StatusSharingViolation, StatusTooManyAddresses,
// StatusInsufficientResources, StatusDeviceRemoved.
func (a *Adapter) CreateSharedEndpoint(
	addr netip.AddrPort, done CreateCompletion[*SharedEndpoint], context any,
) (*SharedEndpoint, Status) {
	at, mine := a.verbs.Local(addr)
	if !mine {
		return nil, a.unless(StatusInvalidAddress)
	}
	return create(&a.root, verbs.ObjectSharedEndpoint, done, context, func() (*SharedEndpoint, Status) {
		s := &SharedEndpoint{}
		if o := a.verbs.Call(func(e *provider.Engine) (o provider.Outcome) {
			s.shared, o = e.NewSharedEndpoint(at)
			return o
		}); o != provider.OutcomeSuccess {
			return nil, statusTable[o]
		}
		s.init(a, verbs.ObjectSharedEndpoint, &a.root)
		return s, StatusSuccess
	})
}

// LocalAddress returns the address, with the chosen port. Statuses: StatusSuccess, StatusDeviceRemoved.
func (s *SharedEndpoint) LocalAddress() (netip.AddrPort, Status) {
	if s.adapter.verbs.Closed() {
		return netip.AddrPort{}, StatusDeviceRemoved
	}
	return verbs.AddrPort(s.shared.Local()), StatusSuccess
}

// Close ends the endpoint when the connectors that connected through it are closed; until then its port stays in use. It
// never fails. done, which may be nil, is called if and only if Close returns StatusPending.
func (s *SharedEndpoint) Close(done CloseCompletion, context any) Status {
	return s.close(func() { s.adapter.verbs.Do(func(*provider.Engine) { s.shared.Close() }) }, done, context)
}

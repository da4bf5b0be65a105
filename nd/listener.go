package nd

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// Listener receives connection requests. All methods may be called from any goroutine.
type Listener struct {
	adapter  *Adapter
	l        verbs.Listener
	released sync.Once
}

// CreateListener makes an unbound listener.
//
// Errors: ErrInsufficientResources, ErrDeviceRemoved.
func (a *Adapter) CreateListener() (*Listener, error) {
	if err := a.create("create listener", verbs.ObjectListener); err != nil {
		return nil, err
	}
	return &Listener{adapter: a, l: a.verbs.NewListener(nil)}, nil
}

// Bind binds the listener to a local ND address: the adapter's address, or the unspecified address for any. Port 0 selects a free port of
// 49152 to 65535.
//
// Errors: ErrInvalidAddress, ErrSharingViolation, ErrInsufficientResources (no descriptor is left), ErrTooManyAddresses (no port is free),
// ErrAddressAssociated (bound already), ErrInvalidDeviceState (closed), ErrDeviceRemoved.
func (l *Listener) Bind(addr netip.AddrPort) error {
	use, o := l.l.Bind(addr)
	return l.adapter.bound(addr, use, o)
}

// errNoDescriptor is the cause if an ND port cannot be reserved because no descriptor is left.
var errNoDescriptor = errors.New("an ND port needs a socket, and this process has no free descriptor: raise the limit (ulimit -n), or close other files")

// bound makes the error of Bind, of listeners and connectors. If the port is taken, the error names the owner if it is known.
func (a *Adapter) bound(addr netip.AddrPort, use verbs.PortUse, o provider.Outcome) error {
	var cause error
	switch {
	case o == provider.OutcomeInsufficientResources:
		cause = errNoDescriptor
	case o != provider.OutcomeSharingViolation:
	case use == verbs.PortUse{}:
		cause = fmt.Errorf("another adapter of this machine has ND port %d: to find its process, run ss -xap and look for @ndxdp", addr.Port())
	case use.Listening:
		cause = fmt.Errorf("a listener of this adapter has ND port %d", addr.Port())
	default:
		cause = fmt.Errorf("ND port %d is in use by connectors or listeners that are not closed (%d): connectors keep the port of the listener they arrived over",
			addr.Port(), use.Users)
	}
	return a.fail("bind", addr, noAddr, o, cause)
}

// Listen starts to accept requests. backlog bounds the requests that wait for GetConnectionRequest; 0, and more than 4096, is 4096.
//
// Errors: ErrInvalidDeviceState (not bound, listening already, or closed), ErrInvalidParameter (AdapterConfig.RequireTLS, and connections
// may be plain), ErrDeviceRemoved.
func (l *Listener) Listen(backlog int) error {
	o := l.l.Listen(backlog)
	return l.adapter.fail("listen", noAddr, noAddr, o, l.adapter.unfit(o))
}

// LocalAddress returns the address, with the chosen port, while listening.
//
// Errors: ErrInvalidDeviceState (not listening), ErrDeviceRemoved.
func (l *Listener) LocalAddress() (netip.AddrPort, error) {
	at, o := l.l.LocalAddress()
	return at, l.adapter.fail("local address", noAddr, noAddr, o, nil)
}

// GetConnectionRequest waits for the next request and assigns it to c, which must be idle or only bound.
//
// Errors: ErrInvalidDeviceState (not listening), ErrConnectionActive (c is in use, used up or closed), ErrInvalidParameterN(1) (c is nil or
// of another adapter), ErrCanceled, ErrDeviceRemoved.
func (l *Listener) GetConnectionRequest(ctx context.Context, c *Connector) error {
	if err := checkContext("get connection request", ctx); err != nil {
		return err
	}
	w := newCall()
	defer calls.Put(w)
	if err := l.armRequest(c, w.fin); err != nil {
		return err
	}
	o, cause := l.adapter.sleep(ctx, w, func() {
		l.adapter.do(func(*provider.Engine) {
			if !w.Ended() { // c may already wait for another request
				l.l.CancelRequest(c.k.Connector, provider.OutcomeCanceled)
			}
		})
	})
	return l.adapter.fail("get connection request", noAddr, noAddr, o, cause)
}

// CancelOverlappedRequests ends every waiting GetConnectionRequest with ErrCanceled; requests that arrived stay queued.
func (l *Listener) CancelOverlappedRequests() {
	l.adapter.do(func(*provider.Engine) { l.l.CancelRequests(provider.OutcomeCanceled) })
}

// Close refuses all waiting and later requests. Established connections stay alive and keep the port: a Bind to it fails with
// ErrSharingViolation until their connectors are closed, too. Closing twice is harmless.
func (l *Listener) Close() error {
	l.released.Do(func() { l.adapter.verbs.Objects.Give(verbs.ObjectListener) })
	l.l.Close()
	return nil
}

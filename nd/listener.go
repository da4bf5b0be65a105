package nd

import (
	"context"
	"fmt"
	"net/netip"
	"sync"

	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// Listener receives connection requests. All methods may be called from any goroutine.
type Listener struct {
	adapter  *Adapter
	l        *provider.Listener
	released sync.Once
}

// CreateListener makes an unbound listener.
//
// Errors: ErrInsufficientResources, ErrDeviceRemoved.
func (a *Adapter) CreateListener() (*Listener, error) {
	if err := a.create("create listener", verbs.ObjectListener); err != nil {
		return nil, err
	}
	l := &Listener{adapter: a}
	a.do(func(e *provider.Engine) { l.l = e.NewListener() })
	return l, nil
}

// Bind takes a local ND address: one of the adapter's, or the unspecified one for all of them; port 0 is a free one of 49152
// to 65535.
//
// Errors: ErrInvalidAddress, ErrSharingViolation, ErrTooManyAddresses, ErrAddressAssociated.
func (l *Listener) Bind(addr netip.AddrPort) error {
	at, ok := l.adapter.verbs.Local(addr)
	if addr.Addr().IsUnspecified() {
		at, ok = provider.Endpoint{Port: addr.Port()}, true
	}
	if !ok {
		return l.adapter.refuse(&Error{Op: "bind", Local: addr, Status: ErrInvalidAddress})
	}
	return bind(addr, at, l.adapter.call, func() (o provider.Outcome) {
		_, o = l.l.Bind(at)
		return o
	})
}

// bind is Bind of listeners and connectors. call runs take as the owner of the leading engine. An error for a port that is taken says by
// whom, as far as that is known.
func bind(
	addr netip.AddrPort, at provider.Endpoint, call func(func(*provider.Engine) provider.Outcome) provider.Outcome, take func() provider.Outcome,
) error {
	listening, users := false, 0
	o := call(func(e *provider.Engine) provider.Outcome {
		o := take()
		if o == provider.OutcomeSharingViolation {
			listening, users = e.PortUse(at)
		}
		return o
	})
	if o != provider.OutcomeSharingViolation {
		return fail("bind", addr, noAddr, o)
	}
	err := &Error{Op: "bind", Local: addr, Status: ErrSharingViolation}
	if listening {
		err.Err = fmt.Errorf("a listener listens on ND port %d", addr.Port())
	} else {
		err.Err = fmt.Errorf("ND port %d is in use by connectors or listeners that are not closed (%d): connectors keep the port of the listener they arrived over",
			addr.Port(), users)
	}
	return err
}

// Listen starts to take requests. backlog bounds those that no GetConnectionRequest has taken; 0, and more than 4096, is 4096.
//
// Errors: ErrInvalidDeviceState (not bound, or listening already).
func (l *Listener) Listen(backlog int) error {
	o := l.adapter.call(func(*provider.Engine) provider.Outcome { return l.l.Listen(backlog) })
	return fail("listen", noAddr, noAddr, o)
}

// LocalAddress returns the address while listening.
func (l *Listener) LocalAddress() (netip.AddrPort, error) {
	var at provider.Endpoint
	o := l.adapter.call(func(*provider.Engine) (o provider.Outcome) {
		at, o = l.l.Local()
		return o
	})
	if o != provider.OutcomeSuccess {
		return noAddr, fail("local address", noAddr, noAddr, o)
	}
	if at.IP == (provider.Endpoint{}).IP {
		unspecified := netip.IPv6Unspecified()
		if l.adapter.verbs.Addr.Is4() {
			unspecified = netip.IPv4Unspecified()
		}
		return netip.AddrPortFrom(unspecified, at.Port), nil
	}
	return at.AddrPort(), nil
}

// GetConnectionRequest waits for the next request and hands it to c, which must be idle or merely bound.
//
// Errors: ErrInvalidDeviceState (not listening), ErrConnectionActive (c is in use), ErrInvalidParameterN(1) (c is nil or of
// another adapter), ErrCanceled, ErrDeviceRemoved.
func (l *Listener) GetConnectionRequest(ctx context.Context, c *Connector) error {
	if err := checkContext("get connection request", ctx); err != nil {
		return err
	}
	if l.adapter.closed() {
		return l.adapter.removed("get connection request")
	}
	if c == nil || c.adapter != l.adapter {
		return &Error{Op: "get connection request", Status: ErrInvalidParameterN(1)}
	}
	done := make(chan provider.Outcome, 1)
	o := l.adapter.call(func(*provider.Engine) provider.Outcome {
		return l.l.GetRequest(c.k, func(o provider.Outcome) { done <- o })
	})
	if o != provider.OutcomeSuccess {
		return fail("get connection request", noAddr, noAddr, o)
	}
	o, cause := wait(ctx, done, func() {
		l.adapter.do(func(*provider.Engine) { l.l.CancelRequest(c.k, provider.OutcomeCanceled) })
	})
	return finished("get connection request", noAddr, noAddr, o, cause)
}

// CancelOverlappedRequests ends every waiting GetConnectionRequest with ErrCanceled; requests that arrived stay queued.
func (l *Listener) CancelOverlappedRequests() {
	l.adapter.do(func(*provider.Engine) { l.l.CancelRequests(provider.OutcomeCanceled) })
}

// Close refuses the requests nobody took, and all later ones. Connections that were handed out live on, and keep the port: a Bind to it
// fails with ErrSharingViolation until their connectors are closed, too. Closing twice is harmless.
func (l *Listener) Close() error {
	l.released.Do(func() { l.adapter.verbs.Objects.Give(verbs.ObjectListener) })
	l.adapter.do(func(*provider.Engine) { l.l.Close() })
	return nil
}

package ndk

import (
	"net/netip"
	"sync/atomic"

	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// ConnectEvent is called once for each connection request, with a new connector. The application accepts or rejects it, and closes it.
type ConnectEvent func(context any, connector *Connector)

// Listener receives connection requests. All methods may be called from any goroutine.
type Listener struct {
	object
	l         verbs.Listener
	listening atomic.Bool
}

// CreateListener makes a listener that calls event with eventContext for each request.
//
// Statuses: StatusSuccess; StatusPending with a done; StatusInvalidParameter without an event, StatusInsufficientResources,
// StatusDeviceRemoved.
func (a *Adapter) CreateListener(event ConnectEvent, eventContext any, done CreateCompletion[*Listener], context any) (*Listener, Status) {
	if event == nil {
		return nil, a.unless(StatusInvalidParameter)
	}
	return create(&a.root, verbs.ObjectListener, done, context, func() (*Listener, Status) {
		l := &Listener{}
		l.init(a, verbs.ObjectListener, &a.root)
		l.l = a.verbs.NewListener(func(k *provider.Connector) { l.requested(k, event, eventContext) })
		return l, StatusSuccess
	})
}

// requested announces a request. An engine calls it.
func (l *Listener) requested(k *provider.Connector, event ConnectEvent, context any) {
	if !l.adapter.verbs.Objects.Take(verbs.ObjectConnector) {
		k.Close()
		return
	}
	c := &Connector{k: l.adapter.verbs.Arrived(k)}
	c.init(l.adapter, verbs.ObjectConnector, &l.adapter.root, &l.object)
	l.later(func() {
		if l.ending() { // the request was not announced
			_ = c.Close(nil, nil) // never fails
			return
		}
		event(context, c)
	})
}

// Listen binds a local ND address, whose port may be 0, and starts to accept requests. The address is the adapter's address, or the
// unspecified address for any. While 4096 requests wait to be accepted, rejected or closed, further requests get no answer, and their
// senders repeat them.
//
// Statuses: StatusSuccess; StatusPending with a done; StatusInvalidAddress, StatusSharingViolation, StatusInsufficientResources,
// StatusTooManyAddresses, StatusInvalidDeviceState (listening already), StatusInvalidParameter (AdapterConfig.RequireTLS, and connections
// may be plain), StatusDeviceRemoved.
func (l *Listener) Listen(addr netip.AddrPort, done Completion, context any) Status {
	_, mine := l.l.Place(addr)
	switch {
	case l.listening.Load():
		return l.adapter.unless(StatusInvalidDeviceState)
	case !mine:
		return l.adapter.unless(StatusInvalidAddress)
	case l.l.NeedsTLS():
		return l.adapter.unless(StatusInvalidParameter)
	}
	return l.perform(done, context, func() Status {
		_, o := l.l.Bind(addr)
		if o == provider.OutcomeSuccess {
			l.listening.Store(true)
			o = l.l.Listen(0)
		}
		return statusTable[o]
	})
}

// LocalAddress returns the address, with the chosen port, while listening.
//
// Statuses: StatusSuccess, StatusInvalidDeviceState (not listening), StatusDeviceRemoved.
func (l *Listener) LocalAddress() (netip.AddrPort, Status) {
	return told(l.l.LocalAddress())
}

// ControlConnectEvents pauses or resumes the listener. To peers a paused listener looks absent. Requests that were announced are not
// affected.
func (l *Listener) ControlConnectEvents(pause bool) {
	l.adapter.verbs.Do(func(*provider.Engine) { l.l.Pause(pause) })
}

// Close refuses new requests at once. The listener ends when the connectors that it announced are closed; until then its port stays in use.
// Close never fails. done, which may be nil, is called if and only if Close returns StatusPending.
func (l *Listener) Close(done CloseCompletion, context any) Status {
	return l.close(l.l.Close, done, context)
}

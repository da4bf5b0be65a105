package nd

import (
	"context"
	"errors"
	"net/netip"
)

// EndpointListener makes an endpoint of every Dial that reaches it. All methods may be called from any goroutine.
type EndpointListener struct {
	Adapter  *Adapter
	Listener *Listener

	cfg   EndpointConfig
	owned *Adapter // to close; nil when somebody else's
}

// Listen waits for Dial at an ND address. Without cfg.Adapter it opens one on at's address.
//
// Errors: those of OpenAdapter, CreateListener, Listener.Bind and Listener.Listen.
func Listen(at netip.AddrPort, cfg EndpointConfig) (_ *EndpointListener, err error) {
	l := &EndpointListener{Adapter: cfg.Adapter, cfg: cfg}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	if l.Adapter == nil {
		if l.Adapter, err = OpenAdapter(cfg.adapter(at.Addr())); err != nil {
			return nil, err
		}
		l.owned = l.Adapter
	}
	if l.Listener, err = l.Adapter.CreateListener(); err != nil {
		return nil, err
	}
	if err := l.Listener.Bind(at); err != nil {
		return nil, err
	}
	return l, l.Listener.Listen(0)
}

// Address returns the ND address to Dial.
func (l *EndpointListener) Address() (netip.AddrPort, error) { return l.Listener.LocalAddress() }

// Accept waits for a Dial and returns the endpoint that is connected to it, with objects of its own on the listener's adapter.
// An error may be about one peer only: ErrConnectionAborted and ErrConnectionRefused say that it gave up, ErrIOTimeout that it
// fell silent, ErrInvalidBufferSize that it is no endpoint.
func (l *EndpointListener) Accept(ctx context.Context) (*Endpoint, error) {
	e, err := newEndpoint(l.Adapter, l.cfg)
	if err != nil {
		return nil, err
	}
	err = l.Listener.GetConnectionRequest(ctx, e.Connector)
	if err == nil {
		err = e.learn()
	}
	if err == nil {
		err = e.Connector.Accept(ctx, e.QueuePair, e.params(l.cfg.Greeting))
	}
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// Close stops listening. An adapter that Listen opened is closed with it, and every endpoint on it ends. Closing twice is
// harmless.
func (l *EndpointListener) Close() error {
	var err error
	if l.Listener != nil {
		err = l.Listener.Close()
	}
	return errors.Join(err, closeAdapter(l.owned))
}

package nd

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"
)

// maxEstablishing bounds the clients of one listener that were accepted and have neither completed nor failed. Each of them holds an
// endpoint and its memory, so this bounds what unknown hosts can make the listener hold. Further clients wait in the backlog.
const maxEstablishing = 16

// defaultEstablish is the default of EndpointConfig.EstablishTimeout. Dial completes as soon as the accept arrives, so the time covers
// only a round trip and a busy machine. It equals the silence that ends any handshake (PROTOCOL §7.2).
const defaultEstablish = 5 * time.Second

// errNeverCompleted is the cause of ErrIOTimeout for a client that was accepted and never completed.
var errNeverCompleted = errors.New("the client was accepted and did not complete the connection in time")

// EndpointListener accepts each incoming Dial as an Endpoint. All methods may be called from any goroutine.
type EndpointListener struct {
	Adapter  *Adapter
	Listener *Listener

	cfg   EndpointConfig
	owned *Adapter // the adapter that Close closes; nil if the caller owns it

	slots   chan struct{} // holds a value for each client being established, at most maxEstablishing
	arrived chan arrival  // passes clients that hold a slot to Accept
	life    context.Context
	end     context.CancelFunc
	mu      sync.Mutex     // orders the start of workers before Close waits for them
	workers sync.WaitGroup // background goroutines
}

// arrival is how the establishment of one client ended.
type arrival struct {
	endpoint *Endpoint
	err      error
}

// Listen listens for Dial at an ND address. Without cfg.Adapter it opens an adapter on the address.
//
// Errors: those of OpenAdapter, CreateListener, Listener.UseTLS, Bind and Listen.
func Listen(at netip.AddrPort, cfg EndpointConfig) (_ *EndpointListener, err error) {
	l := &EndpointListener{
		Adapter: cfg.Adapter, cfg: cfg, slots: make(chan struct{}, maxEstablishing), arrived: make(chan arrival),
	}
	if l.cfg.EstablishTimeout <= 0 {
		l.cfg.EstablishTimeout = defaultEstablish
	}
	l.life, l.end = context.WithCancel(context.Background())
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
	if cfg.TLS != nil {
		policy := TLSRequired
		if cfg.AllowPlain {
			policy = TLSAllowed
		}
		if err := l.Listener.UseTLS(cfg.TLS, policy); err != nil {
			return nil, err
		}
	}
	if err := l.Listener.Bind(at); err != nil {
		return nil, err
	}
	return l, l.Listener.Listen(0)
}

// Address returns the ND address to Dial.
func (l *EndpointListener) Address() (netip.AddrPort, error) { return l.Listener.LocalAddress() }

// Accept waits for a Dial and returns the connected endpoint, which has objects of its own on the listener's adapter. While it waits, it
// establishes up to 16 clients concurrently in the background, so that a slow client does not delay others. The next call returns clients
// that become established after Accept has returned.
//
// Errors: ErrCanceled (ctx ended, or Close), ErrInvalidDeviceState (closed before), ErrDeviceRemoved, and the errors of the Create methods
// and of Adapter.AllocateMemory.
//
// Some errors concern one peer only: ErrConnectionAborted and ErrConnectionRefused (the peer gave up), ErrIOTimeout (the peer fell silent
// or did not complete within EndpointConfig.EstablishTimeout), ErrInvalidBufferSize (the peer is not an endpoint).
func (l *EndpointListener) Accept(ctx context.Context) (*Endpoint, error) {
	if err := checkContext("accept", ctx); err != nil {
		return nil, err
	}
	switch {
	case l.life.Err() != nil: // checked first, because Close also closes an adapter of the listener's own
		return nil, &Error{Op: "accept", Status: ErrInvalidDeviceState}
	case l.Adapter.closed():
		return nil, l.Adapter.removed("accept")
	}
	select {
	case a := <-l.arrived:
		return a.endpoint, a.err
	default:
	}
	ctx, stop := context.WithCancel(ctx) // ends the background waits for requests with this call
	defer stop()
	taken := make(chan error, 1)
	for free := l.slots; ; {
		select {
		case a := <-l.arrived:
			return a.endpoint, a.err
		case free <- struct{}{}:
			free = nil // only one request is awaited at a time
			if !l.background(func() { taken <- l.take(ctx) }) {
				<-l.slots
			}
		case err := <-taken:
			if err != nil && l.life.Err() == nil {
				return nil, err
			}
			free = l.slots
		case <-ctx.Done():
			return nil, &Error{Op: "accept", Status: ErrCanceled, Err: context.Cause(ctx)}
		case <-l.life.Done():
			return nil, &Error{Op: "accept", Status: ErrCanceled}
		}
	}
}

// background runs f in a goroutine that Close waits for. It does nothing after Close.
func (l *EndpointListener) background(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.life.Err() != nil {
		return false
	}
	l.workers.Go(f)
	return true
}

// take waits for the next request and begins to establish it. It holds a slot, which it passes on or gives back.
func (l *EndpointListener) take(ctx context.Context) error {
	e, err := newEndpoint(l.Adapter, l.cfg)
	if err == nil {
		if err = l.Listener.GetConnectionRequest(ctx, e.Connector); err == nil {
			l.workers.Go(func() { l.establish(e) })
			return nil
		}
		err = errors.Join(err, e.Close())
	}
	<-l.slots
	return err
}

// establish accepts a client and hands it to Accept. It gives the slot back when Accept has taken the endpoint or the error.
func (l *EndpointListener) establish(e *Endpoint) {
	defer func() { <-l.slots }()
	ctx, cancel := context.WithTimeoutCause(l.life, l.cfg.EstablishTimeout, errNeverCompleted)
	defer cancel()
	from, _ := e.Connector.PeerAddress() // invalid if the peer has given up already
	err := e.learn()
	if err == nil {
		err = e.Connector.Accept(ctx, e.QueuePair, e.params(l.cfg.Greeting))
	}
	if errors.Is(err, errNeverCompleted) {
		err = &Error{Op: "accept", Remote: from, Status: ErrIOTimeout, Err: errNeverCompleted}
	}
	a := arrival{e, err}
	if err != nil {
		a = arrival{nil, errors.Join(err, e.Close())}
	} else {
		e.watchEnd()
	}
	select {
	case l.arrived <- a:
	case <-l.life.Done():
		_ = e.Close() // no caller is left to report to
	}
}

// Close stops listening, and ends clients that no Accept has returned. If Listen opened the adapter, Close closes it, which ends every
// endpoint on it. Closing twice is harmless.
func (l *EndpointListener) Close() error {
	l.mu.Lock()
	l.end()
	l.mu.Unlock()
	var err error
	if l.Listener != nil {
		err = l.Listener.Close()
	}
	l.workers.Wait()
	return errors.Join(err, closeAdapter(l.owned))
}

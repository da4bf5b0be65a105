package verbs

import (
	"context"
	"errors"
	"net/netip"
	"syscall"

	"github.com/ndxdp/ndxdp/internal/datapath"
	"github.com/ndxdp/ndxdp/internal/host"
	"github.com/ndxdp/ndxdp/provider"
)

// Connector makes or accepts one connection. Accept and the methods of provider.Connector are for the owner of the connector, as which Call
// and Own run a function. All other methods may be called from any goroutine.
type Connector struct {
	*provider.Connector
	adapter *Adapter

	encrypts bool // UseTLS was called with a configuration; guarded as the engine's connector is
}

// NewConnector makes an idle connector.
func (a *Adapter) NewConnector() Connector {
	c := Connector{adapter: a}
	a.Do(func(e *provider.Engine) { c.Connector = e.NewConnector() })
	return c
}

// Arrived returns the connector of a request that a listener announced.
func (a *Adapter) Arrived(k *provider.Connector) Connector {
	return Connector{Connector: k, adapter: a}
}

// Call runs f as the owner of the connector, on whichever engine it is, unless the adapter is closed.
func (c *Connector) Call(f func() provider.Outcome) (o provider.Outcome) {
	c.Own(c.adapter.UnlessClosed(&o, func(*provider.Engine) provider.Outcome { return f() }))
	return o
}

// Bind binds a local address; port 0 selects a free one. With OutcomeSharingViolation, use says who has the port.
//
// Outcomes: OutcomeSuccess, OutcomeWrongAddress, OutcomeSharingViolation, OutcomeInsufficientResources, OutcomeTooManyAddresses,
// OutcomeAddressAssociated, OutcomeDeviceRemoved.
func (c *Connector) Bind(addr netip.AddrPort) (use PortUse, o provider.Outcome) {
	at, ok := c.adapter.Local(addr)
	c.Own(c.adapter.UnlessClosed(&o, func(e *provider.Engine) provider.Outcome {
		if !ok {
			return OutcomeWrongAddress
		}
		o := c.Connector.Bind(at)
		use = portUse(e, at, o)
		return o
	}))
	return use, o
}

// Attempt is one Connect. Without From, it uses the connector's binding, or else the adapter's address with a free port.
type Attempt struct {
	QP       *QP // nil for none
	To       netip.AddrPort
	Params   provider.ConnectParams
	From     *netip.AddrPort          // address to bind to, whatever the connector is bound to
	Endpoint *provider.SharedEndpoint // with From: the shared endpoint that has this address; nil for an address of the connector's own
	Begun    func()                   // called before the attempt can end; may be nil
}

// Begin checks the arguments of Connect in the specification's order: state, queue pair, destination, private data, and whether the
// queue pair is free. It then begins the attempt, which Seek continues. stop ends Seek. fin is called once, unless Begin fails.
//
// Outcomes: OutcomeSuccess, OutcomeConnectionActive, OutcomeConnectionInvalid, OutcomeWrongQueuePair, OutcomeNoAddress,
// OutcomeBadNetworkName (not a single host), OutcomeWrongFamily, OutcomeWrongAddress (From), OutcomeInvalidBufferSize, OutcomeInvalidState,
// OutcomeWrongArgument (RequireTLS without UseTLS), those of Bind, OutcomeAddressExists, OutcomeInsufficientResources, OutcomeDeviceRemoved.
func (c *Connector) Begin(t *Attempt, stop func(), fin provider.Finish) provider.Outcome {
	return c.Call(func() provider.Outcome {
		o := c.CheckState()
		if o == provider.OutcomeSuccess && c.adapter.RequireTLS && !c.encrypts {
			o = OutcomeWrongArgument
		}
		if o == provider.OutcomeSuccess {
			o = c.adapter.checkAttempt(t)
		}
		if o == provider.OutcomeSuccess && t.From != nil {
			o = c.rebind(t)
		}
		if o != provider.OutcomeSuccess {
			return o
		}
		local := provider.EndpointFrom(netip.AddrPortFrom(c.adapter.Addr, 0))
		remote := provider.EndpointFrom(netip.AddrPortFrom(t.To.Addr().Unmap(), t.To.Port()))
		o = c.Connector.Begin(t.QP.QP, local, remote, t.Params, stop, fin)
		if o == provider.OutcomeSuccess && t.Begun != nil {
			t.Begun()
		}
		return o
	})
}

// checkAttempt checks the arguments that do not depend on the connector.
func (a *Adapter) checkAttempt(t *Attempt) provider.Outcome {
	switch {
	case t.QP == nil || t.QP.adapter != a:
		return OutcomeWrongQueuePair
	case !t.To.IsValid() || t.From != nil && !t.From.IsValid():
		return OutcomeNoAddress
	case !destination(t.To):
		return provider.OutcomeBadNetworkName
	case t.To.Addr().Unmap().Is4() != a.Addr.Is4():
		return OutcomeWrongFamily
	case !a.inZone(t.To.Addr()):
		return provider.OutcomeNetworkUnreachable
	}
	if t.From == nil {
		return provider.OutcomeSuccess
	}
	if _, mine := a.Local(*t.From); !mine {
		return OutcomeWrongAddress
	}
	return provider.CheckParams(t.QP.QP, t.Params)
}

// rebind binds the connector to the source address of an attempt.
func (c *Connector) rebind(t *Attempt) provider.Outcome {
	c.Unbind()
	if t.Endpoint != nil {
		return c.BindShared(t.Endpoint)
	}
	at, _ := c.adapter.Local(*t.From)
	return c.Connector.Bind(at)
}

// Seek continues an attempt of Begin: it resolves the route and the neighbour, however long that takes, and sends the request. If
// there is no route or neighbour, it ends the attempt and returns the reason. If ctx ends, the caller that ended it must end the
// attempt.
func (a *Adapter) Seek(ctx context.Context, k *provider.Connector, peer netip.Addr) error {
	if !a.beginSeek() {
		return nil
	}
	err := a.reach(ctx, peer.WithZone(""))
	a.seeks.Done()
	if ctx.Err() != nil {
		return nil
	}
	k.Own(func(*provider.Engine) {
		o := provider.OutcomeSuccess
		if err == nil {
			o, err = request(k)
		}
		if err != nil {
			o = unreachable(err)
		}
		if o != provider.OutcomeSuccess {
			k.NotReached(o)
		}
	})
	return err
}

// beginSeek makes Close wait for a search, because Close closes the device that the search uses. It fails after Close has ended all
// attempts.
func (a *Adapter) beginSeek() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sought {
		return false
	}
	a.seeks.Add(1)
	return true
}

// endSeeks waits for the searches of ended attempts, and prevents new ones.
func (a *Adapter) endSeeks() {
	a.mu.Lock()
	a.sought = true
	a.mu.Unlock()
	a.seeks.Wait()
}

// sourcePorts is how many source ports a Connect tries, because over plain sockets another program may have one of them. They are random
// ports of 16384.
const sourcePorts = 4

// request sends the request of an attempt. Over plain sockets another program may have the source port; the next try then draws another
// one. The error says why there is no path.
func request(k *provider.Connector) (o provider.Outcome, err error) {
	for range sourcePorts {
		if o, err = k.Reached(); !errors.Is(err, datapath.ErrPortTaken) {
			break
		}
	}
	return o, err
}

// unreachable returns the outcome of an attempt without a route or neighbour.
func unreachable(err error) provider.Outcome {
	for _, missing := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS} {
		if errors.Is(err, missing) {
			return provider.OutcomeInsufficientResources
		}
	}
	switch {
	case errors.Is(err, host.ErrNoRoute):
		return provider.OutcomeNetworkUnreachable
	case errors.Is(err, host.ErrNotOneHost):
		return provider.OutcomeBadNetworkName
	}
	return provider.OutcomeHostUnreachable
}

// Accept accepts a request. begun, which may be nil, is called before the answer can end. The caller is the owner.
//
// Outcomes: OutcomeSuccess, OutcomeWrongQueuePair, OutcomeConnectionInvalid, OutcomeAborted, OutcomeConnectionActive,
// OutcomeInvalidBufferSize, OutcomeInvalidState.
func (c *Connector) Accept(qp *QP, params provider.ConnectParams, fin provider.Finish, begun func()) provider.Outcome {
	if qp == nil || qp.adapter != c.adapter {
		return OutcomeWrongQueuePair
	}
	o := c.Connector.Accept(qp.QP, params, fin)
	if o == provider.OutcomeSuccess && begun != nil {
		begun()
	}
	return o
}

// Reject refuses a request, or declines a connection after the peer accepted it.
func (c *Connector) Reject(private []byte) provider.Outcome {
	return c.Call(func() provider.Outcome { return c.Connector.Reject(private) })
}

// PrivateData calls use with the private data that the peer sent most recently. use must not keep it.
//
// Outcomes: OutcomeSuccess, OutcomeConnectionInvalid (nothing yet), OutcomeDeviceRemoved.
func (c *Connector) PrivateData(use func(data []byte)) provider.Outcome {
	return c.Call(func() provider.Outcome {
		data, o := c.Private()
		if o == provider.OutcomeSuccess {
			use(data)
		}
		return o
	})
}

// LocalAddress returns the local address. It is known from an attempt or request until the connection is over.
func (c *Connector) LocalAddress() (netip.AddrPort, provider.Outcome) { return c.address(c.Local) }

// PeerAddress returns the peer's address. It is known from the peer's accept or request until the connection is over.
func (c *Connector) PeerAddress() (netip.AddrPort, provider.Outcome) { return c.address(c.Peer) }

func (c *Connector) address(get func() (provider.Endpoint, provider.Outcome)) (at netip.AddrPort, o provider.Outcome) {
	o = c.Call(func() provider.Outcome {
		e, o := get()
		at = AddrPort(e)
		return o
	})
	return at, o
}

// Close ends the connector's pending requests and its connection. Closing twice is harmless.
func (c *Connector) Close() { c.Own(func(*provider.Engine) { c.Connector.Close() }) }

package nd

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"syscall"

	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// Connector makes a connection for a queue pair, or takes a connection request that arrived at a Listener.
//
// The active side calls Connect, reads ReadLimits and PrivateData, and then calls CompleteConnect or Reject. The passive side gets the
// connector from Listener.GetConnectionRequest, reads ReadLimits and PrivateData, and then calls Accept or Reject. Neither side times out
// because the other side's application is slow.
//
// All methods may be called from any goroutine.
type Connector struct {
	adapter  *Adapter
	k        verbs.Connector
	released sync.Once
}

// ConnectParams is what Connect and Accept tell the peer. Read limits are silently reduced to the limits of the adapter and of the peer.
// PrivateData has at most MaxCallerData bytes for Connect and MaxCalleeData bytes for Accept.
type ConnectParams struct {
	InboundReadLimit  uint32 // Reads of the peer that this side serves at the same time
	OutboundReadLimit uint32 // Reads that this side wants to have outstanding
	PrivateData       []byte
}

func (p ConnectParams) provider() provider.ConnectParams {
	return provider.ConnectParams{Inbound: p.InboundReadLimit, Outbound: p.OutboundReadLimit, Private: p.PrivateData}
}

// CreateConnector makes an idle connector.
//
// Errors: ErrInsufficientResources, ErrDeviceRemoved.
func (a *Adapter) CreateConnector() (*Connector, error) {
	if err := a.create("create connector", verbs.ObjectConnector); err != nil {
		return nil, err
	}
	return &Connector{adapter: a, k: a.verbs.NewConnector()}, nil
}

// Bind takes a local ND address; port 0 is a free one of 49152 to 65535.
//
// Errors: ErrInvalidAddress, ErrSharingViolation, ErrInsufficientResources (no descriptor is left), ErrTooManyAddresses (no port is free),
// ErrAddressAssociated (bound already, in use or closed), ErrDeviceRemoved.
func (c *Connector) Bind(addr netip.AddrPort) error {
	use, o := c.k.Bind(addr)
	return c.adapter.bound(addr, use, o)
}

// Connect asks the listener at dest for a connection. It returns when the peer's application has accepted or rejected, or when the attempt
// has failed. A failed attempt leaves qp unchanged. The attempt begins with the call, even if
// the neighbour entry of the peer is not resolved yet. From then on the connector has its address and qp is in use. Closing qp ends the
// attempt with ErrCanceled.
//
// Errors about the peer: ErrConnectionRefused (no listener, backlog full, or rejected; after a rejection PrivateData has the peer's
// reason), ErrConnectionRefused with syscall.ECONNREFUSED (the peer's host says that no adapter is open), ErrIOTimeout (the peer is
// silent), ErrHostUnreachable and ErrNetworkUnreachable (no neighbour or route, or a router says so by ICMP).
//
// With UseTLS, further errors are about TLS. Without it, ErrConnectionRefused with CausePeerWantsTLS if the peer accepts encrypted
// connections only, and ErrInvalidParameter on an adapter with AdapterConfig.RequireTLS.
//
// Errors about this side: ErrCanceled, ErrConnectionActive, ErrInvalidBufferSize, ErrAddressAlreadyExists, ErrTooManyAddresses,
// ErrBadNetworkName, ErrInvalidAddress (dest is of another address family than the adapter), ErrInvalidParameterN(1) (qp is nil or of
// another adapter), ErrConnectionInvalid (the connector is used up), ErrInvalidDeviceState (qp is used up), ErrInsufficientResources (the
// adapter has no connection left, or the process no descriptor), ErrDeviceRemoved.
func (c *Connector) Connect(ctx context.Context, qp *QueuePair, dest netip.AddrPort, params ConnectParams) error {
	if err := checkContext("connect", ctx); err != nil {
		return err
	}
	search, stop := context.WithCancel(ctx)
	defer stop()
	w := newCall()
	defer calls.Put(w)
	answered, returned, secrecy := false, false, error(nil)
	o := c.k.Begin(&verbs.Attempt{QP: qp.inner(), To: dest, Params: params.provider()}, stop, func(o provider.Outcome) {
		answered, returned, secrecy = c.k.Answered(), c.k.Returned(), c.refusedByTLS(o)
		w.Finish(o)
	})
	if o == provider.OutcomeInsufficientResources { // of the binding; a lack of connections shows later
		return c.adapter.fail("connect", noAddr, dest, o, errNoDescriptor)
	}
	if o != provider.OutcomeSuccess {
		return c.adapter.fail("connect", noAddr, dest, o, c.adapter.unfit(o))
	}
	peer := dest.Addr().Unmap()
	unreachable := c.adapter.verbs.Seek(search, c.k.Connector, peer)
	o, cause := c.adapter.sleep(ctx, w, func() { c.cancelPending(w) })
	switch {
	case o == provider.OutcomeIOTimeout:
		cause = c.adapter.silence(peer, answered)
	case returned:
		cause = c.adapter.returned(peer, o)
	case cause == nil && secrecy != nil:
		cause = secrecy
	case o == provider.OutcomeRefused:
		cause = fmt.Errorf("the adapter there refused: nothing listens on ND port %d, its backlog is full, or the application rejected the connection", dest.Port())
	case unreachable != nil && o != provider.OutcomeCanceled:
		cause = unreachable
	}
	return c.adapter.fail("connect", noAddr, dest, o, cause)
}

// unfit returns the cause of an attempt or a Listen that did not begin, if the status alone does not say it.
func (a *Adapter) unfit(o provider.Outcome) error {
	switch o {
	case verbs.OutcomeWrongFamily:
		return fmt.Errorf("this adapter has %s: IPv4 and IPv6 do not reach each other, connect from an address of the peer's family", a.verbs.Addr)
	case verbs.OutcomeWrongArgument:
		return verbs.ErrNeedsTLS
	default:
		return nil
	}
}

// silence returns the cause of a Connect to which the peer did not answer. It depends on whether the peer had answered before.
func (a *Adapter) silence(peer netip.Addr, answered bool) error {
	if answered {
		return fmt.Errorf("UDP port %d of %s answered and then fell silent: its process or machine ended, or the path there was lost; connect again",
			a.udpPort, peer)
	}
	return fmt.Errorf("no answer from UDP port %d of %s: no adapter is open there, it has another UDP port, a firewall is in the way, NAT changes addresses "+
		"on the way (ND needs the addresses of the ends), or a link on the way loses packets of %d bytes without a word", a.udpPort, peer, plan.LeastMTU(peer))
}

// returned returns the cause of a request that an ICMP error ended. It is the errno that a UDP socket returns, which tells a refusal by the
// peer's host from a refusal by its listener.
func (a *Adapter) returned(peer netip.Addr, o provider.Outcome) error {
	switch o {
	case provider.OutcomeRefused:
		return fmt.Errorf("an ICMP error (%w) says that no process has UDP port %d of %s: no adapter is open there, it has another UDP port, or a firewall refuses it",
			syscall.ECONNREFUSED, a.udpPort, peer)
	case provider.OutcomeNetworkUnreachable:
		return fmt.Errorf("an ICMP error (%w) says that no route leads to the network of %s: check the routes of the routers on the path (tracepath %s)",
			syscall.ENETUNREACH, peer, peer)
	case provider.OutcomePathTooSmall:
		return fmt.Errorf("an ICMP error (%w) says that a link on the way to %s has a smaller MTU than the %d bytes that ND needs: raise the MTU of that link (tracepath %[2]s shows it)",
			syscall.EMSGSIZE, peer, plan.LeastMTU(peer))
	default:
		return fmt.Errorf("an ICMP error (%w) says that %s cannot be reached: check that it is up, and that routers and firewalls on the path let UDP port %d pass",
			syscall.EHOSTUNREACH, peer, a.udpPort)
	}
}

// request starts a request on the connector and waits for it.
func (c *Connector) request(ctx context.Context, op string, start func(provider.Finish) provider.Outcome) error {
	if err := checkContext(op, ctx); err != nil {
		return err
	}
	w := newCall()
	defer calls.Put(w)
	var local, peer provider.Endpoint
	o := c.k.Call(func() provider.Outcome {
		o := start(w.fin)
		local, _ = c.k.Local()
		peer, _ = c.k.Peer()
		return o
	})
	from, to := verbs.AddrPort(local), verbs.AddrPort(peer)
	if o != provider.OutcomeSuccess {
		return c.adapter.fail(op, from, to, o, nil)
	}
	o, cause := c.adapter.sleep(ctx, w, func() { c.cancelPending(w) })
	return c.adapter.fail(op, from, to, o, cause)
}

// cancelPending cancels the request of one caller, but not the calls that wait for the end of the connection. If the request has just
// ended, another caller may already have begun the next one.
func (c *Connector) cancelPending(w *call) {
	c.do(func(*provider.Engine) {
		if !w.Ended() {
			c.k.CancelPending()
		}
	})
}

// CompleteConnect establishes the connection that the peer accepted.
//
// Errors: ErrConnectionInvalid (not accepted), ErrConnectionAborted (the peer withdrew), ErrIOTimeout, ErrCanceled, ErrDeviceRemoved.
func (c *Connector) CompleteConnect(ctx context.Context) error {
	return c.request(ctx, "complete connect", c.k.CompleteConnect)
}

// CompleteConnectEarly is CompleteConnect without waiting for the peer. The queue pair can be used at once, so that its first requests
// arrive with the message that completes the connection. If the peer has withdrawn or stays silent, the connection is lost.
//
// Errors: ErrConnectionInvalid (not accepted), ErrConnectionAborted (the peer withdrew before), ErrDeviceRemoved.
func (c *Connector) CompleteConnectEarly() error {
	return c.adapter.fail("complete connect", noAddr, noAddr, c.k.Call(c.k.CompleteConnectEarly), nil)
}

// Accept accepts a connection request. It returns when the peer has completed or declined.
//
// Errors: ErrConnectionInvalid (no request), ErrConnectionAborted (the peer gave up), ErrConnectionRefused (the peer declined after it saw
// the accept), ErrConnectionActive, ErrInvalidBufferSize, ErrInvalidDeviceState (qp is used up), ErrInvalidParameterN(1) (qp is nil or of
// another adapter), ErrIOTimeout, ErrCanceled, ErrDeviceRemoved.
func (c *Connector) Accept(ctx context.Context, qp *QueuePair, params ConnectParams) error {
	return c.request(ctx, "accept", func(fin provider.Finish) provider.Outcome {
		return c.k.Accept(qp.inner(), params.provider(), fin, nil)
	})
}

// Reject refuses a connection request, or declines a connection after the peer accepted it. The peer receives the private data.
//
// Errors: ErrConnectionInvalid, ErrConnectionAborted (the peer is gone already), ErrInvalidBufferSize, ErrDeviceRemoved.
func (c *Connector) Reject(private []byte) error {
	return c.adapter.fail("reject", noAddr, noAddr, c.k.Reject(private), nil)
}

// ReadLimits returns the inbound and outbound read limits. Before Accept they are the peer's offer; afterwards they are the limits in
// force.
//
// Errors: ErrConnectionInvalid (the peer has not offered any in this attempt), ErrDeviceRemoved.
func (c *Connector) ReadLimits() (inbound, outbound uint32, err error) {
	o := c.k.Call(func() (o provider.Outcome) {
		inbound, outbound, o = c.k.ReadLimits()
		return o
	})
	return inbound, outbound, c.adapter.fail("read limits", noAddr, noAddr, o, nil)
}

// PrivateData returns the private data that the peer sent most recently: with its request, its accept, or its rejection. The next Connect
// clears it.
//
// Errors: ErrConnectionInvalid (the peer has sent nothing yet), ErrDeviceRemoved.
func (c *Connector) PrivateData() ([]byte, error) {
	var data []byte
	o := c.k.PrivateData(func(sent []byte) { data = append([]byte{}, sent...) })
	return data, c.adapter.fail("private data", noAddr, noAddr, o, nil)
}

// GetPrivateData copies the private data (see PrivateData) into buf and returns its length, which may be 0.
//
// Errors: ErrBufferOverflow if buf is too short: buf then has the first bytes, and n is the length it needs. ErrConnectionInvalid if the
// peer has sent nothing yet, ErrDeviceRemoved.
func (c *Connector) GetPrivateData(buf []byte) (n int, err error) {
	short := false
	o := c.k.PrivateData(func(sent []byte) {
		n = len(sent)
		short = copy(buf, sent) < n
	})
	if short {
		o = provider.OutcomeBufferOverflow
	}
	return n, c.adapter.fail("private data", noAddr, noAddr, o, nil)
}

// LocalAddress returns the local ND address. It is known from Connect, or from the arrival of the request, until the connection is over.
//
// Errors: ErrConnectionInvalid, ErrDeviceRemoved.
func (c *Connector) LocalAddress() (netip.AddrPort, error) {
	at, o := c.k.LocalAddress()
	return at, c.adapter.fail("local address", noAddr, noAddr, o, nil)
}

// PeerAddress returns the peer's ND address. It is known from the peer's accept or request until the connection is over. Errors are those
// of LocalAddress.
func (c *Connector) PeerAddress() (netip.AddrPort, error) {
	at, o := c.k.PeerAddress()
	return at, c.adapter.fail("peer address", noAddr, noAddr, o, nil)
}

// NotifyDisconnect waits until the peer disconnects or the connection is lost. It does not end the connection.
//
// Errors: ErrConnectionInvalid (never connected), ErrCanceled, ErrDeviceRemoved.
func (c *Connector) NotifyDisconnect(ctx context.Context) error {
	if err := checkContext("notify disconnect", ctx); err != nil {
		return err
	}
	w := newCall()
	defer calls.Put(w)
	id, err := c.armDisconnect(w.fin)
	if err != nil {
		return err
	}
	o, cause := c.adapter.sleep(ctx, w, func() { c.cancelNotification(id) })
	return c.adapter.fail("notify disconnect", noAddr, noAddr, o, cause)
}

// cancelNotification ends one notification of the connection's end.
func (c *Connector) cancelNotification(id uint64) {
	c.do(func(*provider.Engine) { c.k.CancelNotification(id) })
}

// Disconnect ends the connection gracefully. Outstanding requests of this side end with ErrCanceled, and the peer's NotifyDisconnect
// returns. Disconnect returns when the peer has disconnected too.
//
// Errors: ErrConnectionInvalid (not connected, or lost), ErrConnectionAborted (the peer ended it abruptly), ErrIOTimeout (the peer did not
// disconnect within 10 s; the connection is over nevertheless), ErrCanceled, ErrDeviceRemoved.
func (c *Connector) Disconnect(ctx context.Context) error {
	return c.request(ctx, "disconnect", c.k.Disconnect)
}

// CancelOverlappedRequests ends every call that is pending on the connector with ErrCanceled.
func (c *Connector) CancelOverlappedRequests() {
	c.do(func(*provider.Engine) { c.k.Cancel() })
}

// Close releases the connector. Pending calls end with ErrCanceled, a connection attempt is abandoned or refused, and a connection is ended
// for both sides. Closing twice is harmless.
func (c *Connector) Close() error {
	c.released.Do(func() { c.adapter.verbs.Objects.Give(verbs.ObjectConnector) })
	c.k.Close()
	return nil
}

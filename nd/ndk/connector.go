package ndk

import (
	"context"
	"net/netip"

	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// Connector makes a connection for a queue pair, or takes a connection request that arrived at a Listener.
//
// The active side calls Connect, reads ConnectionData, and then calls CompleteConnect or Reject. The passive side gets the connector from
// the listener's connect event, reads ConnectionData, and then calls Accept or Reject. Neither side times out because the other side's
// application is slow.
type Connector struct {
	object
	k     verbs.Connector
	event uint64 // id of the notification behind the disconnect event; like k, owned by the engine's owner
}

// DisconnectEvent is called at most once per connection, when the peer disconnects or the connection is lost, unless this side
// disconnects or closes first. It never comes before the completion callback of CompleteConnect or Accept has returned.
type DisconnectEvent func(context any)

// DisconnectEventEx is DisconnectEvent with the provider's reason; 0 means that there is none.
type DisconnectEventEx func(context any, reason uint32)

// ConnectParams is what Connect and Accept tell the peer. Read limits are silently reduced to the limits of the adapter and of the peer.
// PrivateData has at most MaxCallerData bytes for Connect and MaxCalleeData bytes for Accept.
type ConnectParams struct {
	InboundReadLimit  uint32 // Reads of the peer that this side serves at the same time
	OutboundReadLimit uint32 // Reads that this side wants to have outstanding
	PrivateData       []byte
}

func (p ConnectParams) engine() provider.ConnectParams {
	return provider.ConnectParams{Inbound: p.InboundReadLimit, Outbound: p.OutboundReadLimit, Private: p.PrivateData}
}

// CreateConnector makes an idle connector.
//
// Statuses: StatusSuccess; StatusPending with a done; StatusInsufficientResources, StatusDeviceRemoved.
func (a *Adapter) CreateConnector(done CreateCompletion[*Connector], context any) (*Connector, Status) {
	return create(&a.root, verbs.ObjectConnector, done, context, func() (*Connector, Status) {
		c := &Connector{}
		c.init(a, verbs.ObjectConnector, &a.root)
		c.k = a.verbs.NewConnector()
		return c, StatusSuccess
	})
}

// Connect binds the local address src, whose port may be 0, and asks the listener at dest for a connection. It finishes when the peer's
// application has accepted or rejected, or when the attempt has failed. A failed attempt leaves qp unchanged. After
// StatusConnectionRefused, StatusIOTimeout, StatusHostUnreachable and StatusNetworkUnreachable the connector may try again.
//
// Statuses: StatusPending, and then StatusSuccess, StatusConnectionRefused (no listener, the peer's host says that no adapter is open, or
// rejected; after a rejection ConnectionData has the peer's reason), StatusIOTimeout, StatusHostUnreachable, StatusNetworkUnreachable,
// StatusAddressAlreadyExists, StatusCancelled, StatusInsufficientResources, StatusDeviceRemoved.
//
// At once: StatusInvalidAddress (src), StatusSharingViolation, StatusTooManyAddresses, StatusAddressAlreadyExists, StatusNetworkUnreachable
// (dest is not a single host), StatusConnectionActive, StatusConnectionInvalid (the connector is used up), StatusInvalidDeviceState (qp is
// used up), StatusInvalidBufferSize, StatusInvalidParameter (done or qp is nil, qp is another adapter's, an address is invalid or of
// another family; AdapterConfig.RequireTLS without UseTLS), StatusInsufficientResources, StatusDeviceRemoved.
func (c *Connector) Connect(qp *QP, src, dest netip.AddrPort, params ConnectParams, done Completion, context any) Status {
	return c.connect(qp, nil, src, dest, params, done, context)
}

// ConnectWithSharedEndpoint is Connect from the address of a shared endpoint. Other connectors use the endpoint for other destinations.
// Statuses are those of Connect, except those about src.
func (c *Connector) ConnectWithSharedEndpoint(
	qp *QP, endpoint *SharedEndpoint, dest netip.AddrPort, params ConnectParams, done Completion, context any,
) Status {
	if endpoint == nil || endpoint.adapter != c.adapter {
		return c.adapter.unless(StatusInvalidParameter)
	}
	at, _ := endpoint.LocalAddress()
	return c.connect(qp, endpoint, at, dest, params, done, context)
}

func (c *Connector) connect(
	qp *QP, endpoint *SharedEndpoint, src, dest netip.AddrPort, params ConnectParams, done Completion, about any,
) Status {
	if done == nil {
		return c.adapter.unless(StatusInvalidParameter)
	}
	t := verbs.Attempt{QP: qp.inner(), From: &src, To: dest, Params: params.engine(), Begun: func() {
		c.follow(&qp.object)
		if endpoint != nil {
			c.follow(&endpoint.object)
		}
	}}
	if endpoint != nil {
		t.Endpoint = endpoint.shared
	}
	search, stop := context.WithCancel(context.Background())
	s := c.request(done, about, func(fin provider.Finish) provider.Outcome { return c.k.Begin(&t, stop, fin) })
	if s != StatusPending {
		stop()
		return s
	}
	go func() {
		_ = c.adapter.verbs.Seek(search, c.k.Connector, dest.Addr().Unmap()) // the attempt's status reports an error
		stop()
	}()
	return StatusPending
}

// CompleteConnect establishes the connection that the peer accepted. event, which may be nil, is called when the peer ends the connection.
//
// Statuses: StatusPending, and then StatusSuccess, StatusConnectionAborted (the peer withdrew), StatusIOTimeout, StatusCancelled,
// StatusDeviceRemoved. At once: StatusConnectionInvalid (not accepted), StatusConnectionAborted, StatusInvalidParameter (done is nil),
// StatusDeviceRemoved.
func (c *Connector) CompleteConnect(event DisconnectEvent, eventContext any, done Completion, context any) Status {
	return c.CompleteConnectEx(plain(event), eventContext, done, context)
}

// CompleteConnectEx is CompleteConnect with an event that has a reason.
func (c *Connector) CompleteConnectEx(event DisconnectEventEx, eventContext any, done Completion, context any) Status {
	return c.request(done, context, func(fin provider.Finish) provider.Outcome {
		return c.k.Call(func() provider.Outcome { return c.k.CompleteConnect(c.established(fin, event, eventContext)) })
	})
}

// Accept accepts a connection request. It finishes when the peer has completed or declined. event, which may be nil, is called when the
// peer ends the connection.
//
// Statuses: StatusPending, and then StatusSuccess, StatusConnectionAborted (the peer gave up or declined), StatusIOTimeout,
// StatusCancelled, StatusDeviceRemoved. At once: StatusConnectionInvalid (no request), StatusConnectionAborted, StatusConnectionActive,
// StatusInvalidBufferSize, StatusInvalidDeviceState (qp is used up), StatusInvalidParameter (done or qp is nil, or qp another adapter's),
// StatusDeviceRemoved.
func (c *Connector) Accept(qp *QP, params ConnectParams, event DisconnectEvent, eventContext any, done Completion, context any) Status {
	return c.AcceptEx(qp, params, plain(event), eventContext, done, context)
}

// AcceptEx is Accept with an event that has a reason.
func (c *Connector) AcceptEx(
	qp *QP, params ConnectParams, event DisconnectEventEx, eventContext any, done Completion, context any,
) Status {
	return c.request(done, context, func(fin provider.Finish) provider.Outcome {
		return c.k.Call(func() provider.Outcome {
			return c.k.Accept(qp.inner(), params.engine(), c.established(fin, event, eventContext), func() { c.follow(&qp.object) })
		})
	})
}

func plain(event DisconnectEvent) DisconnectEventEx {
	if event == nil {
		return nil
	}
	return func(context any, _ uint32) { event(context) }
}

// established makes fin also start the wait for the end of the connection. The completion callback is queued before the event can be
// queued.
func (c *Connector) established(fin provider.Finish, event DisconnectEventEx, context any) provider.Finish {
	return func(o provider.Outcome) {
		fin(o)
		if o != provider.OutcomeSuccess || event == nil {
			return
		}
		c.event, _ = c.k.NotifyDisconnect(func(o provider.Outcome) {
			if o == provider.OutcomeCanceled { // ended by this side
				return
			}
			c.later(func() {
				if !c.ending() {
					event(context, 0)
				}
			})
		})
	}
}

// Reject refuses a connection request, or declines a connection after the peer accepted it. The peer receives the private data.
//
// Statuses: StatusSuccess, StatusConnectionInvalid, StatusConnectionAborted (the peer is gone already), StatusInvalidBufferSize,
// StatusDeviceRemoved.
func (c *Connector) Reject(private []byte) Status {
	return statusTable[c.k.Reject(private)]
}

// ConnectionData returns the read limits and the length n of the private data that the peer sent most recently: with its request, its
// accept, or its rejection. It copies the private data into buf; buf may be nil. The read limits are the peer's offer before Accept, and
// the limits in force afterwards.
//
// Statuses: StatusSuccess, StatusBufferTooSmall (buf has the first bytes), StatusConnectionInvalid (the peer has sent nothing yet),
// StatusDeviceRemoved.
func (c *Connector) ConnectionData(buf []byte) (inbound, outbound uint32, n int, s Status) {
	short := false
	o := c.k.PrivateData(func(data []byte) {
		inbound, outbound, _ = c.k.ReadLimits() // none after a rejection
		n = len(data)
		short = buf != nil && copy(buf, data) < n
	})
	if s = statusTable[o]; short {
		s = StatusBufferTooSmall
	}
	return inbound, outbound, n, s
}

// LocalAddress returns the local ND address. It is known from Connect, or from the arrival of the request, until the connection is over.
//
// Statuses: StatusSuccess, StatusConnectionInvalid, StatusDeviceRemoved.
func (c *Connector) LocalAddress() (netip.AddrPort, Status) { return told(c.k.LocalAddress()) }

// PeerAddress returns the peer's ND address. It is known from the peer's accept or request until the connection is over. Statuses are those
// of LocalAddress.
func (c *Connector) PeerAddress() (netip.AddrPort, Status) { return told(c.k.PeerAddress()) }

// told converts the outcome of a query.
func told[T any](what T, o provider.Outcome) (T, Status) { return what, statusTable[o] }

// Disconnect ends the connection gracefully. Outstanding requests of this side end with StatusCancelled, and the peer's disconnect event is
// called. Disconnect finishes when the peer has disconnected too. This side's event is not called.
//
// Statuses: StatusPending, and then StatusSuccess, StatusConnectionAborted (the peer ended it abruptly), StatusIOTimeout (the peer did not
// disconnect within 10 s; the connection is over nevertheless), StatusCancelled, StatusDeviceRemoved. At once: StatusConnectionInvalid (not
// connected, or lost), StatusInvalidParameter (done is nil), StatusDeviceRemoved.
func (c *Connector) Disconnect(done Completion, context any) Status {
	return c.request(done, context, func(fin provider.Finish) provider.Outcome {
		return c.k.Call(func() provider.Outcome {
			if c.k.State() == provider.CtrEstablished {
				c.k.CancelNotification(c.event)
			}
			return c.k.Disconnect(fin)
		})
	})
}

// Close ends the connector. Pending requests end with StatusCancelled, a connection attempt is abandoned or refused, and a connection is
// ended for both sides. It never fails. done, which may be nil, is called if and only if Close returns StatusPending.
func (c *Connector) Close(done CloseCompletion, context any) Status {
	return c.close(c.k.Close, done, context)
}

package provider

import (
	"github.com/ndxdp/ndxdp/wire"
)

// This file begins connections. Resolving the route and the neighbour of a peer may take seconds, and must not block the engine.
// The attempt exists from Begin on: its connector is connecting and has its address, and its queue pair is in use. If the attempt
// ends, so does the search for the route.

// waySearch is the state of a connector while the route to its peer is resolved.
type waySearch struct {
	params ConnectParams
	stop   func()
}

// Begin begins to connect. remote.Port is the ND port. local is the address to bind to if the connector is not bound. The caller
// resolves the route to the peer and then calls Reached or NotReached. stop, which must not block, is called when the route is not
// needed any more. fin is called if and only if the outcome is success.
func (k *Connector) Begin(qp *QP, local, remote addrPort, params ConnectParams, stop func(), fin Finish) Outcome {
	if o := k.CheckState(); o != OutcomeSuccess {
		return o
	}
	if o := CheckParams(qp, params); o != OutcomeSuccess {
		return o
	}
	if k.state == CtrIdle {
		if o := k.Bind(local); o != OutcomeSuccess {
			return o
		}
	}
	if k.engine.directory.tuples.Find(tuple{k.local, remote}) != nil {
		return OutcomeAddressExists
	}
	params.Private = append([]byte(nil), params.Private...)
	k.way = &waySearch{params: params, stop: stop}
	k.qp, qp.seeker = qp, k
	qp.transition(qpAttach)
	k.peer, k.addressed = remote, true
	k.private, k.havePrivate, k.haveLimits = nil, false, false
	k.answered, k.returned, k.cause = false, false, 0
	if k.tls != nil {
		k.tls.state, k.tls.failure = nil, nil
	}
	k.pending = fin
	k.transition(CtrConnecting)
	return OutcomeSuccess
}

// Reached sends the request, after the link can reach the peer. If the request cannot be sent, nothing changes, and the caller
// tries again or calls NotReached. With OutcomeHostUnreachable, the error says what the link lacks. OutcomeCanceled means that the
// attempt has ended.
func (k *Connector) Reached() (Outcome, error) {
	e := k.engine
	if k.way == nil {
		return OutcomeCanceled, nil
	}
	if e.directory.tuples.Find(tuple{k.local, k.peer}) != nil {
		return OutcomeAddressExists, nil
	}
	c := e.newConn(wire.Endpoint{IP: k.local.IP}, wire.Endpoint{IP: k.peer.IP})
	if c == nil {
		return OutcomeInsufficientResources, nil
	}
	c.identity.peerPort = e.cfg.UDPPort
	path, err := e.link.Connect(c.identity.local, c.identity.destination())
	if err != nil {
		c.free()
		return OutcomeHostUnreachable, err
	}
	params := k.way.params
	qp := k.endSearch()
	c.identity.path = path
	c.identity.active = true
	c.identity.nonce = e.rng.Uint64()
	c.identity.localND, c.identity.peerN = k.local.Port, k.peer.Port
	c.ird, c.requestNumbers.ord = min(params.Inbound, maxReadLimit), min(params.Outbound, maxReadLimit)
	c.handshake.Private, c.handshake.Proven = params.Private, true
	k.attach(c, qp)
	e.directory.tuples.Add(c)
	if k.tls != nil && k.tls.shaker != nil {
		shakeAsClient(c, k.tls.shaker)
		return OutcomeSuccess, nil
	}
	c.enter(phaseReqSent)
	c.handshake.Begin(e.now)
	c.sendHello(wire.CtlREQ)
	return OutcomeSuccess, nil
}

// NotReached ends an attempt because there is no route to the peer. It has no effect on an attempt that has ended.
func (k *Connector) NotReached(o Outcome) {
	if k.way != nil {
		k.endSearch()
		k.onAttemptFailed(o)
	}
}

// endSearch ends the search for a route, and returns the queue pair, which is idle again. Without a search it does nothing.
func (k *Connector) endSearch() *QP {
	if k.way == nil {
		return nil
	}
	stop, qp := k.way.stop, k.qp
	k.way, k.qp, qp.seeker = nil, nil, nil
	qp.transition(qpDetach)
	stop()
	return qp
}

// searchCanceled ends an attempt whose queue pair was closed.
func (k *Connector) searchCanceled() {
	k.endSearch()
	k.onAttemptFailed(OutcomeCanceled)
}

package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/interleave"
	"github.com/ndxdp/ndxdp/provider/internal/outcome"
	"github.com/ndxdp/ndxdp/wire"
)

// ConnectorState determines which calls the application may make (ND specification, connector state table).
type ConnectorState uint8

// States of a connector.
const (
	CtrIdle ConnectorState = iota
	CtrBound
	CtrWaitReq
	CtrConnecting
	CtrAccepted
	CtrCompleting
	CtrRequested
	CtrAccepting
	CtrEstablished
	CtrPeerGone
	CtrDisconnecting
	CtrLost
	CtrDone
)

const numCtrStates = int(CtrDone) + 1

var ctrStateNames = [numCtrStates]string{
	"idle", "bound", "waiting for a request", "connecting", "accepted", "completing", "requested", "accepting", "established",
	"peer gone", "disconnecting", "lost", "done",
}

// String returns the name of the state.
func (s ConnectorState) String() string {
	if int(s) < numCtrStates {
		return ctrStateNames[s]
	}
	return "unknown"
}

// ctrNext is the set of allowed next states for each state. transition counts and refuses all others.
var ctrNext = [numCtrStates]uint16{
	CtrIdle:          1<<CtrBound | 1<<CtrWaitReq,
	CtrBound:         1<<CtrConnecting | 1<<CtrWaitReq | 1<<CtrBound | 1<<CtrIdle,
	CtrWaitReq:       1<<CtrRequested | 1<<CtrIdle,
	CtrConnecting:    1<<CtrAccepted | 1<<CtrBound | 1<<CtrDone,
	CtrAccepted:      1<<CtrCompleting | 1<<CtrDone,
	CtrCompleting:    1<<CtrEstablished | 1<<CtrDone,
	CtrRequested:     1<<CtrAccepting | 1<<CtrDone,
	CtrAccepting:     1<<CtrEstablished | 1<<CtrDone,
	CtrEstablished:   1<<CtrPeerGone | 1<<CtrDisconnecting | 1<<CtrLost | 1<<CtrDone,
	CtrPeerGone:      1<<CtrLost | 1<<CtrDone | 1<<CtrDisconnecting,
	CtrDisconnecting: 1 << CtrDone,
	CtrLost:          1 << CtrDone,
	CtrDone:          1 << CtrDone,
}

// Connector makes or accepts one connection for one queue pair.
type Connector struct {
	engine *Engine                    // home as the owner sees it
	lead   *Engine                    // the leading engine, which knows ports and listeners
	home   interleave.Pointer[Engine] // engine that owns it; nil while it moves
	conn   *conn                      // nil before Connect or deliver, and after the end of the connection
	qp     *QP

	pending Finish // of Connect, CompleteConnect, Accept or Disconnect, one at a time
	notify  outcome.Waiters
	private []byte     // newest private data of the peer
	way     *waySearch // while Connect resolves the route; conn is then nil

	inbound, outbound uint32
	local, peer       addrPort // ND endpoints

	state       ConnectorState
	tls         *connectorTLS // nil if no connection of it was to be encrypted
	cause       Cause         // why its connection ended, or why the peer ended it
	ownsPort    bool          // local is counted in directory.ports for this connector
	addressed   bool          // a connection has set local and peer
	havePrivate bool
	haveLimits  bool    // the peer offered read limits, so inbound and outbound are valid
	answered    bool    // the peer's engine answered the newest Connect
	returned    bool    // an ICMP error ended the newest Connect
	aborted     Outcome // outcome of the next CompleteConnect, Accept or Reject, because the peer has gone
}

// ConnectParams are the parameters that Connect and Accept send to the peer. Limits beyond the maximum are reduced silently.
type ConnectParams struct {
	Inbound, Outbound uint32 // READs that this side serves, and issues
	Private           []byte
}

// NewConnector makes an idle connector.
func (e *Engine) NewConnector() *Connector {
	k := &Connector{engine: e, lead: e}
	k.home.Store(e)
	return k
}

// State returns the state.
func (k *Connector) State() ConnectorState { return k.state }

func (k *Connector) transition(to ConnectorState) {
	if ctrNext[k.state]&(1<<to) == 0 {
		k.engine.stats.IllegalTransitions++
		return
	}
	k.state = to
}

// finish ends the pending call, if there is one.
func (k *Connector) finish(o Outcome) {
	if fin := k.pending; fin != nil {
		k.pending = nil
		fin(o)
	}
}

func (k *Connector) notifyAll(o Outcome) { k.notify.Finish(o) }

// Bind binds a local endpoint. Port 0 selects a free automatic port.
func (k *Connector) Bind(at addrPort) Outcome {
	if k.state != CtrIdle {
		return OutcomeAddressAssociated
	}
	at, o := k.engine.directory.ports.Take(at, false, k.engine.rng)
	if o != OutcomeSuccess {
		return o
	}
	k.local, k.ownsPort = at, true
	k.transition(CtrBound)
	return OutcomeSuccess
}

// BindShared binds the endpoint of s, which other connectors use, too.
func (k *Connector) BindShared(s *SharedEndpoint) Outcome {
	if k.state != CtrIdle {
		return OutcomeAddressAssociated
	}
	k.engine.directory.ports.Share(s.at)
	k.local, k.ownsPort = s.at, true
	k.transition(CtrBound)
	return OutcomeSuccess
}

// Unbind undoes Bind and BindShared, before a connection is made.
func (k *Connector) Unbind() {
	if k.state == CtrBound {
		k.dropBinding()
		k.transition(CtrIdle)
	}
}

func (k *Connector) dropBinding() {
	if k.ownsPort {
		k.ownsPort = false
		if at := k.local; k.engine == k.lead {
			k.lead.directory.ports.Release(at)
		} else {
			k.lead.inbox.call(func(lead *Engine) { lead.directory.ports.Release(at) })
		}
	}
}

// busy returns the outcome of a Connect in a wrong state. It is ConnectionActive for an attempt in progress or used up, and
// ConnectionInvalid for passive states and after the end.
func (k *Connector) busy() Outcome {
	switch k.state {
	case CtrConnecting, CtrAccepted, CtrCompleting, CtrEstablished, CtrPeerGone, CtrDisconnecting, CtrLost:
		return OutcomeConnectionActive
	default:
		return OutcomeConnectionInvalid
	}
}

// CheckState returns whether the connector's state allows Connect.
func (k *Connector) CheckState() Outcome {
	if k.state != CtrIdle && k.state != CtrBound {
		return k.busy()
	}
	return OutcomeSuccess
}

// CheckParams returns whether the arguments of Connect or Accept are valid. Any goroutine may call it.
func CheckParams(qp *QP, params ConnectParams) Outcome {
	if len(params.Private) > wire.MaxPrivateData {
		return OutcomeInvalidBufferSize
	}
	switch qp.State() {
	case QPAttached, QPReady:
		return OutcomeConnectionActive
	case QPError, QPClosed:
		return OutcomeInvalidState
	case QPIdle:
	}
	return OutcomeSuccess
}

func (k *Connector) attach(c *conn, qp *QP) {
	k.conn, c.connector = c, k
	if qp != nil {
		k.qp, c.qp, qp.conn = qp, qp, c
		qp.transition(qpAttach)
	}
}

// deliver passes a received request to a connector.
func (k *Connector) deliver(c *conn) {
	c.listener = nil
	k.attach(c, nil)
	k.local = addrPort{IP: c.identity.local.IP, Port: c.identity.localND}
	k.peer = addrPort{IP: c.identity.remote.IP, Port: c.identity.peerN}
	k.addressed = true
	k.ownsPort = true
	k.engine.directory.ports.Share(k.local)
	k.private, k.havePrivate = c.handshake.Private, true
	c.handshake.Private = nil
	if sh := c.end.shaking; sh != nil {
		k.secured().state = sh.state
		endShaking(c)
	}
	k.inbound = uint32(c.handshake.ORD)
	k.outbound = uint32(c.handshake.IRD)
	k.haveLimits = true
	k.transition(CtrRequested)
}

// Accept accepts a request. fin is called if and only if the outcome is success, when the peer completes or gives up.
func (k *Connector) Accept(qp *QP, params ConnectParams, fin Finish) Outcome {
	if k.state != CtrRequested {
		return OutcomeConnectionInvalid
	}
	if k.aborted != OutcomeSuccess {
		k.transition(CtrDone)
		return k.aborted
	}
	if o := CheckParams(qp, params); o != OutcomeSuccess {
		return o
	}
	c := k.conn
	c.listener.leave(c)
	k.attach(c, qp)
	c.ird = min(params.Inbound, maxReadLimit, uint32(c.handshake.ORD))
	c.requestNumbers.ord = min(params.Outbound, maxReadLimit, uint32(c.handshake.IRD))
	k.inbound, k.outbound = c.ird, c.requestNumbers.ord
	c.handshake.Private = append([]byte(nil), params.Private...)
	c.enter(phaseRepSent)
	k.pending = fin
	k.transition(CtrAccepting)
	c.handshake.Begin(k.engine.now)
	c.sendHello(wire.CtlREP)
	return OutcomeSuccess
}

// Reject rejects a request, or declines a connection after the peer accepted it.
func (k *Connector) Reject(private []byte) Outcome {
	if k.state != CtrRequested && k.state != CtrAccepted {
		return OutcomeConnectionInvalid
	}
	if k.aborted != OutcomeSuccess {
		k.transition(CtrDone)
		return k.aborted
	}
	if len(private) > wire.MaxPrivateData {
		return OutcomeInvalidBufferSize
	}
	k.refuse(private)
	k.transition(CtrDone)
	return OutcomeSuccess
}

// refuse tells the peer that the attempt has ended.
func (k *Connector) refuse(private []byte) {
	c := k.conn
	if c == nil {
		k.endSearch()
		return
	}
	reason := wire.RejectConsumer
	switch k.state {
	case CtrAccepted:
		reason = wire.RejectDeclined
	case CtrConnecting, CtrCompleting:
		reason = wire.RejectAbandoned
	case CtrAccepting:
		reason = wire.RejectWithdrawn
	default:
	}
	c.endAttempt(reason, private)
}

// CompleteConnect completes a connection that the peer accepted. fin is called if and only if the outcome is success.
func (k *Connector) CompleteConnect(fin Finish) Outcome { return k.complete(fin, true) }

// complete sends RTU, and asks for its answer or does not.
func (k *Connector) complete(fin Finish, asks bool) Outcome {
	if k.state != CtrAccepted {
		return OutcomeConnectionInvalid
	}
	if k.aborted != OutcomeSuccess {
		k.transition(CtrDone)
		return k.aborted
	}
	k.pending = fin
	k.transition(CtrCompleting)
	c := k.conn
	c.enter(phaseRtuSent)
	c.handshake.Begin(k.engine.now)
	c.withTraffic(func(t *traffic) { t.sendRTU(asks) })
	return OutcomeSuccess
}

// CompleteConnectEarly is CompleteConnect without waiting for the peer: the connection is established at once. RTU is repeated until the
// peer shows that it is established, too. If it has withdrawn or stays silent, the connection is lost.
func (k *Connector) CompleteConnectEarly() Outcome {
	o := k.complete(nil, false)
	if o == OutcomeSuccess {
		c := k.conn
		repeat := c.handshake.Due()
		c.withTraffic(func(*traffic) { c.established() })
		c.handshake.RetryAt = repeat
	}
	return o
}

// ReadLimits returns the inbound and outbound limits (ND specification section 7.2), after the peer has sent its own.
func (k *Connector) ReadLimits() (inbound, outbound uint32, o Outcome) {
	if !k.haveLimits {
		return 0, 0, OutcomeConnectionInvalid
	}
	return k.inbound, k.outbound, OutcomeSuccess
}

// Answered reports whether the peer's engine answered the newest Connect in any way. The meaning of a time-out depends on it.
func (k *Connector) Answered() bool { return k.answered }

// Returned reports whether the newest Connect ended because an ICMP error quoted its request.
func (k *Connector) Returned() bool { return k.returned }

// Private returns the newest private data of the peer.
func (k *Connector) Private() ([]byte, Outcome) {
	if !k.havePrivate || k.state == CtrConnecting {
		return nil, OutcomeConnectionInvalid
	}
	return k.private, OutcomeSuccess
}

// Local returns the local ND endpoint. It is valid from Connect or deliver to the end of the connection.
func (k *Connector) Local() (addrPort, Outcome) {
	if !k.addressed || k.state < CtrConnecting || k.state >= CtrLost {
		return addrPort{}, OutcomeConnectionInvalid
	}
	return k.local, OutcomeSuccess
}

// Peer returns the peer's ND endpoint. It is valid from acceptance or deliver to the end of the connection.
func (k *Connector) Peer() (addrPort, Outcome) {
	if k.state == CtrConnecting {
		return addrPort{}, OutcomeConnectionInvalid
	}
	if _, o := k.Local(); o != OutcomeSuccess {
		return addrPort{}, o
	}
	return k.peer, OutcomeSuccess
}

// The methods below handle events of the connection.

func (k *Connector) onAccepted(private []byte) {
	c := k.conn
	k.private, k.havePrivate = append([]byte(nil), private...), true
	k.inbound, k.outbound, k.haveLimits = c.ird, c.requestNumbers.ord, true
	k.transition(CtrAccepted)
	k.finish(OutcomeSuccess)
}

func (k *Connector) onEstablished() {
	k.transition(CtrEstablished)
	k.finish(OutcomeSuccess)
}

// onRejected ends an attempt that the peer rejected, gave up or withdrew.
func (k *Connector) onRejected(reason wire.RejectReason, private []byte) {
	switch {
	case reason == wire.RejectTLS && k.state == CtrConnecting && len(private) == 1:
		k.secured().failure = &TLSFailure{Alert: private[0]}
	case reason == wire.RejectPolicy && k.state == CtrConnecting && k.tls != nil && k.tls.shaker != nil:
		k.blame(CausePeerHasNoTLS)
	case reason == wire.RejectPolicy && k.state == CtrConnecting:
		k.blame(CausePeerWantsTLS)
	case reason == wire.RejectConsumer, reason == wire.RejectDeclined, k.state == CtrConnecting:
		k.private, k.havePrivate = append([]byte(nil), private...), true
	} // otherwise the peer has gone, and its request or accept stays its newest message
	switch k.state {
	case CtrConnecting:
		if reason == wire.RejectExists {
			k.transition(CtrDone)
			k.finish(OutcomeAddressExists)
			return
		}
		k.backToBound()
		k.finish(OutcomeRefused)
	case CtrAccepted, CtrRequested:
		k.aborted = OutcomeAborted // returned by the next call
	case CtrCompleting:
		k.transition(CtrDone)
		k.finish(OutcomeWithdrawn)
	case CtrAccepting:
		k.transition(CtrDone)
		if reason == wire.RejectDeclined {
			k.finish(OutcomeDeclined)
		} else {
			k.finish(OutcomeAborted)
		}
	default:
	}
}

// backToBound resets the connector after a failed Connect, so that the application can call Connect again.
func (k *Connector) backToBound() {
	k.addressed = false
	k.qp = nil
	if k.tls != nil {
		k.tls.state = nil
	}
	k.transition(CtrBound)
}

// onAttemptFailed ends an attempt for a local reason: no route to the peer, a silent peer, or a closed queue pair.
func (k *Connector) onAttemptFailed(o Outcome) {
	switch k.state {
	case CtrConnecting:
		if o == OutcomeCanceled || o == OutcomeAddressExists {
			k.transition(CtrDone)
		} else {
			k.backToBound()
		}
	case CtrRequested, CtrAccepted:
		k.aborted = OutcomeAborted
	default:
		k.transition(CtrDone)
	}
	k.finish(o)
}

package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/interleave"
	"github.com/ndxdp/ndxdp/provider/internal/outcome"
	"github.com/ndxdp/ndxdp/provider/internal/qpstate"
	"github.com/ndxdp/ndxdp/wire"
)

// ConnectorState is what a connector's application may do (ND specification, connector state table).
type ConnectorState uint8

// The states of a connector.
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

// String names the state.
func (s ConnectorState) String() string {
	if int(s) < numCtrStates {
		return ctrStateNames[s]
	}
	return "unknown"
}

// ctrNext lists the states each state may be followed by; transition counts and refuses everything else.
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

// Connector makes or takes one connection for one queue pair.
type Connector struct {
	engine *Engine                    // the owner's view of home
	lead   *Engine                    // knows ports and listeners
	home   interleave.Pointer[Engine] // whose it is; nil while it moves
	conn   *conn                      // nil before Connect or delivery, and once the connection is over
	qp     *QP

	pending Finish // of Connect, CompleteConnect, Accept or Disconnect: one at a time
	notify  outcome.Waiters
	private []byte     // the peer's most recent
	way     *waySearch // while Connect looks for the way to the peer; conn is nil then

	inbound, outbound uint32
	local, peer       addrPort // ND endpoints

	state       ConnectorState
	cause       Cause // why its connection ended, or the peer's end of it
	ownsPort    bool  // local is counted in directory.ports for us
	addressed   bool  // local and peer are set from a connection
	havePrivate bool
	haveLimits  bool    // the peer offered read limits: inbound and outbound say something
	answered    bool    // the peer's engine answered the newest Connect
	returned    bool    // an ICMP error ended the newest Connect
	aborted     Outcome // why the next CompleteConnect, Accept or Reject fails: the peer went away meanwhile
}

// ConnectParams are what Connect and Accept tell the peer. Limits are capped silently.
type ConnectParams struct {
	Inbound, Outbound uint32 // reads this side serves, and issues
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

// finish ends the pending request, if there is one.
func (k *Connector) finish(o Outcome) {
	if fin := k.pending; fin != nil {
		k.pending = nil
		fin(o)
	}
}

func (k *Connector) notifyAll(o Outcome) { k.notify.Finish(o) }

// Bind takes a local endpoint, port 0 for a free ephemeral one.
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

// BindShared takes the endpoint of s, which other connectors have as well.
func (k *Connector) BindShared(s *SharedEndpoint) Outcome {
	if k.state != CtrIdle {
		return OutcomeAddressAssociated
	}
	k.engine.directory.ports.Share(s.at)
	k.local, k.ownsPort = s.at, true
	k.transition(CtrBound)
	return OutcomeSuccess
}

// Unbind undoes Bind and BindShared while no connection was made.
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

// busy returns the outcome of a Connect that the state forbids. An attempt that is in progress or was used up is "active"; the passive
// states and the end are "invalid".
func (k *Connector) busy() Outcome {
	switch k.state {
	case CtrConnecting, CtrAccepted, CtrCompleting, CtrEstablished, CtrPeerGone, CtrDisconnecting, CtrLost:
		return OutcomeConnectionActive
	default:
		return OutcomeConnectionInvalid
	}
}

// CheckState says whether the connector's state allows Connect.
func (k *Connector) CheckState() Outcome {
	if k.state != CtrIdle && k.state != CtrBound {
		return k.busy()
	}
	return OutcomeSuccess
}

// CheckParams says whether Connect or Accept may be called with these arguments; any goroutine may ask.
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
		qp.transition(qpstate.Attach)
	}
}

// deliver hands a request that arrived to a connector.
func (k *Connector) deliver(c *conn) {
	c.listener = nil
	k.attach(c, nil)
	k.local = addrPort{IP: c.local.IP, Port: c.localND}
	k.peer = addrPort{IP: c.remote.IP, Port: c.peerN}
	k.addressed = true
	k.ownsPort = true
	k.engine.directory.ports.Share(k.local)
	k.private, k.havePrivate = c.handshake.Private, true
	c.handshake.Private = nil
	k.inbound = uint32(c.handshake.ORD)
	k.outbound = uint32(c.handshake.IRD)
	k.haveLimits = true
	k.transition(CtrRequested)
}

// Accept answers a request. fin is called iff the outcome is success, when the peer completes or goes away.
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
	c.ord = min(params.Outbound, maxReadLimit, uint32(c.handshake.IRD))
	k.inbound, k.outbound = c.ird, c.ord
	c.handshake.Private = append([]byte(nil), params.Private...)
	c.enter(phaseRepSent)
	k.pending = fin
	k.transition(CtrAccepting)
	c.handshake.Begin(k.engine.now)
	c.sendHello(wire.CtlREP)
	c.touch()
	return OutcomeSuccess
}

// Reject refuses a request, or declines after the peer accepted.
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

// refuse tells the peer that the attempt is over.
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

// CompleteConnect finishes what the peer accepted. fin is called iff the outcome is success.
func (k *Connector) CompleteConnect(fin Finish) Outcome {
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
	c.sendRTU()
	c.touch()
	return OutcomeSuccess
}

// ReadLimits returns the inbound and outbound limits as section 7.2 of the ND specification gives them, once the peer has said its own.
func (k *Connector) ReadLimits() (inbound, outbound uint32, o Outcome) {
	if !k.haveLimits {
		return 0, 0, OutcomeConnectionInvalid
	}
	return k.inbound, k.outbound, OutcomeSuccess
}

// Answered reports whether anything came back for the newest Connect, be it only that the request was noted: what time-outs mean depends
// on it.
func (k *Connector) Answered() bool { return k.answered }

// Returned reports whether the newest Connect ended because an ICMP error quoted its request.
func (k *Connector) Returned() bool { return k.returned }

// Private returns the peer's most recent private data.
func (k *Connector) Private() ([]byte, Outcome) {
	if !k.havePrivate || k.state == CtrConnecting {
		return nil, OutcomeConnectionInvalid
	}
	return k.private, OutcomeSuccess
}

// Local returns the local ND endpoint, from Connect or delivery until the connection is over.
func (k *Connector) Local() (addrPort, Outcome) {
	if !k.addressed || k.state < CtrConnecting || k.state >= CtrLost {
		return addrPort{}, OutcomeConnectionInvalid
	}
	return k.local, OutcomeSuccess
}

// Peer returns the peer's ND endpoint, from acceptance or delivery until the connection is over.
func (k *Connector) Peer() (addrPort, Outcome) {
	if k.state == CtrConnecting {
		return addrPort{}, OutcomeConnectionInvalid
	}
	if _, o := k.Local(); o != OutcomeSuccess {
		return addrPort{}, o
	}
	return k.peer, OutcomeSuccess
}

// Events that the connection reports to its connector.

func (k *Connector) onAccepted(private []byte) {
	c := k.conn
	k.private, k.havePrivate = append([]byte(nil), private...), true
	k.inbound, k.outbound, k.haveLimits = c.ird, c.ord, true
	k.transition(CtrAccepted)
	k.finish(OutcomeSuccess)
}

func (k *Connector) onEstablished() {
	k.transition(CtrEstablished)
	k.finish(OutcomeSuccess)
}

// onRejected ends an attempt the peer rejected, gave up or withdrew.
func (k *Connector) onRejected(reason wire.RejectReason, private []byte) {
	if reason == wire.RejectConsumer || reason == wire.RejectDeclined || k.state == CtrConnecting {
		k.private, k.havePrivate = append([]byte(nil), private...), true
	} // else the peer just went away, and its request or accept is the last it said
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
		k.aborted = OutcomeAborted // told by the next call
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

// backToBound makes a failed Connect repeatable on the same connector and queue pair.
func (k *Connector) backToBound() {
	k.addressed = false
	k.qp = nil
	k.transition(CtrBound)
}

// onAttemptFailed ends an attempt for a local reason: no way to the peer, its silence, or a queue pair that was released.
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

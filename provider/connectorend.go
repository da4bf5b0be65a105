package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/lifetime"
	"github.com/ndxdp/ndxdp/provider/internal/outcome"
	"github.com/ndxdp/ndxdp/wire"
)

// This file ends connectors: the calls by which applications end them (ND specification 3.1, 7.6, 8.1), and the reports about connections
// that end.

// Disconnect ends a connection gracefully (spec 8.1). All outstanding requests end CANCELED, and the peer gets a notice. fin is called when
// the peer's own notice has arrived, when the connection is lost, or after Config.Disconnect.
func (k *Connector) Disconnect(fin Finish) Outcome {
	e := k.engine
	if k.state != CtrEstablished && k.state != CtrPeerGone {
		return OutcomeConnectionInvalid
	}
	c := k.conn
	k.transition(CtrDisconnecting)
	k.pending = fin
	k.spendQP()
	c.withTraffic(func(t *traffic) {
		t.stopRequests()
		c.ending().GiveUpAt = e.now.Add(e.cfg.Disconnect)
		c.ending().Notify(e.now)
		t.say(wire.CtlDREQ, c.end.NoticeFlags(), nil)
	})
	if c.end.NoticeReceived {
		k.disconnected(OutcomeSuccess)
	}
	return OutcomeSuccess
}

// spendQP ends the queue pair's use of the connection: all its requests end CANCELED and it is closed for ever.
func (k *Connector) spendQP() {
	qp := k.qp
	if qp == nil {
		return
	}
	qp.cancelAll(&k.engine.results, OutcomeCanceled)
	qp.transition(qpFinish)
}

// blame notes why the connection ends, unless it is over.
func (k *Connector) blame(why Cause) {
	if k != nil {
		k.cause.Note(why)
	}
}

// Cause returns why the connection ended without this side's doing, or that the peer disconnected.
func (k *Connector) Cause() Cause { return k.cause }

// disconnected finishes Disconnect.
func (k *Connector) disconnected(o Outcome) {
	c := k.conn
	k.transition(CtrDone)
	if c != nil {
		c.detachClosed()
		c.linger(lifetime.SayNotice, 0, nil)
		if c.end.NoticeAcked {
			c.ending().NoticeAt = 0
		}
	}
	k.notifyAll(OutcomeSuccess)
	k.finish(o)
}

// onPeerDisconnected records that the peer's application disconnected: an event for ours, or the end when ours has as well.
func (k *Connector) onPeerDisconnected() {
	switch k.state {
	case CtrEstablished:
		k.blame(outcome.PeerDisconnected)
		k.transition(CtrPeerGone)
		k.notifyAll(OutcomeSuccess)
	case CtrDisconnecting:
		k.disconnected(OutcomeSuccess)
	default:
	}
}

// onLost records that the connection was lost, with the outcome of the first request that it ended. A Disconnect that waits ends by it.
func (k *Connector) onLost(first Outcome) {
	if k.state != CtrDisconnecting {
		k.transition(CtrLost)
		k.notifyAll(OutcomeSuccess)
		return
	}
	if first != OutcomeIOTimeout {
		first = OutcomeAborted
	}
	k.disconnectEnded(first)
}

// disconnectEnded ends the wait of Disconnect, and notifies waiters for the end of the connection.
func (k *Connector) disconnectEnded(o Outcome) {
	k.transition(CtrDone)
	k.notifyAll(OutcomeSuccess)
	k.finish(o)
}

// queuePairReleased ends the connection, which was established or still an attempt, because its queue pair is gone.
func (k *Connector) queuePairReleased(established bool) {
	switch {
	case !established:
		k.refuse(nil)
		if k.state == CtrConnecting || k.state == CtrAccepted || k.state == CtrCompleting || k.state == CtrAccepting {
			k.transition(CtrDone)
		}
		k.finish(OutcomeCanceled)
	case k.state == CtrPeerGone && k.conn != nil:
		_ = k.Disconnect(nil) // as in Close
	case k.state == CtrDisconnecting:
		k.CancelPending()
	default:
		k.abort()
		k.transition(CtrDone)
		k.notifyAll(OutcomeCanceled)
	}
}

// NotifyDisconnect adds a notification that finishes when the peer disconnects or the connection is lost, at once when that
// has happened. It returns its id for CancelNotification.
func (k *Connector) NotifyDisconnect(fin Finish) (id uint64, o Outcome) {
	switch k.state {
	case CtrEstablished, CtrDisconnecting:
		return k.notify.Add(fin), OutcomeSuccess
	case CtrPeerGone, CtrLost:
		fin(OutcomeSuccess)
	default:
		return 0, OutcomeConnectionInvalid
	}
	return 0, OutcomeSuccess
}

// CancelNotification finishes one pending notification CANCELED, if it still waits.
func (k *Connector) CancelNotification(id uint64) {
	k.notify.Cancel(id, OutcomeCanceled)
}

// Cancel ends everything that is pending on the connector.
func (k *Connector) Cancel() {
	k.notifyAll(OutcomeCanceled)
	k.CancelPending()
}

// CancelPending ends the pending Connect, CompleteConnect, Accept or Disconnect, as spec 7.6 says for each state. If this ends a
// connection, waiters for its end are notified.
func (k *Connector) CancelPending() {
	switch k.state {
	case CtrConnecting, CtrCompleting, CtrAccepting:
		k.refuse(nil)
		k.transition(CtrDone)
		k.finish(OutcomeCanceled)
	case CtrDisconnecting:
		k.abort()
		k.disconnectEnded(OutcomeCanceled)
	default:
	}
}

// abort cuts the connection off: the peer is told that this side is gone.
func (k *Connector) abort() {
	c := k.conn
	if c == nil {
		return
	}
	c.detachClosed()
	c.lingerAborted()
}

// Close releases a connector in any state (spec 3.1).
func (k *Connector) Close() {
	switch k.state {
	case CtrConnecting, CtrAccepted, CtrCompleting, CtrRequested, CtrAccepting:
		k.refuse(nil)
	case CtrPeerGone:
		_ = k.Disconnect(nil) // never refused here: the peer has disconnected too, it is a graceful end for both
	case CtrEstablished:
		k.spendQP()
		k.abort()
	case CtrDisconnecting:
		k.abort()
	case CtrWaitReq:
		for _, l := range k.lead.directory.listeners {
			l.CancelRequest(k, OutcomeCanceled)
		}
	case CtrIdle, CtrBound, CtrLost, CtrDone:
	}
	k.state = CtrDone
	k.finish(OutcomeCanceled)
	k.notifyAll(OutcomeCanceled)
	k.dropBinding()
}

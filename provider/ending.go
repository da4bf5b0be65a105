package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/credit"
	"github.com/ndxdp/ndxdp/provider/internal/guard"
	"github.com/ndxdp/ndxdp/provider/internal/lifetime"
	"github.com/ndxdp/ndxdp/provider/internal/outcome"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/provider/internal/secure"
	"github.com/ndxdp/ndxdp/wire"
)

// This file ends connections (PROTOCOL §8). Package lifetime decides which final messages are sent when. TERM names the request that
// failed.

// ending is the state of a connection's end, and what else few connections ever have.
type ending struct {
	lifetime.Ending

	keys      *secure.Keys // of an encrypted connection, else nil
	shaking   *shaking     // its TLS handshake, until both ends have the keys and the listener has the request
	untold    bool         // the handshake ended before the peer showed that it can have the keys of generation 0
	challenge challenge
	proof     *lifetime.Proof // that this is not the end, which a REQ demands; nil while none does
	doubt     *lifetime.Doubt // that the peer is there, which an ICMP error raises; nil while none does
}

// notEnding is the end of connections that have not begun to end, all of them: nobody writes to it.
var notEnding ending

// ending returns the state of the connection's end, to change it and so the connection's deadline.
func (c *conn) ending() *ending {
	c.touch()
	if c.end == &notEnding {
		c.end = new(ending)
	}
	return c.end
}

// linger ends the connection on the wire; what is told the peer now is repeated when it asks again.
func (c *conn) linger(word lifetime.LastWord, reason wire.RejectReason, private []byte) {
	e := c.engine
	c.ending().Linger(word, reason, append([]byte(nil), private...))
	c.endProof()
	endShaking(c)
	c.enter(phaseLingering)
	forged := c.places.share == guard.ShareHalfOpen && c.handshake != nil && !c.handshake.Proven // perhaps
	c.handshake = nil
	c.ending().Stay(e.now, c.identity.active, e.cfg.Linger, e.cfg.DeadPeer)
	if e == e.lead {
		c.misrouted.target = 0 // it was about to follow its packets
		c.startLingering(forged)
	} else {
		c.moveTo(e.lead)
	}
	if c.connector != nil {
		c.connector.conn = nil
		c.connector = nil
	}
	c.withTraffic(func(t *traffic) {
		t.sent.loss.Stop()
		t.requests.ask.End()
		t.received.dropHeld(&e.store)
		c.sayLastWord(t)
	})
}

// attemptFailed ends an attempt for a local reason.
func (c *conn) attemptFailed(o Outcome) {
	c.detachQP()
	if ctr := c.connector; ctr != nil {
		ctr.onAttemptFailed(o)
	}
	// Not freed yet: a late REP must be answered, and a delayed REQ must not make another connection.
	reason := wire.RejectWithdrawn
	if c.identity.active {
		reason = wire.RejectAbandoned
	}
	c.endAttempt(reason, nil)
}

// endAttempt tells the peer that the attempt has ended. After RTU was sent, the peer may be established, and REJ does not end an
// established connection.
func (c *conn) endAttempt(reason wire.RejectReason, private []byte) {
	c.detachQP()
	if c.phase == phaseRtuSent {
		c.lingerAborted()
		return
	}
	c.linger(lifetime.SayReject, reason, private)
}

// startLingering takes what is over out of what the leader keeps of living connections. A request whose source may be forged counts as
// half-open until it is forgotten: otherwise a flood of requests that are soon refused would need no cookies.
func (c *conn) startLingering(forged bool) {
	if !forged {
		c.setShare(guard.ShareNone)
	}
	c.engine.group.conns.over(c)
	c.engine.directory.tuples.Remove(c)
	c.listener.leave(c)
}

// repeatEnding answers whatever comes for a connection that is over, from a peer that does not know.
func (c *conn) repeatEnding() {
	if c.ending().RepeatWord(c.engine.now) {
		c.withTraffic(c.sayLastWord)
	}
}

// sayLastWord tells the peer how the connection ended. An ended attempt sends REJ. If the peer's id is not known, because Connect was
// canceled before the answer, it sends an RST about this side's id.
func (c *conn) sayLastWord(t *traffic) {
	switch c.end.Word {
	case lifetime.SayReject:
		if c.identity.peerID != 0 {
			t.sendReject(c.end.Reason, c.end.Private)
			if c.end.untold {
				rejectInPlain(t)
			}
			return
		}
		m := wire.Reset{ConnID: c.identity.id}
		if c.identity.sealed == 0 { // else the peer has no token yet
			m.Token = c.engine.guard.tokenOf(&c.identity, c.engine.cfg.ReceivePort)
		}
		t.say(wire.CtlRST, 0, m.Append(nil))
	case lifetime.SayAbort:
		t.say(wire.CtlDREQ, c.end.NoticeFlags(), nil)
	case lifetime.SayAck:
		t.sendAck()
	case lifetime.Nothing, lifetime.SayNotice:
	}
}

// receiveLate answers a control message for an ended connection. A message that may itself be an answer gets no answer, so that two ended
// sides do not send to each other forever.
func (c *conn) receiveLate(op wire.Opcode) wire.DropReason {
	switch op {
	case wire.CtlDREQ:
		c.traffic.say(wire.CtlDREP, 0, nil)
		return wire.DropNone
	case wire.CtlDREP:
		c.ending().Noted()
		return wire.DropNone
	case wire.CtlREP, wire.CtlRTU, wire.CtlPing, wire.CtlSHAKE, wire.CtlREQ:
		c.repeatEnding()
	default:
	}
	return wire.DropState
}

// detachClosed separates a connection from its queue pair, whose state stays what it is.
func (c *conn) detachClosed() {
	if c.qp != nil {
		c.endWait()
		c.qp.conn = nil
		c.qp.readLimit.Store(0)
		c.qp = nil
	}
}

// onNotice takes the peer's DREQ.
func (c *conn) onNotice(abort bool) {
	c.traffic.say(wire.CtlDREP, 0, nil)
	switch c.phase {
	case phaseRepSent, phaseRtuSent:
		// The peer came and went before its last handshake message arrived.
		c.established()
	case phaseHalfOpen, phaseAccepted:
		c.attemptFailed(OutcomeAborted)
		return
	case phaseOpen:
	case phaseFree, phaseReqSent, phaseLingering, phaseShaking:
		return
	}
	first := !c.end.NoticeReceived
	c.ending().NoticeReceived = true
	k := c.connector
	switch {
	case abort && k != nil && k.state == CtrDisconnecting:
		k.disconnected(OutcomeAborted)
	case abort:
		c.finish(OutcomeCanceled)
		c.linger(lifetime.Nothing, 0, nil)
	case first && k != nil:
		k.onPeerDisconnected()
	}
}

// lingerAborted ends the connection with a notice that this side is gone, which is repeated until the peer answers.
func (c *conn) lingerAborted() {
	c.linger(lifetime.SayAbort, 0, nil)
	c.ending().Notify(c.engine.now)
}

// lost ends an open connection as finish does, counts it and tells Config.OnLost. A peer that closes its connector loses nothing.
func (c *conn) lost(first Outcome) {
	e := c.engine
	if c.connector == nil {
		return // lost before, and still telling the peer
	}
	e.stats.Lost++
	if r, ok := e.flight.Lost(e.now, c.identity.id, first, e.cfg.OnLost != nil); ok {
		e.cfg.OnLost(r)
	}
	c.finish(first)
}

// finish ends an open connection for the application: requests end, the first one with outcome first, the others CANCELED.
func (c *conn) finish(first Outcome) {
	e := c.engine
	k := c.connector
	if k == nil {
		return // finished before, and still telling the peer
	}
	c.connector, k.conn = nil, nil
	k.blame(c.why)
	k.blame(outcome.PeerGone) // unless something is known that came before
	if qp := c.qp; qp != nil {
		qp.transition(qpFail)
		qp.cancelAll(&e.results, first)
		c.detachClosed()
	}
	k.onLost(first)
}

// reset ends a connection whose peer does not know it any more, and has proven so (PROTOCOL §7.4).
func (c *conn) reset() wire.DropReason {
	switch c.phase {
	case phaseOpen:
		c.lost(OutcomeCanceled)
		c.linger(lifetime.Nothing, 0, nil)
	case phaseAccepted, phaseRtuSent, phaseRepSent, phaseHalfOpen:
		c.attemptFailed(OutcomeAborted)
	case phaseShaking: // nobody has a token before the handshake is done
		if c.end.shaking.opened {
			return wire.DropRSTToken
		}
		c.attemptFailed(OutcomeAborted)
	case phaseFree, phaseReqSent, phaseLingering:
		return wire.DropState
	}
	return wire.DropNone
}

// conclude ends a connection whose traffic cannot go on.
func (c *conn) conclude() {
	f := c.faulted
	c.faulted = faultNone
	switch f {
	case faultTerminated:
		c.lost(OutcomeCanceled)
		c.ending().GiveUpAt = c.engine.now.Add(c.engine.cfg.DeadPeer)
	case faultTold:
		if c.phase == phaseOpen {
			c.linger(lifetime.Nothing, 0, nil)
		}
	case faultNamed:
		c.lost(OutcomeCanceled)
		c.linger(lifetime.SayAck, 0, nil) // so that the peer stops repeating its TERM
	case faultNone:
	}
}

// lose ends a connection whose peer is silent.
func (c *conn) lose() {
	c.lost(OutcomeIOTimeout)
	c.linger(lifetime.SayAbort, 0, nil)
}

// giveUp ends the wait of Disconnect, or for the acknowledgement of a TERM.
func (c *conn) giveUp() {
	c.ending().GiveUpAt = 0
	if k := c.connector; k != nil && k.state == CtrDisconnecting {
		k.abort()
		k.disconnectEnded(OutcomeIOTimeout)
		return
	}
	c.linger(lifetime.SayAbort, 0, nil)
}

// The functions below handle TERM, which names the request that could not be carried out (PROTOCOL §8).

// terminate ends the connection because of an operation that cannot be carried out, here or for the peer, and tells the
// peer which one it was.
func (t *traffic) terminate(reason wire.TermReason, op wire.Opcode, message uint32) {
	if t.conn.phase != phaseOpen || t.served.Terminated() {
		return
	}
	t.conn.blame(lifetime.CauseOf(reason))
	t.stopRequests()
	t.received.takeBack() // it may have been acknowledged before its turn came
	t.conn.faulted = faultTerminated
	t.served.Terminate(wire.Op{Opcode: wire.OpTerm, Flags: wire.OpLast, Reason: reason, FailedOp: op, Number: message})
	t.conn.want(wantTurn)
}

// malformed ends a connection whose peer sent a packet that is intact and yet wrong: it is broken or hostile.
func (t *traffic) malformed(op *wire.Op, d wire.DropReason) bool {
	t.engine.stats.Drop(d)
	t.terminate(wire.TermProtocol, 0, op.Message)
	return false
}

// refuse answers an operation that cannot be carried out with TERM, and ends the connection. It returns false, as its callers do.
func (t *traffic) refuse(op *wire.Op, reason wire.TermReason) bool {
	d := wire.DropState
	if reason == wire.TermAccess || reason == wire.TermReadAccess || reason == wire.TermInvalidate {
		d = wire.DropToken
		reason = t.conn.qp.whyGone(reason)
	}
	t.engine.stats.Drop(d)
	t.terminate(reason, op.Opcode, op.Message)
	return false
}

// whyGone returns the reason for a refused access once our windows are gone because the queue pair has ended: the peer, which cannot
// know yet, did nothing wrong.
func (qp *QP) whyGone(reason wire.TermReason) wire.TermReason {
	switch {
	case qp == nil || qp.State() == QPClosed:
		return wire.TermClosed
	case qp.State() == QPError:
		return wire.TermFlushed
	}
	return reason
}

// localFault ends the connection because the request at seq cannot be carried out on this side: it names memory that it must not
// use, or a window in the wrong state. Unfinished requests before it end CANCELED.
func (t *traffic) localFault(seq uint32, o Outcome) {
	if t.conn.qp != nil {
		t.conn.blame(t.access().Fault(t.conn.qp.sq.sgl(seq), o))
		t.conn.qp.failAt(&t.engine.results, seq, o)
	}
	t.terminate(wire.TermLocal, 0, 0)
}

// onTerm handles the peer's TERM. The request that it names ends with the reason. Requests before it that the peer executed
// succeed; all others end CANCELED.
func (t *traffic) onTerm(op *wire.Op) {
	if qp := t.conn.qp; qp != nil {
		if seq, ok := qp.named(op.Number); ok && op.FailedOp != 0 {
			qp.succeedBefore(&t.engine.results, seq)
			qp.failAt(&t.engine.results, seq, termOutcome(op.Reason))
		}
	}
	t.conn.blame(lifetime.CauseOfTerm(op))
	t.stopRequests()
	// Acknowledged here, because execution ends with the connection.
	rs := &t.received.spaces[wire.ResponseSpace]
	rs.next = rs.next.NextMessage()
	t.received.keep()
	t.conn.faulted = faultNamed
}

// termOutcome returns what a TERM's reason means to the request it names.
func termOutcome(r wire.TermReason) Outcome {
	switch r {
	case wire.TermAccess:
		return OutcomeAccessViolation
	case wire.TermReadAccess:
		return OutcomeReadRefused
	case wire.TermNoReceive:
		return OutcomeIOTimeout
	case wire.TermClosed:
		return OutcomeCanceled
	default:
		return OutcomeRemoteError
	}
}

// stopRequests ends the request space on our side: nothing new goes out, nothing lost is built again, because the memory
// behind it is the application's again.
func (t *traffic) stopRequests() {
	t.requests.stop()
	sp := &t.sent.spaces[wire.RequestSpace]
	sp.Reset(sp.Next())
	t.sent.packets.VoidAll(recovery.Requests)
	t.limitedBy(LimitApplication)
	if t.conn.receives.Wait.State() == credit.Starved {
		t.received.ackNow() // the peer's requests get their answers
	}
	t.conn.endWait()
	t.sent.armTimer()
}

package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/credit"
	"github.com/ndxdp/ndxdp/provider/internal/lifetime"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/wire"
)

// This file is about TERM, which names the request that could not be carried out (PROTOCOL §8).

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

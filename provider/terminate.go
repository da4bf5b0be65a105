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
func (s *sender) terminate(reason wire.TermReason, op wire.Opcode, message uint32) {
	if s.phase != phaseOpen || s.served.Terminated() {
		return
	}
	s.blame(lifetime.CauseOf(reason))
	s.stopRequests()
	s.takeBack() // it may have been acknowledged before its turn came
	s.faulted = faultTerminated
	s.served.Terminate(wire.Op{Opcode: wire.OpTerm, Flags: wire.OpLast, Reason: reason, FailedOp: op, Number: message})
	s.want(wantTurn)
}

// malformed ends a connection whose peer sent a packet that is intact and yet wrong: it is broken or hostile.
func (s *sender) malformed(op *wire.Op, d wire.DropReason) bool {
	s.stats.Drop(d)
	s.terminate(wire.TermProtocol, 0, op.Message)
	return false
}

// refuse answers an operation that cannot be carried out with TERM, and ends the connection. It returns false, as its callers do.
func (s *sender) refuse(op *wire.Op, reason wire.TermReason) bool {
	d := wire.DropState
	if reason == wire.TermAccess || reason == wire.TermReadAccess || reason == wire.TermInvalidate {
		d = wire.DropToken
		reason = s.qp.whyGone(reason)
	}
	s.stats.Drop(d)
	s.terminate(reason, op.Opcode, op.Message)
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
func (s *sender) localFault(seq uint32, o Outcome) {
	if s.qp != nil {
		s.blame(s.access().Fault(s.qp.sq.sgl(seq), o))
		s.qp.failAt(&s.results, seq, o)
	}
	s.terminate(wire.TermLocal, 0, 0)
}

// onTerm handles the peer's TERM. The request that it names ends with the reason. Requests before it that the peer executed
// succeed; all others end CANCELED.
func (t *traffic) onTerm(op *wire.Op) {
	if qp := t.qp; qp != nil {
		if seq, ok := qp.named(op.Number); ok && op.FailedOp != 0 {
			qp.succeedBefore(&t.results, seq)
			qp.failAt(&t.results, seq, termOutcome(op.Reason))
		}
	}
	t.blame(lifetime.CauseOfTerm(op))
	t.stopRequests()
	// Acknowledged here, because execution ends with the connection.
	rs := &t.rx[wire.ResponseSpace]
	rs.next = rs.next.NextMessage()
	t.keep()
	t.faulted = faultNamed
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
func (s *sender) stopRequests() {
	s.stop()
	sp := &s.tx[wire.RequestSpace]
	sp.Reset(sp.Next())
	s.sent.VoidAll(recovery.Requests)
	s.limitedBy(LimitApplication)
	if s.receives.Wait.State() == credit.Starved {
		s.ackNow() // the peer's requests get their answers
	}
	s.endWait()
	s.armTimer()
}

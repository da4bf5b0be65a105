package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/lifetime"
	"github.com/ndxdp/ndxdp/wire"
)

// This file is about TERM, which names the request that could not be carried out (PROTOCOL §8).

// terminate ends the connection because of an operation that cannot be carried out, here or for the peer, and tells the
// peer which one it was.
func (c *conn) terminate(reason wire.TermReason, op wire.Opcode, message uint32) {
	if c.phase != phaseOpen {
		return
	}
	c.leaveIdle()
	if c.served.termQueued {
		return
	}
	c.connector.blame(lifetime.CauseOf(reason))
	c.stopRequests()
	c.takeBack() // it may have been acknowledged before its turn came
	c.lost(OutcomeCanceled)
	c.served.terminate(wire.Op{Opcode: wire.OpTerm, Flags: wire.OpLast, Reason: reason, FailedOp: op, Number: message})
	c.ending().GiveUpAt = c.engine.now.Add(c.engine.cfg.DeadPeer)
	c.activate()
}

// termAcknowledged ends the connection on the wire: the peer knows why.
func (c *conn) termAcknowledged() {
	if c.phase == phaseOpen {
		c.linger(lifetime.Nothing, 0, nil)
	}
}

// localFault ends the connection because the request at seq cannot be carried out on this side: it names memory that may not be
// used, or a window in the wrong state. Requests before it that are not done end CANCELED.
func (c *conn) localFault(seq uint32, o Outcome) {
	if c.qp != nil {
		c.connector.blame(c.access().fault(c.qp.sq.sgl(seq), o))
		c.qp.failAt(&c.engine.results, seq, o)
	}
	c.terminate(wire.TermLocal, 0, 0)
}

// onTerm takes the peer's TERM: the request it names ends with the reason, those before it that the peer executed end
// well, all others CANCELED.
func (c *conn) onTerm(op *wire.Op) {
	if qp := c.qp; qp != nil {
		if seq, ok := qp.named(op.Number); ok && op.FailedOp != 0 {
			qp.succeedBefore(&c.engine.results, seq)
			qp.failAt(&c.engine.results, seq, termOutcome(op.Reason))
		}
	}
	c.connector.blame(lifetime.CauseOfTerm(op))
	c.stopRequests()
	c.lost(OutcomeCanceled)
	// Acknowledged here, so that the peer stops repeating it: execution ends with the connection.
	rs := &c.rx[wire.ResponseSpace]
	rs.next = rs.next.NextMessage()
	c.keep()
	c.sendAck()
	c.linger(lifetime.SayAck, 0, nil)
}

// termOutcome is what a TERM's reason means to the request it names.
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

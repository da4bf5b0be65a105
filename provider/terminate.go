package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/lifetime"
	"github.com/ndxdp/ndxdp/wire"
)

// This file is about TERM, which names the request that could not be carried out (PROTOCOL §8).

// terminate ends the connection because of an operation that cannot be carried out, here or for the peer, and tells the
// peer which one it was.
func (c *conn) terminate(reason wire.TermReason, op wire.Opcode, psn wire.PSN, number uint32) {
	if c.phase != phaseOpen {
		return
	}
	c.leaveIdle()
	if c.termQueued {
		return
	}
	c.stopRequests()
	c.takeBack() // it may have been acknowledged before its turn came
	c.lost(OutcomeCanceled)
	c.term = wire.Op{
		Opcode: wire.OpTerm, Flags: wire.OpFirst | wire.OpLast, Reason: reason, FailedOp: op, FailedPSN: psn, Number: number,
	}
	c.termQueued = true
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
	c.failRequest(seq, o)
	c.terminate(wire.TermLocal, 0, 0, 0)
}

// failRequest reports the requests before seq as canceled, unless they were done, and the one at seq with o.
func (c *conn) failRequest(seq uint32, o Outcome) {
	qp := c.qp
	if qp == nil {
		return
	}
	for head := qp.sq.head.Load(); head != seq+1; head++ {
		wr := qp.sq.wr(head)
		r := Result{QPContext: qp.context, RequestContext: wr.context, Outcome: OutcomeCanceled, Kind: wr.kind}
		if head == seq {
			r.Outcome = o
		}
		c.engine.results.complete(qp.initCQ, &r)
		qp.sq.head.Store(head + 1)
	}
}

// onTerm takes the peer's TERM: the request it names ends with the reason, those before it that the peer executed end
// well, all others CANCELED.
func (c *conn) onTerm(op *wire.Op) {
	if seq, ok := c.findRequest(op.FailedOp, op.Number); ok {
		c.completeBefore(seq)
		c.failRequest(seq, termOutcome(op.Reason))
	}
	c.stopRequests()
	c.lost(OutcomeCanceled)
	// Acknowledged here, so that the peer stops repeating it: execution ends with the connection.
	c.rx[wire.ResponseSpace].advance()
	c.keep()
	c.sendAck()
	c.linger(lifetime.SayAck, 0, nil)
}

// findRequest finds the initiator request that the peer names.
func (c *conn) findRequest(op wire.Opcode, number uint32) (seq uint32, ok bool) {
	if c.qp == nil {
		return 0, false
	}
	var kind RequestKind
	switch op {
	case wire.OpWrite:
		kind = KindWrite
	case wire.OpSend, wire.OpSendInv, wire.OpSendImm:
		kind = KindSend
	case wire.OpReadReq:
		kind = KindRead
	default:
		return 0, false
	}
	q := &c.qp.sq
	end := q.next
	if q.off > 0 {
		end++
	}
	for seq := q.head.Load(); seq != end; seq++ {
		if wr := q.wr(seq); wr.kind == kind && wr.number == number {
			return seq, true
		}
	}
	return 0, false
}

// completeBefore reports success for the requests before seq, up to the first READ that was not answered: the peer
// executes in order, so it executed them all.
func (c *conn) completeBefore(seq uint32) {
	qp := c.qp
	for head := qp.sq.head.Load(); head != seq; head++ {
		wr := qp.sq.wr(head)
		if wr.kind == KindRead && !wr.done {
			return
		}
		if wr.flags&FlagSilentSuccess == 0 {
			c.engine.results.complete(qp.initCQ, &Result{QPContext: qp.context, RequestContext: wr.context, Kind: wr.kind})
		}
		qp.sq.head.Store(head + 1)
	}
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

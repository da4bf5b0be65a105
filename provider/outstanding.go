package provider

import "github.com/ndxdp/ndxdp/provider/internal/completion"

// This file is how requests end that are outstanding when something else than the peer's acknowledgement ends them. The owner calls it.

// cancelAll completes every outstanding request with CANCELED, the oldest initiator request with first.
func (qp *QP) cancelAll(r *completion.Reporter, first Outcome) {
	for seq := qp.sq.head.Load(); seq != qp.sq.posted.Load(); seq++ {
		qp.fail(r, seq, first)
		first = OutcomeCanceled
		qp.sq.head.Store(seq + 1)
	}
	qp.sq.next, qp.sq.off = qp.sq.head.Load(), 0
	for seq := qp.rq.head.Load(); seq != qp.rq.posted.Load(); seq++ {
		wr := qp.rq.wr(seq)
		r.Complete(qp.recvCQ, &Result{QPContext: qp.context, RequestContext: wr.context, Outcome: OutcomeCanceled, Kind: KindReceive})
		qp.rq.head.Store(seq + 1)
	}
}

// reportDone reports the initiator requests before una that are done, in posting order, and returns the first one that is not. Their places in the
// queue are the caller's to give up.
func (qp *QP) reportDone(r *completion.Reporter, una uint32) (head uint32) {
	for head = qp.sq.head.Load(); int32(una-head) > 0; head++ {
		wr := qp.sq.wr(head)
		if wr.kind == KindRead && !wr.done {
			break
		}
		r.Count(uint8(wr.kind), wr.length)
		if wr.flags&FlagSilentSuccess == 0 {
			r.Complete(qp.initCQ, &Result{QPContext: qp.context, RequestContext: wr.context, Kind: wr.reported()})
		}
	}
	return head
}

// fail reports that the request at seq failed. The first half of a Write with an immediate is not reported: its outcome becomes the
// outcome of the second half, so that the Write has one result.
func (qp *QP) fail(r *completion.Reporter, seq uint32, o Outcome) {
	wr := qp.sq.wr(seq)
	if wr.flags&flagFirstHalf != 0 {
		qp.sq.wr(seq + 1).first = o
		return
	}
	if o == OutcomeCanceled && wr.first != OutcomeSuccess {
		o = wr.first
	}
	r.Complete(qp.initCQ, &Result{QPContext: qp.context, RequestContext: wr.context, Outcome: o, Kind: wr.reported()})
}

// failAt reports the initiator requests before seq as canceled, unless they were done, and the request at seq with o.
func (qp *QP) failAt(r *completion.Reporter, seq uint32, o Outcome) {
	for head := qp.sq.head.Load(); head != seq+1; head++ {
		if head == seq {
			qp.fail(r, head, o)
		} else {
			qp.fail(r, head, OutcomeCanceled)
		}
		qp.sq.head.Store(head + 1)
	}
}

// succeedBefore reports success for the initiator requests before seq, up to the first READ that was not answered: the peer
// executes in order, so it executed them all.
func (qp *QP) succeedBefore(r *completion.Reporter, seq uint32) {
	qp.sq.head.Store(qp.reportDone(r, seq))
}

// named finds the initiator request whose message the peer names: one that was sent, at least in part.
func (qp *QP) named(message uint32) (seq uint32, ok bool) {
	q := &qp.sq
	end := q.next
	if q.off > 0 {
		end++
	}
	for seq := q.head.Load(); seq != end; seq++ {
		if wr := q.wr(seq); !wr.kind.Local() && wr.message == message {
			return seq, true
		}
	}
	return 0, false
}

package provider

import (
	"sync/atomic"

	"github.com/ndxdp/ndxdp/provider/internal/completion"
	"github.com/ndxdp/ndxdp/provider/internal/interleave"
	"github.com/ndxdp/ndxdp/provider/internal/memory"
	"github.com/ndxdp/ndxdp/wire"
)

// QPConfig describes a queue pair. Depths are requests, SGE counts entries per request, InlineSize bytes.
type QPConfig struct {
	Context                        uint64
	ReceiveCQ, InitiatorCQ         *CQ
	ReceiveDepth, InitiatorDepth   int
	MaxReceiveSGE, MaxInitiatorSGE int
	InlineSize                     int
	// Shared gives the queue pair its receives; ReceiveDepth and MaxReceiveSGE are then not used. Nil for a queue of its own.
	Shared *SharedReceiveQueue
	// Domain is the domain whose regions it may use, in addition to regions without a domain; nil for no domain.
	Domain *Domain
}

// QP is a queue pair: the work queues that applications fill, and the connection that empties them.
type QP struct {
	lead      *Engine                    // where it was made
	home      interleave.Pointer[Engine] // whose it is; nil while it moves
	context   uint64
	recvCQ    *CQ
	initCQ    *CQ
	sq        initiatorQueue
	rq        receiveQueue // with srq: only the receive that the peer's SEND is filling
	srq       *SharedReceiveQueue
	memory    memory.User // the engine's
	pool      poolPlace   // in srq
	state     atomic.Uint32
	rung      interleave.Bool // in the engine's doorbell list
	nextRung  *QP             // the doorbell list's link; written by whoever set rung
	readLimit atomic.Uint32
	released  bool // the application closed it; the engine's

	conn   *conn      // the engine's: the connection it is attached to
	seeker *Connector // the engine's: attached to it, while that looks for the way to its peer
	// Where the completion queues list it; theirs. The first alone when one queue serves both directions.
	recvPlace, initPlace int
}

// NewQP makes a queue pair. The caller checked the limits.
func (e *Engine) NewQP(cfg QPConfig) *QP {
	if cfg.Shared != nil {
		cfg.ReceiveDepth, cfg.MaxReceiveSGE = 0, int(cfg.Shared.maxSGE)
	}
	qp := &QP{
		lead: e, context: cfg.Context, recvCQ: cfg.ReceiveCQ, initCQ: cfg.InitiatorCQ,
		sq: newInitiatorQueue(cfg.InitiatorDepth, cfg.MaxInitiatorSGE, cfg.InlineSize),
		rq: newReceiveQueue(cfg.ReceiveDepth, cfg.MaxReceiveSGE), srq: cfg.Shared, memory: memory.NewUser(cfg.Domain),
	}
	qp.home.Store(e)
	g := e.group
	g.mu.Lock()
	g.qps[qp] = struct{}{}
	g.mu.Unlock()
	several := len(g.engines) > 1
	qp.recvCQ.Join(qp, several)
	if qp.initCQ != qp.recvCQ {
		qp.initCQ.Join(qp, several)
	}
	return qp
}

// State returns the state. Applications read it while the engine writes it.
func (qp *QP) State() QPState { return QPState(qp.state.Load()) }

// transition is the only writer of the state. Impossible transitions are counted.
func (qp *QP) transition(ev qpEvent) {
	next, legal := qp.State().After(ev)
	if !legal {
		qp.home.Load().stats.IllegalTransitions++
	}
	qp.state.Store(uint32(next))
	if qp.memory.HasWindows() && next != QPReady {
		qp.lead.mem.UnbindAll(&qp.memory) // ND specification section 10
	}
}

// Outstanding returns how many initiator requests are not done.
func (qp *QP) Outstanding() int { return int(qp.sq.posted.Load() - qp.sq.head.Load()) }

// ListedAt returns where the queue pair keeps its place in the list of a completion queue.
func (qp *QP) ListedAt(q *CQ) *int {
	if qp.recvCQ == q {
		return &qp.recvPlace
	}
	return &qp.initPlace
}

// queue returns the initiator queue; nil for no queue pair.
func (qp *QP) queue() *initiatorQueue {
	if qp == nil {
		return nil
	}
	return &qp.sq
}

// user identifies the queue pair to the memory table. It is nil without a domain; such a queue pair's memory may be used by all.
func (qp *QP) user() *memory.User {
	if qp == nil {
		return nil
	}
	return &qp.memory
}

// Post queues an initiator request with its entries, which are copied during the call, and unused with FlagInline; any goroutine may call it. When it returns
// true in ring the engine must be run (or is being run) for the request to move: the caller rings unless FlagDefer says that more follows.
//
// The order of checks is the specification's: state, entry count, total length, space.
func (qp *QP) Post(r *Request, sgl []SGE) (ring bool, o Outcome) {
	if o := qp.CheckPost(); o != OutcomeSuccess {
		return false, o
	}
	switch inline := r.Flags&FlagInline != 0; {
	case !inline && len(sgl) > int(qp.sq.maxSGE):
		return false, OutcomeDataOverrun
	case r.Length > MaxTransfer || inline && r.Length > qp.sq.inlineSize:
		return false, OutcomeBufferOverflow
	case r.Kind == KindRead && qp.readLimit.Load() == 0 && qp.State() == QPReady: // the limit goes with the connection
		return false, OutcomeInvalidRequest
	}
	if o := qp.sq.post(r, sgl); o != OutcomeSuccess {
		return false, o
	}
	return qp.ringUnlessDeferred(r.Flags, r.slots()), OutcomeSuccess
}

// ringUnlessDeferred ends every initiator post, of a request that takes so many slots.
func (qp *QP) ringUnlessDeferred(f PostFlags, slots uint32) bool {
	if f&FlagDefer != 0 || qp.sendAlone(slots) {
		return false
	}
	qp.Push()
	return true
}

// sendAlone sends a request at once if no request is before it and nobody runs the engine. An application that posts one request at a time
// waits for the answer, and should not have to poll before the packet leaves. Requests behind others wait for the next poll, which sends
// many with one system call.
func (qp *QP) sendAlone(slots uint32) bool {
	if qp.sq.posted.Load()-qp.sq.head.Load() != slots {
		return false
	}
	e := qp.home.Load()
	return e != nil && e.shard != nil && e.shard.runFor(qp)
}

// CheckPost says whether the state allows initiator requests.
func (qp *QP) CheckPost() Outcome {
	switch qp.State() {
	case QPReady, QPError:
		return OutcomeSuccess
	default:
		return OutcomeConnectionInvalid
	}
}

// PostReceive queues a receive; any goroutine may call it. ring is as for Post. A queue pair with a shared receive queue
// has no room for receives of its own.
func (qp *QP) PostReceive(context uint64, sgl []SGE, capacity uint32) (ring bool, o Outcome) {
	if len(sgl) > int(qp.rq.maxSGE) {
		return false, OutcomeDataOverrun
	}
	if capacity > MaxTransfer {
		return false, OutcomeBufferOverflow
	}
	if o := qp.rq.post(context, sgl, capacity); o != OutcomeSuccess {
		return false, o
	}
	// The engine sets starved and then reads posted. Here posted was stored, and then starved is read. So one of the two sees the other's
	// store.
	if st := qp.State(); st == QPError || st == QPClosed || qp.rq.starved.Load() {
		qp.Push()
		return true, OutcomeSuccess
	}
	return false, OutcomeSuccess
}

// Push puts the queue pair on the engine's doorbell list, once, so that posted requests are sent, including deferred ones. The caller makes
// the engine run.
func (qp *QP) Push() {
	if qp.rung.Load() || !qp.rung.CompareAndSwap(false, true) {
		return
	}
	e := qp.home.Load()
	if e == nil {
		e = qp.lead
	}
	e.inbox.ring(qp)
	if qp.home.Load() != e {
		e.inbox.wake() // it moves: the poster will ring somebody else
	}
}

// Flush cancels everything outstanding (spec 8.5). Idle and attached queue pairs stay usable; a ready one goes to the
// error state while its connection stays up for a graceful Disconnect. The owner calls it.
func (qp *QP) Flush() {
	qp.transition(qpFlush)
	qp.cancelAll(&qp.home.Load().results, OutcomeCanceled)
	if qp.conn != nil && qp.State() == QPError {
		qp.conn.withTraffic((*traffic).stopRequests)
	}
}

// Release ends a queue pair: its requests end CANCELED and its connection, if any, is cut off. The owner calls it.
func (qp *QP) Release() {
	if qp.released {
		return
	}
	qp.released = true
	if c := qp.conn; c != nil {
		established := c.phase == phaseOpen
		if established {
			c.detachClosed()
		}
		if k := c.connector; k != nil {
			k.queuePairReleased(established)
		}
	}
	if qp.seeker != nil {
		qp.seeker.searchCanceled()
	}
	qp.transition(qpRelease)
	e := qp.home.Load()
	qp.cancelAll(&e.results, OutcomeCanceled)
	g := e.group
	g.mu.Lock()
	delete(g.qps, qp)
	g.mu.Unlock()
	qp.recvCQ.Leave(qp)
	if qp.initCQ != qp.recvCQ {
		qp.initCQ.Leave(qp)
	}
}

// overran ends the connection because a completion queue of the queue pair overran (spec section 9); e detected it. It does so once. A
// later connection ends at once (conn.established). A SEND whose result was lost ends its connection before (onSend).
func (qp *QP) overran(e *Engine) {
	fail := func(e *Engine) {
		if qp.home.Load() == e && qp.conn != nil && qp.State() == QPReady {
			qp.conn.withTraffic(func(t *traffic) { t.terminate(wire.TermLocal, 0, 0) })
		}
	}
	if home := qp.home.Load(); home == e || home == nil {
		fail(e)
	} else {
		home.inbox.call(fail)
	}
}

// answer looks at what was posted, on the engine that the queue pair is on.
func (qp *QP) answer(e *Engine) {
	switch qp.State() {
	case QPReady:
		if c := qp.conn; c != nil {
			more, short, promised := qp.sq.next != qp.sq.posted.Load(), c.runsShort(), c.promise()
			if more || short || promised {
				c.withTraffic(func(t *traffic) {
					if more {
						c.want(wantTurn)
					}
					if short {
						t.received.ackNow()
					}
					if promised {
						t.received.tellReceive(true)
					}
				})
			}
		}
	case QPError, QPClosed:
		qp.cancelAll(&e.results, OutcomeCanceled)
	case QPIdle, QPAttached:
	}
}

// The functions below end requests that are outstanding when something else than the peer's acknowledgement ends them. The owner calls them.

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

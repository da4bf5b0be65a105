package nd

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ndxdp/ndxdp/provider"
)

// connectionEnd wakes the goroutines that wait for results of an endpoint when its connection ends or the peer disconnects. The holder of
// the engine reports the end once; nothing polls a connection that no goroutine waits for.
type connectionEnd struct {
	over    atomic.Bool // written under mu
	mu      sync.Mutex
	waiting []uint64 // ids of notifications of the endpoint's queue
}

// watchEnd subscribes to the end of the connection, which has just been made.
func (e *Endpoint) watchEnd() {
	told := func(provider.Outcome) { e.end.tell(e.Queue) }
	if o := e.Connector.k.Call(func() (o provider.Outcome) {
		_, o = e.Connector.k.NotifyDisconnect(told)
		return o
	}); o != provider.OutcomeSuccess {
		told(o) // the connection has ended already
	}
}

// tell wakes all waiting goroutines.
func (c *connectionEnd) tell(q *CompletionQueue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over.Store(true)
	for _, id := range c.waiting {
		q.cq.CancelWaiter(id, provider.OutcomeSuccess)
	}
	c.waiting = nil
}

// begin makes a notification end with the connection.
func (c *connectionEnd) begin(q *CompletionQueue, id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over.Load() {
		q.cq.CancelWaiter(id, provider.OutcomeSuccess)
		return
	}
	c.waiting = append(c.waiting, id)
}

// finish is the reverse of begin.
func (c *connectionEnd) finish(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.waiting, id); i >= 0 {
		c.waiting = slices.Delete(c.waiting, i, i+1)
	}
}

// Result waits for the next result of a request and returns it. Results that are in the queue come before the report that the connection is
// over.
//
// Errors: the result's status together with the result if the request failed; ErrCanceled without a result if the queue is empty and the
// connection is over or the peer has called Disconnect; ErrCanceled with the context's error if ctx ended; ErrBufferOverflow if the queue
// overran, or if results were dropped because no call of Result took them; ErrDeviceRemoved. errors.Is finds the Cause in the first two:
//
//	for {
//		r, err := endpoint.Result(ctx)
//		if errors.Is(err, nd.CausePeerDisconnected) {
//			return endpoint.Close() // the end for both
//		}
//		…
//	}
func (e *Endpoint) Result(ctx context.Context) (Result, error) {
	const op = "result"
	if err := checkContext(op, ctx); err != nil {
		return Result{}, err
	}
	if e.dispatch.dropped() {
		return Result{}, &Error{Op: op, Status: ErrBufferOverflow, Err: errUnread}
	}
	r, err := take(ctx, e, &e.dispatch.results, op)
	if err != nil {
		return Result{}, err
	}
	if r.Status != StatusSuccess {
		return r, e.failed(r.Type.String(), r.Status)
	}
	return r, nil
}

// await waits for a result, or the end of the connection.
func (e *Endpoint) await(ctx context.Context, op string) error {
	q := e.Queue
	w := newCall()
	defer calls.Put(w)
	id, err := q.arm(NotifyAny, w.fin)
	if err != nil {
		return err
	}
	e.end.begin(q, id)
	o, cause := w.sleep(ctx, &q.contexts, q.cq.Sleep, func() { q.cq.CancelWaiter(id, provider.OutcomeCanceled) })
	e.end.finish(id)
	return q.adapter.fail(op, noAddr, noAddr, o, cause)
}

// failed returns the error of a request that failed, or that was not answered because the connection is over. It wraps the cause if there is
// one.
func (e *Endpoint) failed(op string, s Status) error {
	err := &Error{Op: op, Status: s}
	switch why := e.Connector.Cause(); {
	case why != CauseNone:
		err.Err = why
	case s == ErrCanceled:
		err.Err = CauseOwn
	}
	return err
}

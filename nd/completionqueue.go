package nd

import (
	"context"

	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// CompletionQueue collects the results of requests. Polling it with GetResults also runs the transport, which gives the lowest
// latency. Waiting with Notify sleeps until packets arrive.
//
// All methods may be called from any goroutine.
type CompletionQueue struct {
	adapter  *Adapter
	cq       verbs.CQ
	contexts canceler // contexts of Notify calls
}

// inner returns the adapter's own object for the queue, or nil for a nil queue.
func (q *CompletionQueue) inner() *verbs.CQ {
	if q == nil {
		return nil
	}
	return &q.cq
}

// CreateCompletionQueue makes a queue for at least depth results.
//
// Errors: ErrInvalidParameterN(3) for a depth outside 1..MaxCompletionQueueDepth,
// ErrInsufficientResources, ErrDeviceRemoved.
func (a *Adapter) CreateCompletionQueue(depth int) (*CompletionQueue, error) {
	const op = "create completion queue"
	if !verbs.ValidCQDepth(depth) {
		return nil, a.wrong(op, 3)
	}
	if err := a.create(op, verbs.ObjectCQ); err != nil {
		return nil, err
	}
	q := &CompletionQueue{adapter: a}
	q.cq.Init(a.verbs, depth)
	return q, nil
}

// GetResults moves up to len(results) results out of the queue, oldest first, and returns how many. It never blocks. If it returns
// less than len(results), the queue was empty. Results of one queue pair come in the order in which the requests were posted,
// separately for initiator requests and for receives.
func (q *CompletionQueue) GetResults(results []Result) int {
	return verbs.Results(&q.cq, results, putResults)
}

// Empty reports whether no result is ready, so that GetResults would have to poll the engine to find one. Another goroutine may add or
// take results at any time.
func (q *CompletionQueue) Empty() bool { return q.cq.Empty() }

func putResults(to []Result, from []provider.Result) {
	for i := range from {
		r := &from[i]
		to[i] = Result{
			Status: statusTable[r.Outcome], Bytes: r.Bytes, QueuePairID: r.QPContext, RequestID: r.RequestContext,
			Type: RequestType(r.Kind), HasImmediate: r.HasImmediate, Immediate: r.Immediate, Solicited: r.Solicited,
		}
	}
}

// Notify waits until the queue has a result of the given type that arrived after the previous notification, or until ctx ends.
// Several goroutines may wait: one event wakes them all.
//
// Errors: ErrCanceled (with the context's error) if ctx ended or the queue was closed, ErrBufferOverflow if the queue overran,
// ErrInvalidParameterN(1) for an unknown type, ErrDeviceRemoved.
func (q *CompletionQueue) Notify(ctx context.Context, what NotifyType) error {
	if err := checkContext("notify", ctx); err != nil {
		return err
	}
	w := newCall()
	defer calls.Put(w)
	id, err := q.arm(what, w.fin)
	if err != nil {
		return err
	}
	o, cause := w.sleep(ctx, &q.contexts, q.cq.Sleep, func() { q.cq.CancelWaiter(id, provider.OutcomeCanceled) })
	return q.adapter.fail("notify", noAddr, noAddr, o, cause)
}

// CancelOverlappedRequests ends every waiting Notify with ErrCanceled, oldest first.
func (q *CompletionQueue) CancelOverlappedRequests() { q.cq.CancelWaiters(provider.OutcomeCanceled) }

// Close ends every waiting Notify; later Notify calls end at once. Queue pairs that report here keep working, and GetResults still
// returns their results. Closing twice is harmless.
func (q *CompletionQueue) Close() error {
	q.contexts.close()
	if q.cq.Close() {
		q.adapter.verbs.Objects.Give(verbs.ObjectCQ)
	}
	return nil
}

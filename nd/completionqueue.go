package nd

import (
	"context"

	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// CompletionQueue collects the results of requests. Polling it with GetResults also moves the transport along: a program
// that polls gets the lowest latency, one that waits with Notify sleeps until its packets come.
//
// All methods may be called from any goroutine.
type CompletionQueue struct {
	adapter  *Adapter
	cq       verbs.CQ
	contexts canceler // of Notify
}

// inner is what the adapter knows of the queue, nil for none.
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

// GetResults moves up to len(results) results out of the queue, oldest first, and says how many. It never blocks. A
// count below len(results) means that the queue was empty then. Results of one queue pair come in the order its requests
// were posted, initiator requests and receives each for themselves.
func (q *CompletionQueue) GetResults(results []Result) int {
	return verbs.Results(&q.cq, results, putResults)
}

// Empty says whether GetResults would have to run the engine to find a result. Another goroutine may add or take results at any time.
func (q *CompletionQueue) Empty() bool { return q.cq.Empty() }

func putResults(to []Result, from []provider.Result) {
	for i := range from {
		r := &from[i]
		to[i] = Result{
			Status: statusTable[r.Outcome], Bytes: r.Bytes, QueuePairContext: r.QPContext, RequestContext: r.RequestContext,
			Type: RequestType(r.Kind),
		}
	}
}

// Notify waits until something of the given type is in the queue that was not there at the last notification, or ctx
// ends. Several may wait: one event finishes them all.
//
// Errors: ErrCanceled (with the context's error) when ctx ended or the queue was closed, ErrBufferOverflow when the queue
// overran, ErrInvalidParameterN(1) for an unknown type, ErrDeviceRemoved.
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

// Close ends every waiting Notify, and later ones at once. Queue pairs that report here keep working, and their results can
// still be fetched with GetResults. Closing twice is harmless.
func (q *CompletionQueue) Close() error {
	q.contexts.close()
	if q.cq.Close() {
		q.adapter.verbs.Objects.Give(verbs.ObjectCQ)
	}
	return nil
}

package nd

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// CompletionQueue collects the results of requests. Polling it with GetResults also moves the transport along: a program
// that polls gets the lowest latency, one that waits with Notify sleeps and is served in the background.
//
// All methods may be called from any goroutine.
type CompletionQueue struct {
	adapter *Adapter
	cq      *provider.CQ

	closed    atomic.Bool
	moderated atomic.Bool
	mu        sync.Mutex // one consumer at a time
	temp      [32]provider.Result
}

// CreateCompletionQueue makes a queue for at least depth results.
//
// Errors: ErrInvalidParameterN(3) for a depth outside 1..MaxCompletionQueueDepth,
// ErrInsufficientResources, ErrDeviceRemoved.
func (a *Adapter) CreateCompletionQueue(depth int) (*CompletionQueue, error) {
	if depth < 1 || depth > maxCQDepth {
		return nil, &Error{Op: "create completion queue", Status: ErrInvalidParameterN(3)}
	}
	if err := a.create("create completion queue", verbs.ObjectCQ); err != nil {
		return nil, err
	}
	q := &CompletionQueue{adapter: a, cq: provider.NewCQ(depth)}
	a.verbs.Watch(q.cq)
	return q, nil
}

// GetResults moves up to len(results) results out of the queue, oldest first, and says how many. It never blocks. A
// count below len(results) means that the queue was empty then. Results of one queue pair come in the order its requests
// were posted, initiator requests and receives each for themselves.
func (q *CompletionQueue) GetResults(results []Result) int {
	n := 0
	q.mu.Lock()
	if !q.cq.Empty() {
		n = q.fetch(results)
	}
	if n < len(results) {
		q.adapter.verbs.Poll(q.cq)
		if !q.cq.Empty() {
			n += q.fetch(results[n:])
		}
	}
	q.mu.Unlock()
	return n
}

func (q *CompletionQueue) fetch(results []Result) int {
	total := 0
	for total < len(results) {
		n := q.cq.Fetch(q.temp[:min(len(q.temp), len(results)-total)])
		if n == 0 {
			break
		}
		for i := range n {
			r := &q.temp[i]
			results[total+i] = Result{
				Status: statusTable[r.Outcome], Bytes: r.Bytes, QueuePairContext: r.QPContext, RequestContext: r.RequestContext,
				Type: RequestType(r.Kind),
			}
		}
		total += n
	}
	return total
}

// notification is one waiting Notify; they are pooled, so that waiting allocates nothing.
type notification struct {
	done chan provider.Outcome
	fin  provider.Finish
}

var notifications = sync.Pool{New: func() any {
	n := &notification{done: make(chan provider.Outcome, 1)}
	n.fin = func(o provider.Outcome) { n.done <- o }
	return n
}}

// Notify waits until something of the given type is in the queue that was not there at the last notification, or ctx
// ends. Several may wait: one event finishes them all.
//
// Errors: ErrCanceled (with the context's error) when ctx ended or the queue was closed, ErrBufferOverflow when the queue
// overran, ErrInvalidParameterN(1) for an unknown type, ErrDeviceRemoved.
func (q *CompletionQueue) Notify(ctx context.Context, what NotifyType) error {
	if err := checkContext("notify", ctx); err != nil {
		return err
	}
	if q.adapter.closed() {
		return q.adapter.removed("notify")
	}
	level := provider.NotifyAny
	switch what {
	case NotifyErrors:
		level = provider.NotifyErrors
	case NotifySolicited:
		level = provider.NotifySolicited
	case NotifyAny:
	default:
		return &Error{Op: "notify", Status: ErrInvalidParameterN(1)}
	}
	w := notifications.Get().(*notification)
	q.mu.Lock()
	id := q.cq.Arm(level, w.fin)
	q.mu.Unlock()
	// Whoever closes marks first and cancels then: one of the two sees the other.
	switch {
	case q.adapter.closed():
		q.cq.CancelWaiter(id, provider.OutcomeDeviceRemoved)
	case q.closed.Load():
		q.cq.CancelWaiter(id, provider.OutcomeCanceled)
	default:
		q.adapter.verbs.Release(q.cq)
		if q.moderated.Load() {
			q.adapter.do(func(e *provider.Engine) { e.Moderate(q.cq) })
		}
	}
	o, cause := wait(ctx, w.done, func() { q.cq.CancelWaiter(id, provider.OutcomeCanceled) })
	notifications.Put(w)
	return finished("notify", noAddr, noAddr, o, cause)
}

// CancelOverlappedRequests ends every waiting Notify with ErrCanceled, oldest first.
func (q *CompletionQueue) CancelOverlappedRequests() { q.cq.CancelWaiters(provider.OutcomeCanceled) }

// Close ends every waiting Notify, and later ones at once. Queue pairs that report here keep working, and their results can
// still be fetched with GetResults. Closing twice is harmless.
func (q *CompletionQueue) Close() error {
	if q.closed.CompareAndSwap(false, true) {
		q.adapter.verbs.Objects.Give(verbs.ObjectCQ)
		q.adapter.verbs.Unwatch(q.cq)
	}
	q.CancelOverlappedRequests()
	return nil
}

package ndk

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// Notification is called when an armed completion queue or shared receive queue has something to tell. Those of one queue never
// overlap.
type Notification func(context any, status Status)

// NotifyType is what arms a completion queue.
type NotifyType uint8

// The notification types.
const (
	NotifyErrors    NotifyType = 0 // the completion queue itself failed
	NotifyAny       NotifyType = 1 // any result
	NotifySolicited NotifyType = 2 // the result of a solicited Send, or any failed one
)

// CQ collects the results of requests. GetResults also moves the transport along: a program that polls gets the lowest latency,
// a program that arms the queue is called. All methods may be called from any goroutine.
type CQ struct {
	object
	cq      verbs.CQ
	notify  Notification
	about   any             // the notification's context
	faulted atomic.Uint32   // the Status to tell once the queue is of no use
	told    provider.Finish // queues the notification; made once, so that arming allocates nothing
}

// inner is what the adapter knows of the queue, nil for none.
func (q *CQ) inner() *verbs.CQ {
	if q == nil {
		return nil
	}
	return &q.cq
}

// CreateCQ makes a queue for at least depth results. notify, which may be nil, is called with notifyContext once for each time
// that the queue was armed and something came: StatusSuccess, or StatusBufferOverflow when the queue overran and is of no use
// any more.
//
// Statuses: StatusSuccess; StatusPending with a done; StatusInvalidParameter for a depth outside 1..MaxCQDepth,
// StatusInsufficientResources, StatusDeviceRemoved.
func (a *Adapter) CreateCQ(depth int, notify Notification, notifyContext any, done CreateCompletion[*CQ], context any) (*CQ, Status) {
	if !verbs.ValidCQDepth(depth) {
		return nil, a.unless(StatusInvalidParameter)
	}
	return create(&a.root, verbs.ObjectCQ, done, context, func() (*CQ, Status) {
		q := &CQ{notify: notify, about: notifyContext}
		q.cq.Init(a.verbs, depth)
		q.init(a, verbs.ObjectCQ, &a.root)
		call := q.call()
		q.told = func(o provider.Outcome) {
			if o != provider.OutcomeCanceled && o != provider.OutcomeDeviceRemoved {
				q.hold()
				q.fault(o)
				a.calls.push(call)
			}
		}
		return q, StatusSuccess
	})
}

// fault remembers that the queue is of no use any more.
func (q *CQ) fault(o provider.Outcome) {
	if o != provider.OutcomeSuccess {
		q.faulted.Store(uint32(statusTable[o]))
	}
}

// call is what runs on the callback goroutine for a notification.
func (q *CQ) call() func() {
	return func() {
		if q.notify != nil && !q.ending() {
			q.notify(q.about, Status(q.faulted.Load()))
		}
		q.drop()
	}
}

// Arm asks for one notification. Arms that no notification has answered yet are one, for whatever any of them asked for.
// A result that came after the last notification, and was not fetched, satisfies it at once.
func (q *CQ) Arm(what NotifyType) {
	level, ok := verbs.Level(what)
	if !ok {
		level = provider.NotifyErrors
	}
	q.cq.ArmOnce(level, q.told)
}

// GetResults moves up to len(results) results out of the queue, oldest first, and says how many. It never blocks. A count
// below len(results) means that the queue was empty then. Results of one queue pair come in the order its requests were
// posted, initiator requests and receives each for themselves.
func (q *CQ) GetResults(results []Result) int { return verbs.Results(&q.cq, results, putResults) }

// GetResultsEx is GetResults with all that is known.
func (q *CQ) GetResultsEx(results []ResultEx) int { return verbs.Results(&q.cq, results, putResultsEx) }

// Resize gives the queue room for at least depth results, while traffic runs; no result is lost.
//
// Statuses: StatusSuccess; StatusPending with a done; StatusInvalidParameter for a depth outside 1..MaxCQDepth,
// StatusBufferOverflow when more results than that wait to be fetched, StatusDeviceRemoved. The queue is unchanged then.
func (q *CQ) Resize(depth int, done Completion, context any) Status {
	if !verbs.ValidCQDepth(depth) {
		return q.adapter.unless(StatusInvalidParameter)
	}
	return q.perform(done, context, func() Status { return statusTable[q.cq.Resize(depth)] })
}

// ControlInterruptModeration bounds how often the notification is called: not before count results came since the last one, or
// interval microseconds passed since there was something to tell. An interval of 0, or a count of 0 or 1, ends moderation, which is
// how a queue begins; the largest interval, or a count beyond the queue's depth, is no limit.
//
// Statuses: StatusSuccess; StatusInvalidParameterMix when neither has a limit, StatusDeviceRemoved.
func (q *CQ) ControlInterruptModeration(interval, count uint32) Status {
	d := time.Duration(interval) * time.Microsecond
	if interval == math.MaxUint32 {
		d = -1
	}
	return statusTable[q.cq.Moderate(d, count)]
}

// Close ends the queue when its queue pairs are closed. No notification begins any more. It never fails; done, which may be nil,
// is called iff it returns StatusPending.
func (q *CQ) Close(done CloseCompletion, context any) Status {
	return q.close(func() { q.cq.Close() }, done, context)
}

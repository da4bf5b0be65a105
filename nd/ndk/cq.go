package ndk

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// Notification is called when an armed completion queue or shared receive queue has an event. Notifications of one queue never
// overlap.
type Notification func(context any, status Status)

// NotifyType is the kind of event that a completion queue is armed for.
type NotifyType uint8

// Types of notifications.
const (
	NotifyErrors    NotifyType = 0 // the completion queue itself failed
	NotifyAny       NotifyType = 1 // any result
	NotifySolicited NotifyType = 2 // the result of a solicited Send, or any failed result
)

// CQ collects the results of requests. Polling it with GetResults also runs the transport, which gives the lowest latency. A
// program that arms the queue gets a callback. All methods may be called from any goroutine.
type CQ struct {
	object
	cq      verbs.CQ
	notify  Notification
	about   any             // context of the notification
	faulted atomic.Uint32   // the Status to report once the queue is unusable
	told    provider.Finish // queues the notification; made once, so that arming does not allocate
}

// inner returns the adapter's own object for the queue, or nil for a nil queue.
func (q *CQ) inner() *verbs.CQ {
	if q == nil {
		return nil
	}
	return &q.cq
}

// CreateCQ makes a queue for at least depth results. notify, which may be nil, is called with notifyContext once for each time that
// the queue was armed and an event arrived. Its status is StatusSuccess, or StatusBufferOverflow if the queue overran and is
// unusable.
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

// fault records that the queue is unusable.
func (q *CQ) fault(o provider.Outcome) {
	if o != provider.OutcomeSuccess {
		q.faulted.Store(uint32(statusTable[o]))
	}
}

// call is the callback of a notification.
func (q *CQ) call() func() {
	return func() {
		if q.notify != nil && !q.ending() {
			q.notify(q.about, Status(q.faulted.Load()))
		}
		q.drop()
	}
}

// Arm asks for one notification. Several Arms before a notification are one Arm for all their types. A result that arrived after
// the last notification and was not fetched triggers the notification at once.
func (q *CQ) Arm(what NotifyType) {
	level, ok := verbs.Level(what)
	if !ok {
		level = provider.NotifyErrors
	}
	q.cq.ArmOnce(level, q.told)
}

// GetResults moves up to len(results) results out of the queue, oldest first, and returns how many. It never blocks. If it returns
// less than len(results), the queue was empty. Results of one queue pair come in the order in which the requests were posted,
// separately for initiator requests and for receives.
func (q *CQ) GetResults(results []Result) int { return verbs.Results(&q.cq, results, putResults) }

// GetResultsEx is GetResults with more details.
func (q *CQ) GetResultsEx(results []ResultEx) int { return verbs.Results(&q.cq, results, putResultsEx) }

// Resize gives the queue room for at least depth results. It works while traffic runs, and no result is lost.
//
// Statuses: StatusSuccess; StatusPending with a done; StatusInvalidParameter for a depth outside 1..MaxCQDepth,
// StatusBufferOverflow if more than depth results wait in the queue, StatusDeviceRemoved. After an error the queue is unchanged.
func (q *CQ) Resize(depth int, done Completion, context any) Status {
	if !verbs.ValidCQDepth(depth) {
		return q.adapter.unless(StatusInvalidParameter)
	}
	return q.perform(done, context, func() Status { return statusTable[q.cq.Resize(depth)] })
}

// ControlInterruptModeration limits how often the notification is called. It is then called only if count results have arrived
// after the last notification, or if interval microseconds have passed since the first new result. An interval of 0, or a count of
// 0 or 1, ends moderation, which is the initial state. The largest interval, or a count beyond the queue's depth, is no limit.
//
// Statuses: StatusSuccess; StatusInvalidParameterMix if neither value is a limit, StatusDeviceRemoved.
func (q *CQ) ControlInterruptModeration(interval, count uint32) Status {
	d := time.Duration(interval) * time.Microsecond
	if interval == math.MaxUint32 {
		d = -1
	}
	return statusTable[q.cq.Moderate(d, count)]
}

// Close ends the queue when its queue pairs are closed. No further notification starts. It never fails. done, which may be nil, is
// called if and only if Close returns StatusPending.
func (q *CQ) Close(done CloseCompletion, context any) Status {
	return q.close(func() { q.cq.Close() }, done, context)
}

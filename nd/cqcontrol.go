package nd

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/datapath"
	"github.com/ndxdp/ndxdp/provider"
)

// Resize gives the queue room for at least depth results, while traffic runs; no result is lost.
//
// Errors: ErrInvalidParameter for a depth outside 1..MaxCompletionQueueDepth, ErrBufferOverflow when more results than that
// wait to be fetched, ErrDeviceRemoved. The queue is unchanged then.
func (q *CompletionQueue) Resize(depth int) error {
	if q.adapter.closed() {
		return q.adapter.removed("resize")
	}
	if depth < 1 || depth > maxCQDepth {
		return &Error{Op: "resize", Status: ErrInvalidParameter}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	o := q.adapter.verbs.CallAll(func() provider.Outcome { return q.cq.Resize(depth) })
	return fail("resize", noAddr, noAddr, o)
}

// Moderate bounds how often Notify returns: not before count results came since the last notification, or interval passed
// since Notify had something to tell. An interval of 0, or a count of 0 or 1, ends moderation, which is how a queue begins; a
// negative interval or a count beyond the queue's depth is no limit. Polling is not affected.
//
// Errors: ErrInvalidParameterMix when neither has a limit, ErrDeviceRemoved.
func (q *CompletionQueue) Moderate(interval time.Duration, count uint32) error {
	o := q.adapter.call(func(*provider.Engine) provider.Outcome { return q.cq.Moderate(interval, count) })
	if o == provider.OutcomeSuccess {
		q.moderated.Store(true)
	}
	return fail("moderate", noAddr, noAddr, o)
}

// NotifyAffinity returns the processors on which Notify may be served, ascending: those that this process may use.
//
// Errors: ErrDeviceRemoved.
func (q *CompletionQueue) NotifyAffinity() ([]int, error) {
	if q.adapter.closed() {
		return nil, q.adapter.removed("notify affinity")
	}
	return datapath.Processors(), nil
}

package nd

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/host"
)

// Resize gives the queue room for at least depth results. It works while traffic runs, and no result is lost.
//
// Errors: ErrInvalidParameter for a depth outside 1..MaxCompletionQueueDepth, ErrBufferOverflow if more than depth results
// wait in the queue, ErrDeviceRemoved. After an error the queue is unchanged.
func (q *CompletionQueue) Resize(depth int) error {
	return q.adapter.fail("resize", noAddr, noAddr, q.cq.Resize(depth), nil)
}

// Moderate limits how often Notify returns. Notify then returns only if count results have arrived after the last
// notification, or if interval has passed since the first new result. An interval of 0, or a count of 0 or 1, ends
// moderation, which is the initial state. A negative interval, or a count beyond the queue's depth, is no limit. Polling is
// not affected.
//
// Errors: ErrInvalidParameterMix if neither value is a limit, ErrDeviceRemoved.
func (q *CompletionQueue) Moderate(interval time.Duration, count uint32) error {
	return q.adapter.fail("moderate", noAddr, noAddr, q.cq.Moderate(interval, count), nil)
}

// NotifyAffinity returns the processors on which Notify may run, in ascending order: all processors that this process may
// use.
//
// Errors: ErrDeviceRemoved.
func (q *CompletionQueue) NotifyAffinity() ([]int, error) {
	if q.adapter.closed() {
		return nil, q.adapter.removed("notify affinity")
	}
	return host.Processors(), nil
}

package nd

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/datapath"
)

// Resize gives the queue room for at least depth results, while traffic runs; no result is lost.
//
// Errors: ErrInvalidParameter for a depth outside 1..MaxCompletionQueueDepth, ErrBufferOverflow when more results than that
// wait to be fetched, ErrDeviceRemoved. The queue is unchanged then.
func (q *CompletionQueue) Resize(depth int) error {
	return q.adapter.fail("resize", noAddr, noAddr, q.cq.Resize(depth), nil)
}

// Moderate bounds how often Notify returns: not before count results came since the last notification, or interval passed
// since Notify had something to tell. An interval of 0, or a count of 0 or 1, ends moderation, which is how a queue begins; a
// negative interval or a count beyond the queue's depth is no limit. Polling is not affected.
//
// Errors: ErrInvalidParameterMix when neither has a limit, ErrDeviceRemoved.
func (q *CompletionQueue) Moderate(interval time.Duration, count uint32) error {
	return q.adapter.fail("moderate", noAddr, noAddr, q.cq.Moderate(interval, count), nil)
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

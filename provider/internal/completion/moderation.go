package completion

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/outcome"
)

// moderation delays notifications of a completion queue until enough results arrived, or enough time passed (ND specification
// section 9). It is guarded by Queue.mu.
type moderation struct {
	interval time.Duration // from the first result; negative: no limit
	count    uint32        // results that trigger a notification at once; 0: no moderation
	withheld bool          // a delayed notification is due to the waiters
	due      clock.Time    // latest time of the delayed notification; 0 before the interval runs
}

// end ends the delay. An entry for it in a reporter's list becomes void, because the next delay has its own time.
func (m *moderation) end() { m.withheld, m.due = false, 0 }

// Moderate delays notifications until there are count results, or until interval has passed since the first one. An interval of 0,
// or a count of 0 or 1, ends moderation. A negative interval or a count beyond the queue's depth means no limit. Both together fail
// with outcome.ParameterMix. A notification that is delayed at the time of the call is sent at once.
func (q *Queue) Moderate(interval time.Duration, count uint32) outcome.Outcome {
	q.mu.Lock()
	defer q.mu.Unlock()
	if interval < 0 && count > uint32(len(q.ring)) {
		return outcome.ParameterMix
	}
	if interval == 0 || count == 1 {
		count = 0
	}
	q.mod.interval, q.mod.count = interval, count
	if q.mod.withheld {
		q.notify(outcome.Success)
	}
	return outcome.Success
}

// hold reports whether to delay a notification that is due. Without an interval, a full queue ends the delay. Otherwise the count
// might not be reached before the queue overruns: it may exceed the depth of a shrunk queue, or unfetched results may take the
// room. The caller holds mu.
func (q *Queue) hold() bool {
	enough, end, room := q.mod.count, q.tail.Load(), uint32(len(q.ring))
	if q.mod.interval < 0 {
		enough = min(enough, room)
	}
	if enough == 0 || end-q.seen >= enough || q.mod.interval < 0 && end-q.head.Load() >= room {
		return false
	}
	q.mod.withheld = true
	return true
}

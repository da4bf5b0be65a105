package completion

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/outcome"
)

// moderation holds notifications of a completion queue back until enough results came, or enough time passed (ND
// specification section 9). It is guarded by Queue.mu.
type moderation struct {
	interval time.Duration // from the first result on; negative: no limit
	count    uint32        // results that notify at once; 0: no moderation
	withheld bool          // waiters are satisfied and not told yet
	due      clock.Time    // when they are told at the latest; 0 while no time runs
}

// end ends the wait for more results. An entry for it in a reporter's list is void: the next wait has its own time.
func (m *moderation) end() { m.withheld, m.due = false, 0 }

// Moderate lets a notification wait for count results, or until interval has passed since the first one. An interval of 0, or a count of 0
// or 1, ends moderation. A negative interval or a count beyond the depth is no limit; both together are outcome.ParameterMix. A
// notification that was held back before is sent now.
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

// hold says whether satisfied waiters must wait for more results. If no interval ends the wait, a full queue does. Otherwise a count beyond
// the depth of a queue that was made smaller, or a count without room because of unfetched results, would not be reached until the queue
// overran. The caller holds mu.
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

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

// end ends the wait for more results. What a reporter has on its list of it counts no more: the next wait has a time of its own.
func (m *moderation) end() { m.withheld, m.due = false, 0 }

// Moderate lets a notification wait for count results, or for interval to pass since the first one. An interval of 0, or a
// count of 0 or 1, ends moderation; a negative interval or a count beyond the depth is no limit, and not both: that is
// outcome.ParameterMix. What was held back before is told now.
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

// hold says whether waiters that are satisfied must wait for more results. Where no time ends that, a full queue does: a count beyond the depth of a queue
// that was made smaller since, or for which results that were left in the queue take the room, would be waited for until it overran. The caller holds mu.
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

package provider

import "time"

// moderation holds notifications of a completion queue back until enough results came, or enough time passed (ND
// specification section 9). It is guarded by CQ.mu.
type moderation struct {
	interval time.Duration // from the first result on; negative: no limit
	count    uint32        // results that notify at once; 0: no moderation
	withheld bool          // waiters are satisfied and not told yet
	timed    bool          // an engine has the queue on its list
}

// Moderate lets a notification wait for count results, or for interval to pass since the first one. An interval of 0, or a
// count of 0 or 1, ends moderation; a negative interval or a count beyond the depth is no limit, and not both: that is
// OutcomeParameterMix. What was held back before is told now.
func (q *CQ) Moderate(interval time.Duration, count uint32) Outcome {
	q.mu.Lock()
	defer q.mu.Unlock()
	if interval < 0 && count > uint32(len(q.ring)) {
		return OutcomeParameterMix
	}
	if interval == 0 || count == 1 {
		count = 0
	}
	q.mod.interval, q.mod.count = interval, count
	if q.mod.withheld {
		q.notify(OutcomeSuccess)
	}
	return OutcomeSuccess
}

// hold says whether waiters that are satisfied must wait for more results. The caller holds mu.
func (q *CQ) hold() bool {
	if q.mod.count == 0 || q.tail.Load()-q.seen >= q.mod.count {
		return false
	}
	q.mod.withheld = true
	return true
}

// Moderate starts the time of notifications that were held back, for the caller of Arm; the engine does it itself for results
// that it publishes.
func (e *Engine) Moderate(q *CQ) { e.results.moderate(q, e.now) }

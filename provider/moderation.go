package provider

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// moderation holds notifications of a completion queue back until enough results came, or enough time passed (ND
// specification section 9). It is guarded by CQ.mu.
type moderation struct {
	interval time.Duration // from the first result on; negative: no limit
	count    uint32        // results that notify at once; 0: no moderation
	withheld bool          // waiters are satisfied and not told yet
	timed    bool          // an engine has the queue on its list
}

// moderated is a queue whose waiters are told at the latest at a given time.
type moderated struct {
	cq *CQ
	at clock.Time
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
func (e *Engine) Moderate(q *CQ) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.mod.withheld || q.mod.timed || q.mod.interval < 0 {
		return
	}
	q.mod.timed = true
	e.moderated = append(e.moderated, moderated{q, e.now.Add(q.mod.interval)})
}

// tellModerated notifies the waiters whose time has come.
func (e *Engine) tellModerated() {
	kept := e.moderated[:0]
	for _, m := range e.moderated {
		if m.at > e.now {
			kept = append(kept, m)
			continue
		}
		m.cq.mu.Lock()
		m.cq.mod.timed = false
		if m.cq.mod.withheld {
			m.cq.notify(OutcomeSuccess)
		}
		m.cq.mu.Unlock()
	}
	clear(e.moderated[len(kept):])
	e.moderated = kept
}

// moderationDue is when tellModerated has something to do.
func (e *Engine) moderationDue() clock.Time {
	at := clock.Never
	for _, m := range e.moderated {
		at = min(at, m.at)
	}
	return at
}

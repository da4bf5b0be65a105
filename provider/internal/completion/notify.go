package completion

import "github.com/ndxdp/ndxdp/provider/internal/outcome"

// Arm adds a waiting notification and returns its id for CancelWaiter, zero when the queue is dead. It may finish at once: when the queue is dead, or
// when an unfetched result that came after the last notification satisfies it. A result that is published at any moment is
// seen either by the check here or by the publisher's, because both sides store before they load. The consumer calls it.
func (q *Queue) Arm(level NotifyLevel, fin outcome.Finish) (id uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.faulted.Load() {
		fin(q.fault)
		return 0
	}
	if uint32(level) > q.armed.Load() {
		q.armed.Store(uint32(level))
	}
	id = q.waiters.Add(fin)
	q.look()
	return id
}

// ArmOnce is Arm for callers that want one notification whatever is asked for before it comes: when one waits, only its level is raised.
func (q *Queue) ArmOnce(level NotifyLevel, fin outcome.Finish) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.faulted.Load() {
		fin(q.fault)
		return
	}
	if uint32(level) > q.armed.Load() {
		q.armed.Store(uint32(level))
	}
	if q.waiters.Len() == 0 {
		q.waiters.Add(fin)
	}
	q.look()
}

// look tells the waiters when an unfetched result that came after the last notification satisfies them. The caller holds mu.
func (q *Queue) look() {
	from, to := q.head.Load(), q.tail.Load()
	if to-q.seen < to-from { // both counted from the end: what was seen last may be more than 2^31 results ago
		from = q.seen
	}
	if q.satisfied(from, to) && !q.hold() {
		q.notify(outcome.Success)
	}
}

// CancelWaiter finishes one waiting notification with o, if it still waits.
func (q *Queue) CancelWaiter(id uint64, o outcome.Outcome) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiters.Cancel(id, o) && q.waiters.Len() == 0 {
		q.armed.Store(uint32(notifyNone))
		q.mod.end()
	}
}

// CancelWaiters finishes every waiting notification with o, oldest first. Nothing counts as seen by it.
func (q *Queue) CancelWaiters(o outcome.Outcome) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.armed.Store(uint32(notifyNone))
	q.mod.end()
	q.waiters.Finish(o)
}

// Waiting is how many notifications wait.
func (q *Queue) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiters.Len()
}

// Queued is how many results can be fetched.
func (q *Queue) Queued() int { return int(q.tail.Load() - q.head.Load()) }

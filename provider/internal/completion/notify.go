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
	q.raise(level)
	q.levels[level]++
	id = q.waiters.Add(fin)*numLevels + uint64(level)
	q.look()
	return id
}

// raise makes the queue armed for a level, too. The caller holds mu.
func (q *Queue) raise(level NotifyLevel) {
	if uint32(level) > q.armed.Load() {
		q.armed.Store(uint32(level))
	}
}

// ArmOnce is Arm for callers that want one notification whatever is asked for before it comes: when one waits, only its level is raised.
func (q *Queue) ArmOnce(level NotifyLevel, fin outcome.Finish) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.faulted.Load() {
		fin(q.fault)
		return
	}
	q.raise(level)
	if q.waiters.Len() == 0 {
		q.waiters.Add(fin)
	}
	q.look()
}

// look tells the waiters when an unfetched result that came after the last notification satisfies them. The caller holds mu.
func (q *Queue) look() {
	if q.satisfied(q.unseen()) && !q.hold() {
		q.notify(outcome.Success)
	}
}

// unseen are the unfetched results after the last notification, as the index of the first and the index behind the last. The caller holds
// mu.
func (q *Queue) unseen() (from, to uint32) {
	from, to = q.head.Load(), q.tail.Load()
	if to-q.seen < to-from { // both counted from the end: what was seen last may be more than 2^31 results ago
		from = q.seen
	}
	return from, to
}

// CancelWaiter finishes one waiting notification with o, if it still waits. Other notifications are not affected.
func (q *Queue) CancelWaiter(id uint64, o outcome.Outcome) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.waiters.Cancel(id/numLevels, o) {
		return
	}
	q.levels[id%numLevels]--
	level := NotifyAny
	for level > notifyNone && q.levels[level] == 0 {
		level--
	}
	q.armed.Store(uint32(level))
	if q.mod.withheld && !q.satisfied(q.unseen()) {
		q.mod.end()
	}
}

// CancelWaiters finishes every waiting notification with o, oldest first. Nothing counts as seen by it.
func (q *Queue) CancelWaiters(o outcome.Outcome) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.disarm()
	q.waiters.Finish(o)
}

// disarm ends what the queue was armed for: nobody waits any more. The caller holds mu.
func (q *Queue) disarm() {
	q.armed.Store(uint32(notifyNone))
	q.levels = [numLevels]uint32{}
	q.mod.end()
}

// Waiting is how many notifications wait.
func (q *Queue) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiters.Len()
}

// Queued is how many results can be fetched.
func (q *Queue) Queued() int { return int(q.tail.Load() - q.head.Load()) }

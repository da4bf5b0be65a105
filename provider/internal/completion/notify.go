package completion

import "github.com/ndxdp/ndxdp/provider/internal/outcome"

// Arm adds a notification and returns its id for CancelWaiter. On a dead queue it calls fin at once and returns zero. It also calls
// fin at once if an unfetched result that came after the last notification satisfies the level. No result is missed: Arm and the
// publisher both store before they load, so at least one of them sees the store of its counterpart. The consumer calls it.
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

// raise arms the queue for a level, unless it is armed for a higher one. The caller holds mu.
func (q *Queue) raise(level NotifyLevel) {
	if uint32(level) > q.armed.Load() {
		q.armed.Store(uint32(level))
	}
}

// ArmOnce is Arm for callers that want one notification, however often they ask before it comes. If a notification is pending,
// ArmOnce only raises its level.
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

// look notifies the waiters if an unfetched result that came after the last notification satisfies them. The caller holds mu.
func (q *Queue) look() {
	if q.satisfied(q.unseen()) && !q.hold() {
		q.notify(outcome.Success)
	}
}

// unseen returns the range of unfetched results that came after the last notification. The caller holds mu.
func (q *Queue) unseen() (from, to uint32) {
	from, to = q.head.Load(), q.tail.Load()
	if to-q.seen < to-from { // distances from the end, because seen may be more than 2^31 results old
		from = q.seen
	}
	return from, to
}

// CancelWaiter finishes one pending notification with o. Other notifications stay pending.
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

// CancelWaiters finishes all pending notifications with o, oldest first. Results do not count as seen because of it.
func (q *Queue) CancelWaiters(o outcome.Outcome) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.disarm()
	q.waiters.Finish(o)
}

// disarm clears what the queue is armed for. The caller holds mu.
func (q *Queue) disarm() {
	q.armed.Store(uint32(notifyNone))
	q.levels = [numLevels]uint32{}
	q.mod.end()
}

// Waiting returns the number of pending notifications.
func (q *Queue) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiters.Len()
}

// Queued returns the number of results to fetch.
func (q *Queue) Queued() int { return int(q.tail.Load() - q.head.Load()) }

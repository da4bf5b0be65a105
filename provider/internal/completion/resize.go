package completion

import "github.com/ndxdp/ndxdp/provider/internal/outcome"

// Resize changes the capacity to at least depth results. No result is lost. It fails with outcome.BufferOverflow if more than depth
// results wait to be fetched. If the new ring is too small for the count of Moderate, a delayed notification is sent at once. The
// caller owns all engines and is the consumer, so no other goroutine reads or writes.
func (q *Queue) Resize(depth int) outcome.Outcome {
	q.mu.Lock()
	defer q.mu.Unlock()
	head, end := q.head.Load(), q.tail.Load()+q.pending
	if int(end-head) > depth {
		return outcome.BufferOverflow
	}
	ring := NewQueue(depth).ring
	mask := uint32(len(ring) - 1)
	for i := head; i != end; i++ {
		ring[i&mask] = q.ring[i&q.mask]
	}
	q.ring, q.mask = ring, mask
	if q.mod.withheld && !q.hold() {
		q.notify(outcome.Success)
	}
	return outcome.Success
}

package completion

import "github.com/ndxdp/ndxdp/provider/internal/outcome"

// Resize gives the queue room for at least depth results, more or less than before; none is lost. It fails with
// outcome.BufferOverflow when more than depth results wait to be fetched. Notifications that were held back for more results than there is room for now
// come. The caller owns all engines and is the consumer: nobody
// else writes or reads meanwhile.
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

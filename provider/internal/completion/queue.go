package completion

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/outcome"
	"github.com/ndxdp/ndxdp/provider/internal/trace"
)

// NotifyLevel is what a notification waits for.
type NotifyLevel uint8

// The levels, lowest first: a higher one includes the lower.
const (
	notifyNone NotifyLevel = iota
	NotifyErrors
	NotifySolicited
	NotifyAny
	numLevels = iota
)

// User is a queue pair that reports to a queue.
type User interface {
	// ListedAt returns the field that holds the user's index in Queue.users. The queue reads and writes it.
	ListedAt(*Queue) *int
}

// Queue is a completion queue: a ring that engines write and one consumer at a time reads. The ring's indices are accessed without
// locks. The mutex guards only pending notifications, and is taken only if there are any.
type Queue struct {
	ring []Result
	mask uint32

	_    [64]byte
	tail atomic.Uint32 // written by the engine's owner
	// Only the engine's owner accesses these fields.
	pending uint32 // results written but not yet published
	queued  bool   // listed in Reporter.touched
	failed  bool   // the queue overran and the connections of all users were ended
	// With several engines, the holder of producing accesses the fields above.
	several   bool // several engines may write; set by the first queue pair
	producing sync.Mutex
	homes     atomic.Uint64 // bit mask of the engines that report here
	_         [64]byte
	head      atomic.Uint32 // written by the consumer
	_         [64]byte

	armed   atomic.Uint32 // a NotifyLevel; non-zero if waiters may be pending
	faulted atomic.Bool

	mu      sync.Mutex
	seen    uint32 // results before this index existed at the last notification
	waiters outcome.Waiters
	levels  [numLevels]uint32 // number of cancelable waiters of each level
	fault   outcome.Outcome
	mod     moderation
	users   []User // queue pairs that report here, in no order

	fetched trace.ResultSample
}

// NewQueue returns a completion queue with room for at least depth results.
func NewQueue(depth int) *Queue {
	size := 1
	for size < depth {
		size *= 2
	}
	q := &Queue{ring: make([]Result, size), mask: uint32(size - 1)}
	q.homes.Store(1)
	return q
}

// Join adds a user. several reports whether its adapter has more than one engine.
func (q *Queue) Join(u User, several bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if several && !q.several {
		q.several = true
	}
	*u.ListedAt(q) = len(q.users)
	q.users = append(q.users, u)
}

// Leave removes a user. The last user in the list takes its index.
func (q *Queue) Leave(u User) {
	q.mu.Lock()
	defer q.mu.Unlock()
	place, last := *u.ListedAt(q), len(q.users)-1
	moved := q.users[last]
	q.users[place] = moved
	*moved.ListedAt(q) = place
	q.users[last] = nil
	q.users = q.users[:last]
}

// Users returns the queue pairs that report here.
func (q *Queue) Users() []User {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.users)
}

// ServedBy records that an engine, named by index, reports here.
func (q *Queue) ServedBy(engine int) { q.homes.Or(1 << engine) }

// Faulted reports whether the queue overran, so that it takes no more results.
func (q *Queue) Faulted() bool { return q.faulted.Load() }

// Homes returns a bit mask of the engines that report here, which a poller runs. It always contains the first engine.
func (q *Queue) Homes() uint64 { return q.homes.Load() }

// Armed reports whether a notification is pending.
func (q *Queue) Armed() bool { return q.armed.Load() != uint32(notifyNone) }

// push writes a result, which the consumer sees after publish. It returns false if the queue overran and the result is lost. The
// engine's owner calls it.
func (q *Queue) push(r *Result) bool {
	if q.faulted.Load() {
		return false
	}
	next := q.tail.Load() + q.pending
	if next-q.head.Load() >= uint32(len(q.ring)) {
		q.setFault(outcome.BufferOverflow)
		return false
	}
	q.ring[next&q.mask] = *r
	q.pending++
	return true
}

// publish makes pushed results visible, once per batch, and sends the notifications that they satisfy. It reports whether
// notifications are delayed (Moderate).
func (q *Queue) publish() (held bool) {
	if q.pending == 0 {
		return false
	}
	from := q.tail.Load()
	to := from + q.pending
	q.pending = 0
	q.tail.Store(to)
	if q.armed.Load() == uint32(notifyNone) {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.satisfied(from, to) && !q.mod.withheld {
		return false
	}
	if held = q.hold(); !held {
		q.notify(outcome.Success)
	}
	return held
}

// satisfied reports whether a result in [from, to) satisfies the armed level (spec 9.1 rule 2). The caller holds mu.
func (q *Queue) satisfied(from, to uint32) bool {
	level := NotifyLevel(q.armed.Load())
	for i := from; i != to; i++ {
		r := &q.ring[i&q.mask]
		if level == NotifyAny || level == NotifySolicited && (r.Solicited || r.Outcome != outcome.Success) {
			return true
		}
	}
	return false
}

// notify finishes every waiter, oldest first. The caller holds mu.
func (q *Queue) notify(o outcome.Outcome) {
	q.disarm()
	q.seen = q.tail.Load()
	q.waiters.Finish(o)
}

// setFault ends the queue: pending and later notifications end with o. Queued results can still be fetched.
func (q *Queue) setFault(o outcome.Outcome) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.fault = o
	q.faulted.Store(true)
	q.notify(o)
}

// Fetch copies results to dst, oldest first, and returns their number. Only one consumer may call it at a time.
func (q *Queue) Fetch(dst []Result) int {
	head := q.head.Load()
	n := min(int(q.tail.Load()-head), len(dst))
	if n == 0 {
		return 0
	}
	for i := range n {
		dst[i] = q.ring[(head+uint32(i))&q.mask]
	}
	q.head.Store(head + uint32(n))
	q.fetched.Fetched(head + uint32(n))
	return n
}

// Empty reports whether there is nothing to fetch.
func (q *Queue) Empty() bool { return q.tail.Load() == q.head.Load() }

// Depth returns the capacity of the ring in results.
func (q *Queue) Depth() int { return len(q.ring) }

// Measure samples how long the newest result waits to be fetched. The engine's owner calls it.
func (q *Queue) Measure(source clock.Source, now clock.Time) {
	if q.several {
		q.producing.Lock()
		defer q.producing.Unlock()
	}
	q.fetched.Measure(q.tail.Load()+q.pending, source, now)
}

// FetchLatency returns the mean time that results wait to be fetched.
func (q *Queue) FetchLatency() time.Duration { return q.fetched.Mean() }

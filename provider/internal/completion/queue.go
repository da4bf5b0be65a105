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
	// ListedAt is where it keeps its place in the list of that queue; the queue's.
	ListedAt(*Queue) *int
}

// Queue is a completion queue: a ring written by the engine's owner and read by one consumer at a time. The ring's words
// are read and written without locks; the mutex guards only the waiting notifications, and is taken only when some wait.
type Queue struct {
	ring []Result
	mask uint32

	_    [64]byte
	tail atomic.Uint32 // written by the engine's owner
	// The engine's view; only its owner touches these.
	pending uint32 // results written and not yet published
	queued  bool   // in Reporter.touched
	failed  bool   // overran, and the connections of all users were ended
	// With several engines all of that belongs to the holder of producing.
	several   bool // fixed with the first queue pair
	producing sync.Mutex
	homes     atomic.Uint64 // engines that report here, by index
	_         [64]byte
	head      atomic.Uint32 // written by the consumer
	_         [64]byte

	armed   atomic.Uint32 // a NotifyLevel; non-zero means waiters may not be empty
	faulted atomic.Bool

	mu      sync.Mutex
	seen    uint32 // results before this index were there at the last notification
	waiters outcome.Waiters
	levels  [numLevels]uint32 // waiters that CancelWaiter may end, by what they wait for
	fault   outcome.Outcome
	mod     moderation
	users   []User // who reports here, in no order

	fetched trace.ResultSample
}

// NewQueue makes a completion queue of at least depth results.
func NewQueue(depth int) *Queue {
	size := 1
	for size < depth {
		size *= 2
	}
	q := &Queue{ring: make([]Result, size), mask: uint32(size - 1)}
	q.homes.Store(1)
	return q
}

// Join adds somebody who reports here. several says that its adapter has more than one engine.
func (q *Queue) Join(u User, several bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if several && !q.several {
		q.several = true
	}
	*u.ListedAt(q) = len(q.users)
	q.users = append(q.users, u)
}

// Leave takes a user out. The last one gets its place.
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

// ServedBy notes an engine that reports here from now on, by index.
func (q *Queue) ServedBy(engine int) { q.homes.Or(1 << engine) }

// Faulted says that the queue overran: it takes no result any more.
func (q *Queue) Faulted() bool { return q.faulted.Load() }

// Homes says by index which engines report here: the engines that a poller runs. The first engine always counts as one of them.
func (q *Queue) Homes() uint64 { return q.homes.Load() }

// Armed says whether somebody sleeps until a result comes.
func (q *Queue) Armed() bool { return q.armed.Load() != uint32(notifyNone) }

// push writes a result. It is visible to the consumer after publish. False means that the queue overran and the result is lost. The
// owner calls it.
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

// publish makes pushed results visible, once per batch, and finishes the notifications they satisfy. It says whether some
// are held back (Moderate).
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

// satisfied says whether a result in [from, to) satisfies the armed level (spec 9.1 rule 2). The caller holds mu.
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

// setFault kills the queue: waiting and later notifications end with o; queued results stay fetchable.
func (q *Queue) setFault(o outcome.Outcome) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.fault = o
	q.faulted.Store(true)
	q.notify(o)
}

// Fetch moves results out, oldest first, and returns how many. One consumer at a time.
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

// Empty reports that nothing is there to fetch.
func (q *Queue) Empty() bool { return q.tail.Load() == q.head.Load() }

// Depth is the number of results the ring holds.
func (q *Queue) Depth() int { return len(q.ring) }

// Watch samples how long the newest result waits to be fetched. The owner calls it.
func (q *Queue) Watch(source clock.Source, now clock.Time) {
	if q.several {
		q.producing.Lock()
		defer q.producing.Unlock()
	}
	q.fetched.Watch(q.tail.Load()+q.pending, source, now)
}

// FetchLatency is how long results wait to be fetched, on the average.
func (q *Queue) FetchLatency() time.Duration { return q.fetched.Mean() }

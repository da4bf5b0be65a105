package provider

import (
	"sync"
	"sync/atomic"

	"github.com/ndxdp/ndxdp/provider/internal/outcome"
	"github.com/ndxdp/ndxdp/provider/internal/trace"
)

// RequestKind says what a completed request was. The numbers are those of ND2_REQUEST_TYPE, which has no FastRegister.
type RequestKind uint8

// The kinds of requests.
const (
	KindReceive RequestKind = iota
	KindSend
	KindBind
	KindInvalidate
	KindRead
	KindWrite
	KindFastRegister
)

// Result is one completion.
type Result struct {
	QPContext      uint64
	RequestContext uint64
	Bytes          uint32 // of a Receive; undefined otherwise
	Immediate      uint32 // of a Receive, with HasImmediate
	Invalidated    Token  // of a Receive: the window or fast-registered region that the message invalidated; zero for none
	Outcome        Outcome
	Kind           RequestKind
	HasImmediate   bool
	solicited      bool
}

// NotifyLevel is what a notification waits for.
type NotifyLevel uint8

// The levels, lowest first: a higher one includes the lower.
const (
	notifyNone NotifyLevel = iota
	NotifyErrors
	NotifySolicited
	NotifyAny
)

// CQ is a completion queue: a ring written by the engine's owner and read by one consumer at a time. The ring's words
// are read and written without locks; the mutex guards only the waiting notifications, and is taken only when some wait.
type CQ struct {
	ring []Result
	mask uint32

	_    [64]byte
	tail atomic.Uint32 // written by the engine's owner
	// The engine's view; only its owner touches these.
	pending uint32 // results written and not yet published
	queued  bool   // in results.touched
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
	fault   Outcome
	mod     moderation
	users   []*QP // queue pairs that report here, in no order

	fetched trace.ResultSample
}

// NewCQ makes a completion queue of at least depth results.
func NewCQ(depth int) *CQ {
	size := 1
	for size < depth {
		size *= 2
	}
	q := &CQ{ring: make([]Result, size), mask: uint32(size - 1)}
	q.homes.Store(1)
	return q
}

// join adds a queue pair that reports here, and returns its place for leave. several says that its adapter has more than one
// engine.
func (q *CQ) join(qp *QP, several bool) (place int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if several && !q.several {
		q.several = true
	}
	q.users = append(q.users, qp)
	return len(q.users) - 1
}

// leave takes a queue pair out. The last one gets its place.
func (q *CQ) leave(qp *QP) {
	q.mu.Lock()
	defer q.mu.Unlock()
	place := qp.initPlace
	if qp.recvCQ == q {
		place = qp.recvPlace
	}
	last := len(q.users) - 1
	moved := q.users[last]
	q.users[place] = moved
	q.users[last] = nil
	q.users = q.users[:last]
	if moved.recvCQ == q {
		moved.recvPlace = place
	}
	if moved.initCQ == q {
		moved.initPlace = place
	}
}

// servedBy notes an engine that reports here from now on.
func (q *CQ) servedBy(e *Engine) { q.homes.Or(1 << e.index) }

// Homes says which engines report here, by index: those that a poller runs. The first one always counts as one of them.
func (q *CQ) Homes() uint64 { return q.homes.Load() }

// Armed says whether somebody sleeps until a result comes.
func (q *CQ) Armed() bool { return q.armed.Load() != uint32(notifyNone) }

// push writes a result. It is visible to the consumer after publish. False means that the queue overran and the result is lost. The
// owner calls it.
func (q *CQ) push(r *Result) bool {
	if q.faulted.Load() {
		return false
	}
	next := q.tail.Load() + q.pending
	if next-q.head.Load() >= uint32(len(q.ring)) {
		q.setFault(OutcomeBufferOverflow)
		return false
	}
	q.ring[next&q.mask] = *r
	q.pending++
	return true
}

// publish makes pushed results visible, once per batch, and finishes the notifications they satisfy. It says whether some
// are held back (Moderate).
func (q *CQ) publish() (held bool) {
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
		q.notify(OutcomeSuccess)
	}
	return held
}

// satisfied says whether a result in [from, to) satisfies the armed level (spec 9.1 rule 2). The caller holds mu.
func (q *CQ) satisfied(from, to uint32) bool {
	level := NotifyLevel(q.armed.Load())
	for i := from; i != to; i++ {
		r := &q.ring[i&q.mask]
		if level == NotifyAny || level == NotifySolicited && (r.solicited || r.Outcome != OutcomeSuccess) {
			return true
		}
	}
	return false
}

// notify finishes every waiter, oldest first. The caller holds mu.
func (q *CQ) notify(o Outcome) {
	q.armed.Store(uint32(notifyNone))
	q.mod.withheld = false
	q.seen = q.tail.Load()
	q.waiters.Finish(o)
}

// setFault kills the queue: waiting and later notifications end with o; queued results stay fetchable.
func (q *CQ) setFault(o Outcome) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.fault = o
	q.faulted.Store(true)
	q.notify(o)
}

// Fetch moves results out, oldest first, and returns how many. One consumer at a time.
func (q *CQ) Fetch(dst []Result) int {
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
func (q *CQ) Empty() bool { return q.tail.Load() == q.head.Load() }

// Depth is the number of results the ring holds.
func (q *CQ) Depth() int { return len(q.ring) }

// Arm adds a waiting notification and returns its id for CancelWaiter, zero when the queue is dead. It may finish at once: when the queue is dead, or
// when an unfetched result that came after the last notification satisfies it. A result that is published at any moment is
// seen either by the check here or by the publisher's, because both sides store before they load. The consumer calls it.
func (q *CQ) Arm(level NotifyLevel, fin Finish) (id uint64) {
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
func (q *CQ) ArmOnce(level NotifyLevel, fin Finish) {
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
func (q *CQ) look() {
	from, to := q.head.Load(), q.tail.Load()
	if int32(q.seen-from) > 0 {
		from = q.seen
	}
	if int32(to-from) > 0 && q.satisfied(from, to) && !q.hold() {
		q.notify(OutcomeSuccess)
	}
}

// CancelWaiter finishes one waiting notification with o, if it still waits.
func (q *CQ) CancelWaiter(id uint64, o Outcome) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiters.Cancel(id, o) && q.waiters.Len() == 0 {
		q.armed.Store(uint32(notifyNone))
		q.mod.withheld = false
	}
}

// CancelWaiters finishes every waiting notification with o, oldest first. Nothing counts as seen by it.
func (q *CQ) CancelWaiters(o Outcome) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.armed.Store(uint32(notifyNone))
	q.mod.withheld = false
	q.waiters.Finish(o)
}

package verbs

import (
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ndxdp/ndxdp/provider"
)

// CQ is a completion queue of which any goroutine may be the consumer, one at a time. All methods may be called from any goroutine.
type CQ struct {
	*provider.CQ
	adapter   *Adapter
	closed    atomic.Bool
	moderated atomic.Bool

	consumer sync.Mutex
	temp     [32]provider.Result // guarded by consumer
	owes     bool                // polling ended calls of others, and nobody has yielded or slept since; guarded by consumer
	vain     int                 // polls in vain since then; guarded by consumer
}

// ValidCQDepth says whether a completion queue may have so many entries.
func ValidCQDepth(depth int) bool { return depth >= 1 && depth <= MaxCQDepth }

// Init makes q a queue of an adapter, for a valid depth of results.
func (q *CQ) Init(a *Adapter, depth int) {
	q.adapter, q.CQ = a, provider.NewCQ(depth)
	a.Watch(q.CQ)
}

// Results moves up to len(results) results out of the queue, oldest first, and says how many. It runs the engines that report here when
// there are fewer. put translates some, of two slices as long as each other.
func Results[R any](q *CQ, results []R, put func([]R, []provider.Result)) int {
	q.consumer.Lock()
	n := fetch(q, results, put)
	if n < len(results) {
		q.owes = q.adapter.Poll(q.CQ) || q.owes
		n += fetch(q, results[n:], put)
	}
	yields := q.pollsInVain(n)
	q.consumer.Unlock()
	if yields {
		yield()
	}
	if n == 0 && oneProcessor {
		yieldProcessor()
	}
	return n
}

// oneProcessor says that the kernel runs this process on one processor, which nothing that a poller waits for has unless the poller gives it up: on
// this machine the peer, and the kernel's own threads. The Go runtime asks for the processors when the process begins.
var oneProcessor = runtime.NumCPU() == 1

// yieldProcessor lets another thread run that waits for the processor. The kernel returns at once when there is none. Tests replace it.
var yieldProcessor = func() {
	_, _, _ = syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0) // sched_yield(2) always succeeds
}

// spinPolls is how many polls in vain, one after another, tell a program that does nothing else from one that looks once more and then sleeps: about
// a microsecond.
const spinPolls = 16

// pollsInVain counts a poll that brought n results, and says whether the poller is to let others run. The caller holds consumer.
func (q *CQ) pollsInVain(n int) (yields bool) {
	if n > 0 || !q.owes {
		q.vain = 0
		return false
	}
	if q.vain++; q.vain < spinPolls {
		return false
	}
	q.owes, q.vain = false, 0
	return true
}

// yield lets those run whose calls ended: they would wait until the scheduler interrupts who polls, after 10 ms. Once in 61 times the scheduler takes
// first who yielded last (runtime.findRunnable), so it is asked twice.
func yield() {
	for range 2 {
		runtime.Gosched()
	}
}

func fetch[R any](q *CQ, results []R, put func([]R, []provider.Result)) int {
	total := 0
	for total < len(results) && !q.Empty() {
		n := q.Fetch(q.temp[:min(len(q.temp), len(results)-total)])
		put(results[total:total+n], q.temp[:n])
		total += n
	}
	return total
}

// Level translates the surfaces' types of notification, which are 0 for errors, 1 for any result and 2 for solicited ones and errors.
func Level[N ~uint8](what N) (level provider.NotifyLevel, ok bool) {
	levels := [...]provider.NotifyLevel{provider.NotifyErrors, provider.NotifyAny, provider.NotifySolicited}
	if int(what) >= len(levels) {
		return 0, false
	}
	return levels[what], true
}

// Arm adds a waiting notification. fin is called once: when something of the level came, when Cancel is given the id, or when the queue or the
// adapter ends. Nobody sleeps meanwhile, or Sleep.
func (q *CQ) Arm(level provider.NotifyLevel, fin provider.Finish) (id uint64) {
	q.consumer.Lock()
	q.owes = false
	id = q.CQ.Arm(level, fin)
	q.consumer.Unlock()
	q.armed()
	return id
}

// ArmOnce is Arm for those who want one notification for all that was asked for before it comes, by a callback.
func (q *CQ) ArmOnce(level provider.NotifyLevel, fin provider.Finish) {
	q.consumer.Lock()
	q.CQ.ArmOnce(level, fin)
	q.consumer.Unlock()
	if q.armed() {
		q.adapter.Release(q.CQ)
	}
}

// armed ends each arming. Whoever closes marks first and cancels then: one of the two sees the other. It says whether the notification waits, or
// has come.
func (q *CQ) armed() bool {
	switch {
	case q.adapter.Closed():
		q.CancelWaiters(provider.OutcomeDeviceRemoved)
		return false
	case q.closed.Load():
		q.CancelWaiters(provider.OutcomeCanceled)
		return false
	}
	if q.moderated.Load() {
		q.adapter.Do(func(e *provider.Engine) { e.Moderate(q.CQ) })
	}
	return true
}

// Sleep sleeps until w ended, which was armed before, and says so, or until Interrupt was called. The caller waits for the packets of the engine that
// reports to the queue. Where several do, the progress goroutines wait for theirs.
func (q *CQ) Sleep(w *provider.Wait) (ended bool) {
	homes := q.Homes()
	if homes&(homes-1) == 0 {
		w.Patient = false
		return q.adapter.Shards[bits.TrailingZeros64(homes)].Sleep(w)
	}
	q.adapter.Release(q.CQ)
	return w.Await()
}

// Resize gives the queue room for at least depth results, while traffic runs.
//
// Outcomes: OutcomeSuccess, OutcomeWrongArgument, OutcomeBufferOverflow (more results wait), OutcomeDeviceRemoved.
func (q *CQ) Resize(depth int) provider.Outcome {
	q.consumer.Lock()
	defer q.consumer.Unlock()
	return q.adapter.CallAll(func() provider.Outcome {
		if !ValidCQDepth(depth) {
			return OutcomeWrongArgument
		}
		return q.CQ.Resize(depth)
	})
}

// Moderate bounds how often notifications come (provider.CQ.Moderate).
//
// Outcomes: OutcomeSuccess, OutcomeParameterMix, OutcomeDeviceRemoved.
func (q *CQ) Moderate(interval time.Duration, count uint32) provider.Outcome {
	q.moderated.Store(true) // before it is: who arms meanwhile, and is held back, starts the time
	return q.adapter.Call(func(*provider.Engine) provider.Outcome { return q.CQ.Moderate(interval, count) })
}

// Close ends every waiting notification, and later ones at once. It says whether it is the first.
func (q *CQ) Close() (first bool) {
	if first = !q.closed.Swap(true); first {
		q.adapter.Unwatch(q.CQ)
	}
	q.CancelWaiters(provider.OutcomeCanceled)
	return first
}

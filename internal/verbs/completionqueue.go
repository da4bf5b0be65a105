package verbs

import (
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider"
)

// CQ is a completion queue. One goroutine at a time consumes its results. All methods may be called from any goroutine.
type CQ struct {
	*provider.CQ
	adapter   *Adapter
	closed    atomic.Bool
	moderated atomic.Bool

	consumer sync.Mutex
	temp     [32]provider.Result // guarded by consumer
	owes     bool                // polling ended calls of other goroutines, and the poller has not yielded or slept after that; guarded by consumer
	vain     int                 // polls without results after that; guarded by consumer
	offer    offer
}

// ValidCQDepth reports whether a completion queue may have so many entries.
func ValidCQDepth(depth int) bool { return depth >= 1 && depth <= MaxCQDepth }

// Init makes q a queue of an adapter, for a valid depth of results.
func (q *CQ) Init(a *Adapter, depth int) {
	q.adapter, q.CQ = a, provider.NewCQ(depth)
	a.Watch(q.CQ)
}

// Results moves up to len(results) results out of the queue, oldest first, and returns how many. If the queue has fewer, it polls the
// engines that report to it. put converts results; its two slices have the same length.
func Results[R any](q *CQ, results []R, put func([]R, []provider.Result)) int {
	q.consumer.Lock()
	n := fetch(q, results, put)
	if n < len(results) {
		q.owes = q.adapter.Poll(q.CQ) || q.owes
		n += fetch(q, results[n:], put)
	}
	yields, offers := q.pollsInVain(n), n == 0 && oneProcessor && q.offer.due()
	q.consumer.Unlock()
	if yields {
		yield()
	}
	if offers {
		q.offer.record(yieldProcessor())
	}
	return n
}

// oneProcessor reports whether this process runs on one processor. Everything that a poller waits for then needs the poller's
// processor: a peer on the same machine, and the kernel's threads. The Go runtime reads the number of processors when the process
// starts.
var oneProcessor = runtime.NumCPU() == 1

// yieldProcessor lets another waiting thread run, and reports whether there was one. If there is none, the kernel returns at once. Tests
// replace it.
var yieldProcessor = func() (taken bool) {
	from := clock.Machine()
	_, _, _ = syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0) // sched_yield(2) always succeeds
	return clock.Machine().Sub(from) > emptyYield
}

// emptyYield is the longest time that sched_yield(2) takes if no other thread waits for the processor. Two switches of threads, and the
// work between them, take longer.
const emptyYield = 3 * time.Microsecond

// offer decides which polls in vain offer the processor to other threads. An MPI library binds each process to a processor of its own, where
// nobody takes the processor, and each offer delays the next poll. So offers that nobody takes become rarer. A taken offer makes the next
// poll offer again.
type offer struct {
	skip atomic.Uint32 // polls in vain that keep the processor before the next offer
	next atomic.Uint32 // value of skip after the newest offer
}

// mostKept bounds the polls in vain between two offers.
const mostKept = 15

// due reports whether this poll offers the processor.
func (o *offer) due() bool {
	if n := o.skip.Load(); n > 0 {
		o.skip.Store(n - 1)
		return false
	}
	return true
}

// record notes whether another thread took the processor.
func (o *offer) record(taken bool) {
	n := uint32(0)
	if !taken {
		n = min(2*o.next.Load()+1, mostKept)
	}
	o.next.Store(n)
	o.skip.Store(n)
}

// spinPolls is the number of successive polls without results after which a program counts as spinning, rather than looking once
// more before it sleeps. They take about a microsecond.
const spinPolls = 16

// pollsInVain counts a poll that returned n results. It reports whether the poller must yield. The caller holds consumer.
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

// yield lets goroutines run whose calls ended. Otherwise they would wait until the scheduler preempts the poller, after 10 ms. Once
// in 61 times the scheduler runs the goroutine that yielded last first (runtime.findRunnable), so yield yields twice.
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

// Level converts the notification types of packages nd and ndk: 0 for errors, 1 for any result and 2 for solicited results and errors.
func Level[N ~uint8](what N) (level provider.NotifyLevel, ok bool) {
	levels := [...]provider.NotifyLevel{provider.NotifyErrors, provider.NotifyAny, provider.NotifySolicited}
	if int(what) >= len(levels) {
		return 0, false
	}
	return levels[what], true
}

// Arm adds a notification. fin is called once: for a result of the level, when Cancel is called with the id, or when the queue or
// the adapter ends. Until then, goroutines that wait for it must wait in Sleep.
func (q *CQ) Arm(level provider.NotifyLevel, fin provider.Finish) (id uint64) {
	q.consumer.Lock()
	q.owes = false
	id = q.CQ.Arm(level, fin)
	q.consumer.Unlock()
	q.armed()
	return id
}

// ArmOnce is Arm for callers that want one callback for all levels that they requested before it.
func (q *CQ) ArmOnce(level provider.NotifyLevel, fin provider.Finish) {
	q.consumer.Lock()
	q.CQ.ArmOnce(level, fin)
	q.consumer.Unlock()
	if q.armed() {
		q.adapter.Release(q.CQ)
	}
}

// armed ends each arming. It reports whether the notification is pending or has come. Close marks the queue closed before it cancels
// notifications. So either Arm sees the mark, or Close sees the notification.
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

// Sleep sleeps until w, which was armed before, has ended, or until Interrupt is called. It reports whether w has ended. The caller
// waits for the packets of the engine that reports to the queue. If several engines do, their progress goroutines wait for packets.
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

// Moderate limits how often notifications come (provider.CQ.Moderate).
//
// Outcomes: OutcomeSuccess, OutcomeParameterMix, OutcomeDeviceRemoved.
func (q *CQ) Moderate(interval time.Duration, count uint32) provider.Outcome {
	q.moderated.Store(true) // set first, because an Arm that is delayed meanwhile must start the timer
	return q.adapter.Call(func(*provider.Engine) provider.Outcome { return q.CQ.Moderate(interval, count) })
}

// Close ends every pending notification; later ones end at once. It reports whether this call was the first.
func (q *CQ) Close() (first bool) {
	if first = !q.closed.Swap(true); first {
		q.adapter.Unwatch(q.CQ)
	}
	q.CancelWaiters(provider.OutcomeCanceled)
	q.adapter.passOn()
	return first
}

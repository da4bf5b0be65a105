package watch

import (
	"sync/atomic"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/interleave"
)

// Rank is the kind of watcher. A higher rank takes the watch from a lower one.
type Rank uint8

const (
	Nobody  Rank = iota
	Shard        // the progress goroutine
	Patient      // a call that is Patient
	Call         // a call that is not Patient
)

// Rank returns the rank of the call.
func (w *Wait) Rank() Rank {
	if w.Patient {
		return Patient
	}
	return Call
}

// Watch records which goroutine is the watcher, and which calls wait to become it. The waiting calls sleep until the watcher's poll
// ends them, or until they get the watch.
type Watch struct {
	mu     interleave.Mutex
	by     Rank // guarded by mu, like the next fields
	rests  bool // the progress goroutine sleeps until there is no watcher
	queues [2]waitList

	wanted  interleave.Uint32 // highest rank of the waiting calls; 0 for none; written under mu
	byCall  atomic.Bool       // the watcher is a call, not the progress goroutine; a hint, which package interleave does not explore
	left    interleave.Bool   // there is no watcher, because an application slept and now does something else; set under mu
	visits  atomic.Int32      // polls run since the application left; a hint, which package interleave does not explore
	vacated interleave.Event  // set when the watch becomes free while the shard closes
}

func (v *Watch) queue(r Rank) *waitList { return &v.queues[r-Patient] }

// note updates wanted. The caller holds mu.
func (v *Watch) note() {
	highest := Nobody
	for r := Patient; r <= Call; r++ {
		if v.queue(r).first != nil {
			highest = r
		}
	}
	v.wanted.Store(uint32(highest))
}

// Seek makes w the watcher if there is none, and otherwise queues w. displaces means that w has a higher rank than the watcher,
// which must give up the watch.
func (v *Watch) Seek(w *Wait) (taken, displaces bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.by == Nobody {
		v.by, w.watches = w.Rank(), true
		v.byCall.Store(true)
		v.left.Store(false)
		return true, false
	}
	v.queue(w.Rank()).add(w)
	v.note()
	return false, v.by < w.Rank()
}

// Holds reports whether w is the watcher.
func (v *Watch) Holds(w *Wait) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return w.watches
}

// Begin makes the progress goroutine the watcher. It returns false if a call is the watcher; End of this call then returns rests.
func (v *Watch) Begin() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.by != Nobody {
		v.rests = true
		return false
	}
	v.by, v.rests = Shard, false
	v.left.Store(false)
	return true
}

// End removes w from the queue, or from the watch, which the next call gets. w is nil for the progress goroutine. free means that w
// was the watcher and there is none now. rests means that the progress goroutine must be woken. A call that ended does not give the
// watch to a patient call, because it usually sleeps again soon. If it does not, the progress goroutine takes over.
func (v *Watch) End(w *Wait, closing bool) (free, rests bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if w != nil {
		if w.queued {
			v.queue(w.Rank()).remove(w)
			v.note()
		}
		if !w.watches {
			return false, false
		}
		w.watches = false
	}
	lowest := Patient
	if v.by == Call {
		lowest = Call
	}
	v.by = Nobody
	if !closing && v.appoint(lowest) {
		return false, false
	}
	v.byCall.Store(false)
	if w != nil && !closing {
		v.visits.Store(0)
		v.left.Store(true)
	}
	rests, v.rests = v.rests, false
	return true, rests
}

// appoint gives the watch, which nobody has, to the first queued call of the highest rank from lowest on. It returns false if there is
// none. The caller holds mu.
func (v *Watch) appoint(lowest Rank) (given bool) {
	for r := Call; r >= lowest; r-- {
		if next := v.queue(r).first; next != nil {
			v.queue(r).remove(next)
			v.note()
			v.by, next.watches = r, true
			v.byCall.Store(true)
			next.event.Set()
			return true
		}
	}
	return false
}

// PassOn gives the watch to a patient call, if the call that had it last ended. It is called once an application has closed the queue
// that its calls waited for, because the application does not sleep there again. Packets for other calls would otherwise wait for the
// progress goroutine.
func (v *Watch) PassOn() {
	if !v.left.Load() {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.by == Nobody && v.appoint(Patient) {
		v.left.Store(false)
	}
}

// ByCall reports whether the watcher is a call of an application. The progress goroutine, in contrast, leaves the engine to pollers
// once it is woken.
func (v *Watch) ByCall() bool { return v.byCall.Load() }

// Free reports whether there is no watcher.
func (v *Watch) Free() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.by == Nobody
}

// Wanted returns the highest rank of the waiting calls.
func (v *Watch) Wanted() Rank { return Rank(v.wanted.Load()) }

// Left reports whether there is no watcher because an application that slept does something else now.
func (v *Watch) Left() bool { return v.left.Load() }

// Forsake makes Left false, so that the progress goroutine serves the engine. It reports whether Left was true.
func (v *Watch) Forsake() bool { return v.left.Load() && v.left.CompareAndSwap(true, false) }

// Vacate wakes AwaitVacated, because there is no watcher.
func (v *Watch) Vacate() { v.vacated.Set() }

// AwaitVacated waits until there is no watcher. The shard is closing.
func (v *Watch) AwaitVacated() {
	for !v.Free() {
		v.vacated.Wait()
	}
}

const (
	// mostVisits is the number of polls after which an application that slept counts as polling. An application that wakes for a
	// message, answers it and sleeps again has fewer. The requests that a polling application posts wait for its next poll or sleep
	// and leave together, instead of one packet for each request.
	mostVisits = 8
	// ComesBack is when the progress goroutine checks an application that counts as polling, in case it neither polls nor sleeps.
	// In an otherwise idle process this takes a millisecond, the resolution of the runtime's timers.
	ComesBack = 200 * time.Microsecond
)

// stays counts a poll after an application slept. It reports whether the application counts as polling from now on.
func (v *Watch) stays(by Caller) bool {
	return (by == CallerPoll || by == CallerRing) && v.visits.Add(1) == mostVisits && v.Forsake()
}

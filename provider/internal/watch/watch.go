package watch

import (
	"sync/atomic"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/interleave"
)

// Rank is who watches. A higher one takes the watch from a lower one.
type Rank uint8

const (
	Nobody  Rank = iota
	Shard        // the progress goroutine
	Patient      // a call that is Patient
	Call         // another call
)

// Rank is that of the call.
func (w *Wait) Rank() Rank {
	if w.Patient {
		return Patient
	}
	return Call
}

// Watch is who watches, and who would. With several calls the others sleep until the watcher's turn ends theirs, or until they get the watch.
type Watch struct {
	mu     interleave.Mutex
	by     Rank // guarded by mu, as what follows
	rests  bool // the progress goroutine sleeps until the watch is free
	queues [2]waitList

	wanted  interleave.Uint32 // highest rank of the calls that would watch; 0 for none. Written under mu
	byCall  atomic.Bool       // a call watches, and not the progress goroutine; a hint, and no step of an explorer
	left    interleave.Bool   // nobody watches: an application slept, and does something else now. Set under mu
	visits  atomic.Int32      // turns that were run for it since; a hint, and no step of an explorer
	vacated interleave.Event  // the watch became free while the shard closes
}

func (v *Watch) queue(r Rank) *waitList { return &v.queues[r-Patient] }

// note stores the highest rank of the calls that would watch. The caller holds mu.
func (v *Watch) note() {
	highest := Nobody
	for r := Patient; r <= Call; r++ {
		if v.queue(r).first != nil {
			highest = r
		}
	}
	v.wanted.Store(uint32(highest))
}

// Seek gives the watch to w if it is free, and lets w queue for it otherwise. It says whether the watcher has to make room.
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

// Holds says whether w has the watch.
func (v *Watch) Holds(w *Wait) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return w.watches
}

// Begin gives the watch to the progress goroutine. If a call has the watch, this call will remind the goroutine.
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

// End takes w out of the queue, or from the watch, which the next call gets. free says that w had the watch and nobody has it now; rests,
// that the progress goroutine must be reminded of it. w is nil for the progress goroutine. A call that ended does not give the watch to a
// patient call: it will usually be back soon, and otherwise the progress goroutine takes over.
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
	for r := Call; r >= lowest && !closing; r-- {
		if next := v.queue(r).first; next != nil {
			v.queue(r).remove(next)
			v.note()
			v.by, next.watches = r, true
			v.byCall.Store(true)
			next.event.Set()
			return false, false
		}
	}
	v.byCall.Store(false)
	if w != nil && !closing {
		v.visits.Store(0)
		v.left.Store(true)
	}
	rests, v.rests = v.rests, false
	return true, rests
}

// ByCall says that a call of an application watches, and not the progress goroutine, which leaves the engine to pollers once it is woken.
func (v *Watch) ByCall() bool { return v.byCall.Load() }

// Free says that nobody watches.
func (v *Watch) Free() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.by == Nobody
}

// Wanted is the highest rank of the calls that would watch.
func (v *Watch) Wanted() Rank { return Rank(v.wanted.Load()) }

// Left says that nobody watches because an application that slept does something else now.
func (v *Watch) Left() bool { return v.left.Load() }

// Forsake says that nobody counts as having left any more: somebody is to look after the engine all the same. It reports whether somebody had.
func (v *Watch) Forsake() bool { return v.left.Load() && v.left.CompareAndSwap(true, false) }

// Vacate tells AwaitVacated that the watch is free.
func (v *Watch) Vacate() { v.vacated.Set() }

// AwaitVacated waits until nobody watches, of a shard that closes.
func (v *Watch) AwaitVacated() {
	for !v.Free() {
		v.vacated.Wait()
	}
}

const (
	// mostVisits is how many polls are run for an application that slept before it counts as polling. An application that wakes for a
	// message, answers it and sleeps again has fewer. What a polling application posts waits for its next poll or sleep and leaves
	// together, instead of one packet for each request.
	mostVisits = 8
	// ComesBack is when somebody looks for one that counts as polling, and neither polls nor sleeps. In a process that does nothing else it is a millisecond: timers of the
	// runtime are not more exact then.
	ComesBack = 200 * time.Microsecond
)

// stays counts a poll for an application that slept. It returns whether the application counts as polling from now on, so that it does not
// count as gone.
func (v *Watch) stays(by Caller) bool {
	return (by == CallerPoll || by == CallerRing) && v.visits.Add(1) == mostVisits && v.Forsake()
}

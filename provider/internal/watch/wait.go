package watch

import (
	"sync/atomic"

	"github.com/ndxdp/ndxdp/provider/internal/interleave"
	"github.com/ndxdp/ndxdp/provider/internal/outcome"
)

// Wait is a call that an application sleeps in until it ends: its Finish is what the engine is given, and a shard's Sleep sleeps. It may be
// used again, by Reset, once Sleep has said that it ended. NewWait makes it.
type Wait struct {
	ended       interleave.Bool
	interrupted interleave.Bool
	outcome     outcome.Outcome // written before ended
	event       interleave.Event
	at          interleave.Pointer[Sleeper] // whose packets it waits for; nil while it does not
	beside      atomic.Pointer[Sleeper]     // whose turns may end it while it sleeps; a hint, and no step of an explorer
	ticket      atomic.Uint32               // how many calls had ended beside it, itself among them; likewise

	// Patient says that another goroutine that waits for packets may wake the call: it leaves the watch to calls that are not patient. It
	// is set before Sleep.
	Patient bool

	// Guarded by Watch.mu.
	watches, queued bool
	next, prev      *Wait
}

// NewWait makes a call that has not ended.
func NewWait() *Wait { return &Wait{event: interleave.NewEvent()} }

// Reset makes w a call that has not ended. An event that came too late for the previous call may still end the sleep of this call, but not
// the call.
func (w *Wait) Reset() {
	w.ended.Store(false)
	w.interrupted.Store(false)
}

// Finish ends the call: it is a Finish. Anyone may call it, also within a turn.
func (w *Wait) Finish(o outcome.Outcome) {
	w.outcome = o
	if s := w.beside.Swap(nil); s != nil {
		w.ticket.Store(s.told.Add(1))
	}
	w.ended.Store(true)
	w.stir()
}

// Interrupt ends the next or the current Sleep, but not the call. Any goroutine may call it.
func (w *Wait) Interrupt() {
	w.interrupted.Store(true)
	w.stir()
}

// stir makes the sleeper look. The sleeper stores where it waits before it looks, and the caller has stored its reason before. So one sees
// the other.
func (w *Wait) stir() {
	w.event.Set()
	if s := w.at.Load(); s != nil {
		s.Rouse()
	}
}

// Join says among whose sleepers the caller is.
func (w *Wait) Join(s *Sleeper) { w.beside.Store(s) }

// Leave says that it is there no more, and may let others run first, whose calls ended before its own.
func (w *Wait) Leave(s *Sleeper) {
	if w.jumps(s) {
		interleave.Gosched()
	}
}

// jumps takes in that the sleeper runs again, and reports whether it is to let others run first.
func (w *Wait) jumps(s *Sleeper) (yields bool) {
	if w.beside.Swap(nil) != nil { // the call did not end
		return false
	}
	return int32(w.ticket.Load()-s.risen.Add(1)) > 0 && s.jumps.Add(1)%mostJumps == 0
}

// mostJumps is how many calls may end before older calls that have yet to run, until one of them lets these run. The Go scheduler first
// runs the goroutine that was woken last. So two connections whose packets wake each other make all others wait, until the scheduler looks
// elsewhere, once in 61 times (runtime.findRunnable). With this value the others wait half as long, and short runs of few goroutines with
// warm caches remain. With no jumps at all, a fifth fewer calls end per second.
const mostJumps = 16

// At says where the caller waits for packets; nil while it does not.
func (w *Wait) At(s *Sleeper) { w.at.Store(s) }

// Block sleeps until something happened to the call.
func (w *Wait) Block() { w.event.Wait() }

// Outcome is how the call ended. Only after Sleep said so.
func (w *Wait) Outcome() outcome.Outcome { return w.outcome }

// Ended says that the call ended.
func (w *Wait) Ended() bool { return w.ended.Load() }

// Over says that there is nothing to sleep for.
func (w *Wait) Over() bool { return w.ended.Load() || w.interrupted.Load() }

// Await sleeps until the call ended, and says so, or Interrupt was called. Others wait for packets meanwhile.
func (w *Wait) Await() (ended bool) {
	for !w.Over() {
		w.event.Wait()
	}
	return w.Rise()
}

// Rise ends a sleep.
func (w *Wait) Rise() (ended bool) {
	w.interrupted.Store(false)
	return w.ended.Load()
}

// waitList are calls, oldest first.
type waitList struct{ first, last *Wait }

func (l *waitList) add(w *Wait) {
	w.queued, w.prev, w.next = true, l.last, nil
	if l.last == nil {
		l.first = w
	} else {
		l.last.next = w
	}
	l.last = w
}

func (l *waitList) remove(w *Wait) {
	if w.prev == nil {
		l.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		l.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.queued, w.prev, w.next = false, nil, nil
}

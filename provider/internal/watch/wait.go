package watch

import (
	"sync/atomic"

	"github.com/ndxdp/ndxdp/provider/internal/interleave"
	"github.com/ndxdp/ndxdp/provider/internal/outcome"
)

// Wait is a call in which an application sleeps until the call ends. The engine gets its Finish method; a shard's Sleep sleeps.
// After Sleep has reported the end, Reset makes it ready for another call. NewWait makes it.
type Wait struct {
	ended       interleave.Bool
	interrupted interleave.Bool
	outcome     outcome.Outcome // written before ended
	event       interleave.Event
	at          interleave.Pointer[Sleeper] // the Sleeper whose packets it waits for, or nil
	beside      atomic.Pointer[Sleeper]     // the Sleeper whose polls may end it while it sleeps; a hint, which package interleave does not explore
	ticket      atomic.Uint32               // Sleeper.told when the call ended; a hint, too

	// Patient means that another goroutine that waits for packets may wake this call: other calls get the watch first. It is set
	// before Sleep.
	Patient bool

	// Guarded by Watch.mu.
	watches, queued bool
	next, prev      *Wait
}

// NewWait returns a Wait that has not ended.
func NewWait() *Wait { return &Wait{event: interleave.NewEvent()} }

// Reset makes w ready for another call. A late event of the previous call may end the sleep of the new call, but not the call.
func (w *Wait) Reset() {
	w.ended.Store(false)
	w.interrupted.Store(false)
}

// Finish ends the call. It has the type of an outcome.Finish. Any goroutine may call it, also within a poll.
func (w *Wait) Finish(o outcome.Outcome) {
	w.outcome = o
	if s := w.beside.Swap(nil); s != nil {
		w.ticket.Store(s.told.Add(1))
	}
	w.ended.Store(true)
	w.stir()
}

// Interrupt ends the present or the next Sleep, but not the call. Any goroutine may call it.
func (w *Wait) Interrupt() {
	w.interrupted.Store(true)
	w.stir()
}

// stir wakes the sleeper. The sleeper stores where it waits before it checks for a reason to wake. The caller stores the reason
// before it calls stir. So at least one of the two sees the store of its counterpart.
func (w *Wait) stir() {
	w.event.Set()
	if s := w.at.Load(); s != nil {
		s.Rouse()
	}
}

// Join records that the caller is about to sleep at s.
func (w *Wait) Join(s *Sleeper) { w.beside.Store(s) }

// Leave ends Join. It may first let goroutines run whose calls ended earlier.
func (w *Wait) Leave(s *Sleeper) {
	if w.jumps(s) {
		interleave.Gosched()
	}
}

// jumps records that the sleeper runs again. It reports whether to let other goroutines run first.
func (w *Wait) jumps(s *Sleeper) (yields bool) {
	if w.beside.Swap(nil) != nil { // the call has not ended
		return false
	}
	return int32(w.ticket.Load()-s.risen.Add(1)) > 0 && s.jumps.Add(1)%mostJumps == 0
}

// mostJumps is the number of calls that may overtake older calls before one of them yields. The Go scheduler runs the goroutine
// that was woken last first. So two connections whose packets wake each other would make all others wait until the scheduler looks
// elsewhere, once in 61 times (runtime.findRunnable). This value halves the wait of other calls, and still lets a few goroutines
// run in short bursts with warm caches. If no call could overtake, a fifth fewer calls would end per second.
const mostJumps = 16

// At sets the Sleeper whose packets the caller waits for, or nil.
func (w *Wait) At(s *Sleeper) { w.at.Store(s) }

// Block sleeps until the call ends or is interrupted.
func (w *Wait) Block() { w.event.Wait() }

// Outcome returns how the call ended. It is valid only after the end.
func (w *Wait) Outcome() outcome.Outcome { return w.outcome }

// Ended reports whether the call has ended.
func (w *Wait) Ended() bool { return w.ended.Load() }

// Over reports whether the call has ended or was interrupted.
func (w *Wait) Over() bool { return w.ended.Load() || w.interrupted.Load() }

// Await sleeps until the call ends or is interrupted, and reports whether it ended. Another goroutine waits for packets meanwhile.
func (w *Wait) Await() (ended bool) {
	for !w.Over() {
		w.event.Wait()
	}
	return w.Rise()
}

// Rise ends a sleep and reports whether the call has ended.
func (w *Wait) Rise() (ended bool) {
	w.interrupted.Store(false)
	return w.ended.Load()
}

// waitList is a list of calls, oldest first.
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

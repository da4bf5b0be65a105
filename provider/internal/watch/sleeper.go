package watch

import (
	"sync/atomic"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/interleave"
)

// Waiter lets goroutines sleep that look after an engine. The link's other half implements it.
type Waiter interface {
	// Wait returns when Wake was called since the last Wait, when the link has packets to receive, or at a time of the shard's clock. Spurious
	// returns are fine. With spin the caller would rather lose a little processor time than a wake-up. One goroutine at a time waits.
	Wait(until clock.Time, spin bool)
	// Wake ends a Wait, now or the next one. Any goroutine may call it.
	Wake()
	// Shorten makes the Wait under way return at a time before its own, without waking anybody until then. It is a Wake where none is under way yet.
	Shorten(until clock.Time)
	// Rouse is Wake for a goroutine whose own call ended: it runs as soon as it can, where Wake lets others go on first.
	Rouse()
	// Pause is the progress goroutine's sleep while others look after the engine. It ends when d has passed; with a negative d when Remind says so.
	Pause(d time.Duration)
	// Remind ends a Pause after d: the current one, or with d = 0 also the next one. Any goroutine may call it.
	Remind(d time.Duration)
}

// Sleeper is the watcher's sleep, as all others see it.
type Sleeper struct {
	Waiter
	Watch

	asleep interleave.Bool   // it waits, or is about to; set under the shard's lock
	until  interleave.Int64  // when it means to wake, while asleep
	polls  interleave.Uint32 // moves when pollers run turns, and when sleepers leave; the progress goroutine watches it
	told   atomic.Uint32     // calls that ended while they slept; a hint, and no step of an explorer
	risen  atomic.Uint32     // how many of them have been noticed; likewise
	jumps  atomic.Uint32     // and how many before older ones; likewise
}

// Told moves when the call of a sleeper ends.
func (s *Sleeper) Told() uint32 { return s.told.Load() }

// Wake ends the sleep, if there is one: somebody stored work before. Where nobody watches, the progress goroutine is to.
func (s *Sleeper) Wake() {
	switch {
	case s.asleep.Load():
		if s.asleep.CompareAndSwap(true, false) {
			s.Waiter.Wake()
		}
	case s.Forsake():
		s.polls.Store(0)
		s.Remind(0)
	}
}

// Rouse is Wake for a watcher whose own call ended.
func (s *Sleeper) Rouse() {
	if s.asleep.CompareAndSwap(true, false) {
		s.Waiter.Rouse()
	}
}

// Polled says that somebody polled, or slept, since polls was at seen.
func (s *Sleeper) Polled(seen uint32) bool {
	polls := s.polls.Load()
	return polls != seen && polls != 0
}

// LieDown begins the sleep. The caller holds the shard's lock, so that the owner of the next poll compares its deadlines with the
// sleeper's. asleep is stored before the sleeper reads doorbells and inbox. Others store work before they read asleep. So one of the two
// sees the other.
func (s *Sleeper) LieDown(until clock.Time) {
	s.until.Store(int64(until))
	s.asleep.Store(true)
}

// Leave ends a turn that may have set deadlines or left work: the watcher, if it sleeps, must know. The caller holds the shard's lock. It costs a system call to
// move the watcher's alarm, and a change of threads to wake it.
func (s *Sleeper) Leave(busy bool, next clock.Time) {
	switch {
	case !s.asleep.Load():
	case busy:
		if s.asleep.CompareAndSwap(true, false) {
			s.Waiter.Wake()
		}
	case int64(next) < s.until.Load():
		s.until.Store(int64(next))
		s.Shorten(next)
	}
}

// NewSleeper makes one that is awake, and whose watch is free.
func NewSleeper(w Waiter) Sleeper {
	return Sleeper{Waiter: w, Watch: Watch{vacated: interleave.NewEvent()}}
}

// Asleep says that the watcher sleeps, or is about to.
func (s *Sleeper) Asleep() bool { return s.asleep.Load() }

// Until is when the watcher means to wake, while it is asleep.
func (s *Sleeper) Until() clock.Time { return clock.Time(s.until.Load()) }

// Rise ends the sleep.
func (s *Sleeper) Rise() { s.asleep.Store(false) }

// Polls moves when pollers run turns, and when sleepers leave.
func (s *Sleeper) Polls() uint32 { return s.polls.Load() }

// NotePoll says that somebody polled, or slept, and will soon again.
func (s *Sleeper) NotePoll() { s.polls.Add(1) }

// Visit takes in that a turn is run while nobody watches because an application that slept does something else. One that stays counts as polling from now on; the
// progress goroutine looks soon, in case it neither polls nor sleeps.
func (s *Sleeper) Visit(by Caller) {
	if s.stays(by) {
		s.NotePollsEnd()
		s.Remind(ComesBack)
	}
}

// NotePollsEnd says that nobody will.
func (s *Sleeper) NotePollsEnd() { s.polls.Store(0) }

package watch

import (
	"sync/atomic"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/interleave"
)

// Waiter is how goroutines sleep for an engine. Links implement it.
type Waiter interface {
	// Wait returns when Wake was called after the last Wait, when the link has packets to receive, or at time until of the shard's
	// clock. It may return earlier. spin means that the caller prefers a little processor time over the cost of a wake-up. Only one
	// goroutine waits at a time.
	Wait(until clock.Time, spin bool)
	// Wake ends the present or the next Wait. Any goroutine may call it.
	Wake()
	// Shorten makes the present Wait return at an earlier time, without waking it before. If no Wait has begun, it acts as Wake.
	Shorten(until clock.Time)
	// Rouse is Wake for a goroutine whose call ended. This goroutine runs as soon as possible; after Wake, other goroutines may run
	// first.
	Rouse()
	// Pause is the sleep of the progress goroutine while applications serve the engine. It ends after d. If d is negative, it ends
	// when Remind says so.
	Pause(d time.Duration)
	// Remind ends a Pause after d: the current one, or with d = 0 also the next one. Any goroutine may call it.
	Remind(d time.Duration)
}

// Sleeper is the state of the watcher's sleep that other goroutines see.
type Sleeper struct {
	Waiter
	Watch

	asleep interleave.Bool   // it waits or is about to wait; set under the shard's lock
	until  interleave.Int64  // planned end of the sleep, while asleep
	polls  interleave.Uint32 // changes when pollers poll and when sleepers leave; the progress goroutine reads it
	told   atomic.Uint32     // number of calls that ended while they slept; a hint, which package interleave does not explore
	risen  atomic.Uint32     // number of these calls that run again; a hint, too
	jumps  atomic.Uint32     // number of these calls that run before older ones; a hint, too
}

// Told changes whenever the call of a sleeper ends.
func (s *Sleeper) Told() uint32 { return s.told.Load() }

// Wake ends the watcher's sleep, after the caller has stored work. If there is no watcher, it wakes the progress goroutine.
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

// Rouse is Wake for a watcher whose call ended.
func (s *Sleeper) Rouse() {
	if s.asleep.CompareAndSwap(true, false) {
		s.Waiter.Rouse()
	}
}

// Polled reports whether an application polled or slept after polls had the value seen.
func (s *Sleeper) Polled(seen uint32) bool {
	polls := s.polls.Load()
	return polls != seen && polls != 0
}

// LieDown begins the sleep. The caller holds the shard's lock, so that the owner of the next poll compares its deadlines with
// until. The sleeper stores asleep before it reads doorbells and inbox. Other goroutines store work before they read asleep. So at
// least one of the two sees the store of its counterpart.
func (s *Sleeper) LieDown(until clock.Time) {
	s.until.Store(int64(until))
	s.asleep.Store(true)
}

// Leave ends a poll that may have set deadlines or left work, and tells a sleeping watcher. The caller holds the shard's lock. An
// earlier deadline costs a system call that moves the watcher's timer; waking the watcher costs a thread switch.
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

// NewSleeper returns a Sleeper that is awake and has no watcher.
func NewSleeper(w Waiter) Sleeper {
	return Sleeper{Waiter: w, Watch: Watch{vacated: interleave.NewEvent()}}
}

// Asleep reports whether the watcher sleeps or is about to.
func (s *Sleeper) Asleep() bool { return s.asleep.Load() }

// Until returns the planned end of the sleep, while the watcher is asleep.
func (s *Sleeper) Until() clock.Time { return clock.Time(s.until.Load()) }

// Rise ends the sleep.
func (s *Sleeper) Rise() { s.asleep.Store(false) }

// Polls changes when pollers poll and when sleepers leave.
func (s *Sleeper) Polls() uint32 { return s.polls.Load() }

// NotePoll records that an application polled or slept, and will do so again soon.
func (s *Sleeper) NotePoll() { s.polls.Add(1) }

// Visit records a poll while there is no watcher, because an application that slept does something else. An application that stays
// counts as polling from now on. The progress goroutine looks soon, in case the application neither polls nor sleeps.
func (s *Sleeper) Visit(by Caller) {
	if s.stays(by) {
		s.NotePollsEnd()
		s.Remind(ComesBack)
	}
}

// NotePollsEnd records that no application will poll soon.
func (s *Sleeper) NotePollsEnd() { s.polls.Store(0) }

package provider

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/interleave"
)

// Waiter lets the progress goroutine sleep. The link's other half implements it.
type Waiter interface {
	// Wait returns when Wake was called since the last Wait, after the given duration, or, with packets set, when the link
	// has packets to receive. Spurious returns are fine. A negative duration is for ever.
	Wait(d time.Duration, packets bool)
	// Wake ends a Wait, now or the next one. Any goroutine may call it.
	Wake()
}

// takeOver is how long an application may stop polling before the progress goroutine takes the engine back. It is also
// how often that goroutine looks while an application polls: often enough that nobody hangs, seldom enough to cost
// nothing (a wake-up a millisecond is below 1 % of a core).
const takeOver = time.Millisecond

// Shard owns an engine: whoever holds its lock is the owner for one turn. A polling application takes the lock when it is
// free and runs a turn itself, which is the fast path; a goroutine of the shard does the same when nobody polls, so that
// progress never depends on the application (ARCHITECTURE, ownership). Which turn somebody runs is a table (whoRuns).
type Shard struct {
	engine *Engine
	now    clock.Source
	sleeper

	mu        interleave.Mutex
	idlePolls int               // polls since the last turn; guarded by mu
	callers   interleave.Int32  // calls of Do that wait for the lock: pollers step aside
	polls     interleave.Uint32 // turns run by pollers, written under mu; the progress goroutine watches it move
	closing   interleave.Bool
	closed    bool // no turn runs any more: the link may be gone, or the engine broken; guarded by mu
	inside    bool // engine code runs, or a panic comes out of it; guarded by mu
	broke     func()
	running   interleave.WaitGroup // the progress goroutine
}

// sleeper is the progress goroutine's sleep, as all others see it.
type sleeper struct {
	waiter Waiter
	asleep interleave.Bool  // it waits, or is about to; set under the shard's lock
	until  interleave.Int64 // when it means to wake, while asleep
}

// wake ends the sleep, if there is one: somebody stored work before.
func (s *sleeper) wake() {
	if s.asleep.Load() && s.asleep.CompareAndSwap(true, false) {
		s.waiter.Wake()
	}
}

// lieDown begins the sleep. The caller holds the shard's lock, so that whoever runs the next turn compares its deadlines with ours.
// Asleep is stored before the sleeper reads doorbells and inbox, and others store work before they read asleep: one of the two sees the other.
func (s *sleeper) lieDown(until clock.Time) {
	s.until.Store(int64(until))
	s.asleep.Store(true)
}

// leave ends a turn that may have set deadlines or left work: the progress goroutine, if it sleeps, must know.
func (s *sleeper) leave(busy bool, next clock.Time) {
	if s.asleep.Load() && (busy || int64(next) < s.until.Load()) && s.asleep.CompareAndSwap(true, false) {
		s.waiter.Wake()
	}
}

// NewShard makes e run: it starts the progress goroutine. The caller gives up e.
//
// A panic inside the engine, also one of a function that was given to Do, goes to whoever ran it; in the progress goroutine it ends
// the process. Where it is recovered, nobody knows what state the engine is in: it never runs a turn again, its packets go nowhere, and
// broke is called once, with the engine locked, so it must not block. Its part is to end everything, with Do and Engine.Shutdown.
func NewShard(e *Engine, w Waiter, now clock.Source, broke func()) *Shard {
	s := &Shard{engine: e, sleeper: sleeper{waiter: w}, now: now, broke: broke}
	e.shard, e.clock, e.inbox.sleeper = s, now, &s.sleeper
	s.running.Go(s.progress)
	return s
}

// attendance is what the progress goroutine does now. It may wake at any time, and lies down under the lock alone.
func (s *sleeper) attendance() attendance {
	if s.asleep.Load() {
		return sleeps
	}
	return attends
}

// state is the attendance for the holder of the lock.
func (s *Shard) state() attendance {
	if s.closed {
		return finished
	}
	return s.attendance()
}

// turn runs the turn that is the caller's, and sees to it that the rest gets done. The caller holds the lock. qp is for a post.
func (s *Shard) turn(by caller, qp *QP) {
	now, e := s.state(), s.engine
	which := whoRuns[by][now]
	if which == noTurn {
		return
	}
	e.turns.Watch(now == sleeps)
	var busy bool
	switch t := s.now(); which {
	case wholeTurn:
		busy = e.Run(t)
	case glanceTurn:
		busy = e.Glance(t)
	case serveTurn:
		busy = e.Serve(t, qp)
	case noTurn:
	}
	if now == sleeps {
		s.leave(busy, e.NextDeadline())
	}
}

// try runs the turn that is the caller's, unless somebody else runs the engine.
func (s *Shard) try(by caller) {
	if whoRuns[by][s.attendance()] == noTurn || !s.enter() {
		return
	}
	defer s.exit()
	s.turn(by, nil)
	s.inside = false
}

// Poll runs one turn if nobody else does. It never blocks. The progress goroutine then leaves the engine to pollers for a while.
func (s *Shard) Poll() { s.poll(callerPoll) }

// Look is Poll for one who only looks in passing, while others sleep until something comes: the progress goroutine goes on.
func (s *Shard) Look() { s.poll(callerLook) }

func (s *Shard) poll(by caller) {
	if s.callers.Load() > 0 || !s.enter() {
		return
	}
	defer s.exit()
	// A poller that finds nothing is done in a few nanoseconds: reading the clock takes longer than all else, so timers are
	// looked at once in many polls.
	if s.idlePolls++; !s.closed && (s.idlePolls >= timerPolls || !s.engine.idle()) {
		s.idlePolls = 0
		if by == callerPoll {
			s.polls.Store(s.polls.Load() + 1) // the progress goroutine looks when this stands still
		}
		s.turn(by, nil)
	}
	s.inside = false
}

// timerPolls is how many polls that find nothing pass before one runs a turn for the timers: about a microsecond.
const timerPolls = 16

// Ring makes posted work move after a doorbell was rung: nothing when an application polls or a turn is under way,
// otherwise a turn here and now, on the poster's own time, which is faster than waking somebody.
func (s *Shard) Ring() { s.try(callerRing) }

// serve runs a turn for whoever has posted to qp, unless one is under way or the queue pair has moved. It reports whether it did.
func (s *Shard) serve(qp *QP) bool {
	if !s.enter() {
		return false
	}
	defer s.exit()
	ours := qp.home.Load() == s.engine && !s.closed
	if ours {
		s.turn(callerPost, qp)
	}
	s.inside = false
	return ours
}

// enter takes the engine if nobody has it. Whoever did so defers exit, and says by inside = false that it came to its end.
func (s *Shard) enter() bool {
	if !s.mu.TryLock() {
		return false
	}
	s.inside = true
	return true
}

// exit gives the engine up. Whoever rang a doorbell after the turn looked, and found the lock taken, relies on us.
func (s *Shard) exit() {
	s.unlock()
	for s.engine.inbox.rung() && s.asleep.Load() && s.enter() {
		s.turnForOthers()
	}
}

func (s *Shard) turnForOthers() {
	defer s.unlock()
	s.turn(callerLeave, nil)
	s.inside = false
}

// unlock is exit for a caller that has just looked at the doorbells.
func (s *Shard) unlock() {
	if s.inside && !s.closed {
		s.fail()
	}
	s.mu.Unlock()
}

// fail ends an engine that a panic comes out of: without, everybody else would wait for the lock for ever.
func (s *Shard) fail() {
	s.closed = true
	s.closing.Store(true)
	s.asleep.Store(false)
	s.waiter.Wake()
	s.engine.cutOff()
	s.broke()
}

// Do runs f as the owner of the engine. f must not block. After Close it still runs f, and no turn.
func (s *Shard) Do(f func(*Engine)) {
	s.callers.Add(1)
	s.mu.Lock()
	s.callers.Add(-1)
	s.inside = true
	defer s.exit()
	s.engine.now = s.now()
	if !s.closed {
		s.engine.catchUp()
	}
	s.engine.inbox.runCalls(s.engine)
	f(s.engine)
	s.turn(callerCall, nil)
	s.inside = false
}

// Release tells the shard that a poller is about to sleep: the progress goroutine takes over without waiting for its
// next look.
func (s *Shard) Release() {
	s.polls.Store(0)
	if !s.asleep.Load() {
		s.waiter.Wake()
		return
	}
	s.try(callerRelease) // it sleeps on the socket, until a deadline that polling may have left behind
}

// progress runs turns while nobody polls.
func (s *Shard) progress() {
	seen := uint32(0)
	blind := true
	for !s.closing.Load() {
		if polls := s.polls.Load(); polls != seen && polls != 0 {
			seen = polls
			s.waiter.Wait(takeOver, false)
			blind = true
			continue
		}
		seen = s.polls.Load()
		busy, next := s.advance(blind)
		blind = true
		if busy {
			continue
		}
		if !s.engine.Called() && !s.closing.Load() {
			wait := time.Duration(-1)
			if next != clock.Never {
				wait = max(next.Sub(s.now()), 0)
			}
			s.waiter.Wait(wait, true)
			blind = false
		}
		s.asleep.Store(false)
	}
}

// advance runs a turn for the progress goroutine. When that leaves nothing to do at once, the goroutine counts as asleep.
func (s *Shard) advance(blind bool) (busy bool, next clock.Time) {
	s.mu.Lock()
	s.inside = true
	defer s.unlock()
	if whoRuns[callerProgress][s.state()] == wholeTurn {
		s.engine.turns.Watch(!blind)
		busy = s.engine.Run(s.now())
		if next = s.engine.NextDeadline(); !busy {
			s.lieDown(next)
		}
	}
	s.inside = false
	return busy, next
}

// Close stops the progress goroutine and waits for it. No turn runs afterwards, so that the link can be closed.
func (s *Shard) Close() {
	if s.closing.CompareAndSwap(false, true) {
		s.waiter.Wake()
	}
	s.running.Wait()
	s.mu.Lock()
	s.inside = true
	defer s.unlock()
	if !s.closed {
		s.engine.catchUp()
	}
	s.closed = true
	s.inside = false
}

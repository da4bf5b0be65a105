package provider

import (
	"runtime"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/interleave"
	"github.com/ndxdp/ndxdp/provider/internal/watch"
)

// takeOver is how long an application may stop polling or sleeping before the progress goroutine takes the engine back. It is also how
// often this goroutine checks while an application polls. That is often enough that no peer waits, and cheap: a wake-up per millisecond
// costs below 1 % of a core.
const takeOver = time.Millisecond

// Shard owns an engine: the holder of its lock owns the engine for one poll. A polling application takes the lock if it is free and polls
// itself, which is the fast path. A sleeping application does so when packets arrive (Sleep). If neither happens, a goroutine of the shard
// does the same, so that progress never depends on the application (ARCHITECTURE, ownership). The table whoRuns says which kind of poll
// each caller runs.
type Shard struct {
	engine *Engine
	now    clock.Source
	watch.Sleeper

	mu        interleave.Mutex
	idlePolls int              // polls since the last turn; guarded by mu
	callers   interleave.Int32 // calls of Do that wait for the lock: pollers step aside
	closing   interleave.Bool
	closed    bool // no turn runs any more: the link may be gone, or the engine broken; guarded by mu
	inside    bool // engine code runs, or a panic comes out of it; guarded by mu
	alone     bool // the program has one processor
	broke     func()
	running   interleave.WaitGroup // the progress goroutine
}

// NewShard makes e run: it starts the progress goroutine. The caller gives up e.
//
// A panic inside the engine, or in a function given to Do, propagates to the goroutine that ran it; in the progress goroutine it ends the
// process. If it is recovered, the engine's state is unknown: the engine never polls again, and its packets are dropped. broke is then
// called once, with the engine locked, so it must not block. It ends everything by Do and Engine.Shutdown.
func NewShard(e *Engine, w Waiter, now clock.Source, broke func()) *Shard {
	s := &Shard{engine: e, Sleeper: watch.NewSleeper(w), now: now, broke: broke, alone: runtime.GOMAXPROCS(0) == 1}
	e.shard, e.out.Clock, e.inbox.sleeper = s, now, &s.Sleeper
	s.running.Go(s.progress)
	return s
}

// state returns the attendance for the holder of the lock.
func (s *Shard) state() watch.Attendance {
	if s.closed {
		return watch.Finished
	}
	return s.Attendance()
}

// turn runs the turn that is the caller's, and sees to it that the rest gets done. The caller holds the lock. qp is for a post.
func (s *Shard) turn(by watch.Caller, qp *QP) {
	now, e := s.state(), s.engine
	which := watch.WhoRuns[by][now]
	if which == watch.NoTurn {
		return
	}
	if now == watch.Missing {
		s.Visit(by)
	}
	e.turns.Watch(now == watch.Sleeps)
	var busy bool
	switch t := s.now(); which {
	case watch.WholeTurn:
		busy = e.Run(t)
	case watch.GlanceTurn:
		busy = e.Glance(t)
	case watch.ServeTurn:
		busy = e.Serve(t, qp)
	case watch.NoTurn:
	}
	if now == watch.Sleeps {
		for n := 0; busy && n < moreTurns && s.ByCall() && !s.alone; n++ {
			busy = e.Run(s.now())
		}
		s.Leave(busy, e.NextDeadline())
	}
}

// moreTurns is how many turns follow one that leaves work while the watcher sleeps: two where it sent, four for an acknowledgement that waits. To wake the
// watcher takes longer, but with one processor it looks for the answer then, in nobody's way (decision 6).
const moreTurns = 8

// try runs the turn that is the caller's, unless somebody else runs the engine.
func (s *Shard) try(by watch.Caller) {
	if watch.WhoRuns[by][s.Attendance()] == watch.NoTurn || !s.enter() {
		return
	}
	defer s.exit()
	s.turn(by, nil)
	s.inside = false
}

// Poll runs one turn if nobody else does. It never blocks. The progress goroutine then leaves the engine to pollers for a while. told says that the
// call of a sleeper ended meanwhile: its goroutine may need the processor.
func (s *Shard) Poll() (told bool) { return s.poll(watch.CallerPoll) }

// Look is Poll for one who only looks in passing, while others sleep until something comes: the progress goroutine goes on.
func (s *Shard) Look() (told bool) { return s.poll(watch.CallerLook) }

func (s *Shard) poll(by watch.Caller) (told bool) {
	if s.callers.Load() > 0 || !s.enter() {
		return false
	}
	defer s.exit()
	// A poller that finds nothing is done in a few nanoseconds: reading the clock takes longer than all else, so timers are
	// looked at once in many polls.
	if s.idlePolls++; !s.closed && (s.idlePolls >= timerPolls || !s.engine.idle()) {
		if by == watch.CallerPoll {
			if s.idlePolls >= timerPolls {
				s.Forsake() // who polls in vain polls again
			}
			s.NotePoll() // the progress goroutine looks when this stands still
		}
		s.idlePolls = 0
		before := s.Told()
		s.turn(by, nil)
		told = s.Told() != before
	}
	s.inside = false
	return told
}

// timerPolls is how many polls that find nothing pass before one runs a turn for the timers: about a microsecond.
const timerPolls = 16

// Ring makes posted work move after a doorbell was rung, unless an application polls or a poll is running: a poll on the poster's time is
// faster than a wake-up.
func (s *Shard) Ring() { s.try(watch.CallerRing) }

// runFor runs a turn for whoever has posted to qp, unless one is under way or the queue pair has moved. It reports whether it did.
func (s *Shard) runFor(qp *QP) bool {
	if !s.enter() {
		return false
	}
	defer s.exit()
	ours := qp.home.Load() == s.engine && !s.closed
	if ours {
		s.turn(watch.CallerPost, qp)
	}
	s.inside = false
	return ours
}

// enter takes the engine if it is free. The caller defers exit, and sets inside = false when it has finished normally.
func (s *Shard) enter() bool {
	if !s.mu.TryLock() {
		return false
	}
	s.inside = true
	return true
}

// exit gives the engine up. A goroutine that rang a doorbell after the poll had looked, and found the lock taken, relies on this check.
func (s *Shard) exit() {
	s.unlock()
	for s.engine.inbox.rung() && s.Attendance() != watch.Attends && !s.closing.Load() && s.enter() {
		s.turnForOthers()
	}
}

func (s *Shard) turnForOthers() {
	defer s.unlock()
	s.turn(watch.CallerLeave, nil)
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
	s.Rise()
	s.Waiter.Wake()
	s.Remind(0)
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
	s.turn(watch.CallerCall, nil)
	s.inside = false
}

// Release tells the shard that a poller is about to sleep until a callback: the progress goroutine takes over without waiting for its
// next look.
func (s *Shard) Release() {
	s.NotePollsEnd()
	if !s.Asleep() {
		s.Forsake()
		s.Remind(0)
		return
	}
	s.try(watch.CallerRelease) // the watcher sleeps on the socket, until a deadline that polling may have left behind
}

// progress watches while no application polls or sleeps.
func (s *Shard) progress() {
	for seen := uint32(0); !s.closing.Load(); {
		switch polls := s.Polls(); {
		case polls != seen && polls != 0:
			seen = polls
			s.Pause(takeOver)
		case s.Begin():
			seen = polls
			s.attend(nil, seen)
			s.End(nil, s.closing.Load())
		default:
			s.Pause(-1)
		}
	}
}

// advance runs a turn for the watcher. When that leaves nothing to do at once, and the watcher is not relieved, it counts as asleep.
func (s *Shard) advance(blind bool, w *Wait, seen uint32) (busy bool, next clock.Time) {
	s.mu.Lock()
	s.inside = true
	defer s.unlock()
	if watch.WhoRuns[watch.CallerWatch][s.state()] == watch.WholeTurn {
		s.engine.turns.Watch(!blind)
		busy = s.engine.Run(s.now())
		if next = s.engine.NextDeadline(); !busy && !s.relieved(w, seen) {
			s.LieDown(next)
		}
	}
	s.inside = false
	return busy, next
}

// Close stops the progress goroutine and waits for it, and for whoever watches. No turn runs afterwards, and nobody waits for packets, so that the
// link can be closed. Calls that sleep go on sleeping until somebody ends them.
func (s *Shard) Close() {
	if s.closing.CompareAndSwap(false, true) {
		s.Waiter.Wake()
		s.Remind(0)
	}
	s.running.Wait()
	s.AwaitVacated()
	s.mu.Lock()
	s.inside = true
	defer s.unlock()
	if !s.closed {
		s.engine.catchUp()
	}
	s.closed = true
	s.inside = false
}

// The code below connects a shard with package watch.

// Waiter is how goroutines sleep for an engine.
type Waiter = watch.Waiter

// Wait is a call in which an application sleeps until the call ends.
type Wait = watch.Wait

// NewWait returns a Wait that has not ended.
func NewWait() *Wait { return watch.NewWait() }

// Sleep sleeps until w ends or Interrupt is called, and reports whether w ended. Meanwhile the caller runs the engine and waits for
// its packets, unless another call of the shard does. If the shard closes, Sleep still waits until w is ended. NewShard describes a
// panic inside the engine.
func (s *Shard) Sleep(w *Wait) (ended bool) {
	if !w.Over() {
		w.Join(&s.Sleeper)
		s.sleep(w)
		w.Leave(&s.Sleeper)
	}
	return w.Rise()
}

func (s *Shard) sleep(w *Wait) {
	defer s.quit(w)
	watches, displaces := s.Seek(w)
	if displaces {
		s.Wake()
	}
	for !w.Over() {
		switch {
		case s.closing.Load():
			s.quit(w)
			w.Block()
		case watches:
			w.At(&s.Sleeper)
			s.attend(w, 0)
			w.At(nil)
			if !w.Over() && !s.closing.Load() { // a call of higher rank takes the watch
				s.quit(w)
				watches, _ = s.Seek(w)
			}
		default:
			w.Block()
			watches = s.Holds(w)
		}
	}
}

// quit gives up the watch, or leaves the queue for it. It checks for work again: a goroutine that stored work after the last poll,
// and saw a watcher, relies on it.
func (s *Shard) quit(w *Wait) {
	free, rests := s.End(w, s.closing.Load())
	if !free {
		return
	}
	s.NotePoll() // an application that slept will sleep or poll again soon
	if rests {
		s.Remind(takeOver)
	}
	if s.closing.Load() {
		s.Vacate()
		return
	}
	if s.engine.Called() {
		s.try(watch.CallerLeave)
	}
}

// relieved reports whether the watcher may stop waiting for packets: its call has ended, another goroutine waits, or applications
// have polled after seen.
func (s *Shard) relieved(w *Wait, seen uint32) bool {
	wanted := s.Wanted()
	if w != nil {
		return w.Over() || wanted > w.Rank()
	}
	return wanted > watch.Shard || s.Polled(seen)
}

// attend polls, and waits for packets when there is nothing to do, until the watcher is relieved.
func (s *Shard) attend(w *Wait, seen uint32) {
	for blind := true; !s.closing.Load() && !s.relieved(w, seen); {
		busy, next := s.advance(blind, w, seen)
		blind = true
		if busy {
			continue
		}
		if !s.engine.Called() && !s.closing.Load() && !s.relieved(w, seen) {
			s.Wait(next, w != nil)
			blind = false
		}
		s.Rise()
	}
}

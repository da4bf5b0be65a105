package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/interleave"
	"github.com/ndxdp/ndxdp/provider/internal/watch"
)

// This file is how a shard is watched (package watch).

// Waiter lets goroutines sleep that look after an engine.
type Waiter = watch.Waiter

// Wait is a call of an application that sleeps until it ends.
type Wait = watch.Wait

// NewWait makes a call that has not ended.
func NewWait() *Wait { return watch.NewWait() }

// Sleep sleeps until w ended, and says so, or until Interrupt was called. Meanwhile the caller runs the engine and waits for its packets,
// unless another call of the shard does. When the shard closes, it sleeps on until somebody ends w. A panic inside the engine is as in NewShard.
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
			if !w.Over() && !s.closing.Load() { // somebody else wants it more
				s.quit(w)
				watches, _ = s.Seek(w)
			}
		default:
			w.Block()
			watches = s.Holds(w)
		}
	}
}

// quit ends the watch, or the wish to watch. A goroutine that left work after the last poll had looked, and saw a watcher, relies on this
// check.
func (s *Shard) quit(w *Wait) {
	free, rests := s.End(w, s.closing.Load())
	if !free {
		return
	}
	s.NotePoll() // whoever slept will be back soon, like one who polls
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

// relieved reports whether the watcher may stop waiting for packets: its call is over, other goroutines do it, or an application has polled
// more than seen times.
func (s *Shard) relieved(w *Wait, seen uint32) bool {
	wanted := s.Wanted()
	if w != nil {
		return w.Over() || wanted > w.Rank()
	}
	return wanted > watch.Shard || s.Polled(seen)
}

// attend runs turns, and waits for packets when there is nothing to do, until the watcher is relieved.
func (s *Shard) attend(w *Wait, seen uint32) {
	for blind := true; !s.closing.Load() && !s.relieved(w, seen); {
		busy, yields, next := s.advance(blind, w, seen)
		blind = true
		if busy {
			continue
		}
		if !s.engine.Called() && !s.closing.Load() && !s.relieved(w, seen) {
			if yields {
				interleave.Gosched()
			}
			s.Wait(next, w != nil)
			blind = false
		}
		s.Rise()
	}
}

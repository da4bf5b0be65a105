package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/interleave"
	"github.com/ndxdp/ndxdp/provider/internal/watch"
)

// This file connects a shard with package watch.

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

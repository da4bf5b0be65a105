package ndnet

import (
	"context"
	"sync"
	"time"
)

// bell is the context of a connection's sleep in its completion queue. ring ends the sleep; reset prepares the bell for the next one. A
// context of package context ends only once and calls back in a new goroutine, which would delay a Read whose deadline passes.
type bell struct {
	done chan struct{} // never closed: heard reports the ring to the sleeper
	stop func() bool   // removes heard; made once

	mu    sync.Mutex
	rung  bool
	heard func() // nil while no sleeper is registered
}

func newBell() *bell {
	b := &bell{done: make(chan struct{})}
	b.stop = b.forget
	return b
}

// ring ends the current sleep, or the next one.
func (b *bell) ring() {
	b.mu.Lock()
	b.rung = true
	heard := b.heard
	b.mu.Unlock()
	if heard != nil { // called without mu: it takes a lock under which the bell is used
		heard()
	}
}

// reset is called before a sleep by a goroutine that has checked why the bell was rung.
func (b *bell) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rung = false
}

// AfterFunc lets package nd register its callback. One sleep at a time uses it.
func (b *bell) AfterFunc(f func()) (stop func() bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.heard = f
	return b.stop
}

func (b *bell) forget() (stopped bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.heard = nil
	return !b.rung
}

// Err implements context.Context.
func (b *bell) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung {
		return context.Canceled
	}
	return nil
}

// Done implements context.Context.
func (b *bell) Done() <-chan struct{} { return b.done }

// Deadline implements context.Context.
func (*bell) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value implements context.Context.
func (*bell) Value(any) any { return nil }

package ndnet

import (
	"context"
	"sync"
	"time"
)

// bell is the context of a connection's sleep in its completion queue. It ends the sleep when it is rung, and serves the next one after reset. A context of
// package context ends once and tells of it in a goroutine, which is one goroutine more between a deadline and the Read that it ends.
type bell struct {
	done chan struct{} // never closed: who sleeps is told by heard
	stop func() bool   // forget, made once

	mu    sync.Mutex
	rung  bool
	heard func() // nil while nobody is to be told
}

func newBell() *bell {
	b := &bell{done: make(chan struct{})}
	b.stop = b.forget
	return b
}

// ring ends the sleep under way, or the next one.
func (b *bell) ring() {
	b.mu.Lock()
	b.rung = true
	heard := b.heard
	b.mu.Unlock()
	if heard != nil { // it takes a lock under which the bell is asked
		heard()
	}
}

// reset is for who is about to sleep, and has looked why it was rung.
func (b *bell) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rung = false
}

// AfterFunc is how package nd asks to be told. One sleep at a time does.
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

//go:build !interleave

package interleave

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Exploring reports whether operations are steps.
const Exploring = false

// The types of sync and sync/atomic.
type (
	Mutex          = sync.Mutex
	WaitGroup      = sync.WaitGroup
	Bool           = atomic.Bool
	Int32          = atomic.Int32
	Int64          = atomic.Int64
	Uint32         = atomic.Uint32
	Pointer[T any] = atomic.Pointer[T]
)

// Gosched is runtime.Gosched.
func Gosched() { runtime.Gosched() }

// Event wakes the one goroutine that waits for it.
type Event struct{ c chan struct{} }

// NewEvent makes an event that is not set.
func NewEvent() Event { return Event{make(chan struct{}, 1)} }

// Set ends the present or the next Wait. Setting twice has the effect of setting once.
func (e *Event) Set() {
	select {
	case e.c <- struct{}{}:
	default:
	}
}

// Wait waits until the event is set, and clears it.
func (e *Event) Wait() { <-e.c }

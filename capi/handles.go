//go:build cgo

package main

// #include <stdint.h>
import "C"

import (
	"sync"
	"sync/atomic"

	"github.com/ndxdp/ndxdp/internal/stackroom"
)

// kind is a kind of object. The highest byte of a handle names it, so that a handle of another kind is refused.
type kind uint8

const (
	kindAdapter kind = 1 + iota
	kindMemory
	kindEvents
	kindCQ
	kindQP
	kindSRQ
	kindListener
	kindConnector
)

const (
	chunkLen   = 1 << 10
	maxChunks  = 1 << 10
	maxHandles = chunkLen * maxChunks // of one kind, over all adapters
)

// entry is an object with its handle.
type entry[T any] struct {
	handle uint64
	object T
}

// chunk is a part of a table, which is made when the first object needs it.
type chunk[T any] [chunkLen]atomic.Pointer[entry[T]]

// table finds the objects of one kind by their handles. A handle has the kind in its highest byte, a generation in the next three bytes,
// and the slot below. Lookups take no lock.
type table[T any] struct {
	kind   kind
	chunks [maxChunks]atomic.Pointer[chunk[T]]

	mu   sync.Mutex
	free []uint64 // handles to give next; guarded by mu
	used uint32   // slots that ever had a handle; guarded by mu
}

// put adds an object. It returns 0 if there are maxHandles of its kind.
func (t *table[T]) put(object T) (handle uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.free); n > 0 {
		handle = t.free[n-1]
		t.free = t.free[:n-1]
	} else {
		if t.used == maxHandles {
			return 0
		}
		handle = uint64(t.kind)<<56 | uint64(t.used)
		if t.used%chunkLen == 0 {
			t.chunks[t.used/chunkLen].Store(new(chunk[T]))
		}
		t.used++
	}
	t.slot(handle).Store(&entry[T]{handle, object})
	return handle
}

// slot returns the place of a handle, or nil if no handle ever had it.
func (t *table[T]) slot(handle uint64) *atomic.Pointer[entry[T]] {
	i := uint32(handle)
	if i >= maxHandles {
		return nil
	}
	c := t.chunks[i/chunkLen].Load()
	if c == nil {
		return nil
	}
	return &c[i%chunkLen]
}

// get returns the object of a handle. All calls on objects begin with it, so it also makes room for signal handlers.
func (t *table[T]) get(handle C.uint64_t) (object T, ok bool) {
	stackroom.Reserve()
	s := t.slot(uint64(handle))
	if s == nil {
		return object, false
	}
	e := s.Load()
	if e == nil || e.handle != uint64(handle) {
		return object, false
	}
	return e.object, true
}

// generation is 1 in the bytes of a handle that tell its generations apart.
const generation = 1 << 32

// take removes an object. Of several callers, a single one gets it, and closes it.
func (t *table[T]) take(handle C.uint64_t) (object T, ok bool) {
	stackroom.Reserve()
	s := t.slot(uint64(handle))
	if s == nil {
		return object, false
	}
	e := s.Load()
	if e == nil || e.handle != uint64(handle) || !s.CompareAndSwap(e, nil) {
		return object, false
	}
	next := uint64(t.kind)<<56 | (uint64(handle)+generation)&(1<<56-1)
	t.mu.Lock()
	t.free = append(t.free, next)
	t.mu.Unlock()
	return e.object, true
}

// The tables.
var (
	adapters   = table[*adapter]{kind: kindAdapter}
	memories   = table[*region]{kind: kindMemory}
	queues     = table[*eventQueue]{kind: kindEvents}
	cqs        = table[*completionQueue]{kind: kindCQ}
	qps        = table[*queuePair]{kind: kindQP}
	srqs       = table[*sharedQueue]{kind: kindSRQ}
	listeners  = table[*listener]{kind: kindListener}
	connectors = table[*connector]{kind: kindConnector}
)

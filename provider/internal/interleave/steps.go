//go:build interleave

package interleave

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// Exploring reports whether operations are steps.
const Exploring = true

// variable is the explorer's view of a variable.
type variable struct{ written uint64 } // history of the last writer when it wrote

// Mutex is a sync.Mutex.
type Mutex struct {
	mu    sync.Mutex
	held  bool
	owner *thread
	v     variable
}

// Mine reports whether the current goroutine has locked m.
func (m *Mutex) Mine() bool { return m.held && m.owner == active.current }

func (m *Mutex) locked() {
	m.held, m.owner = true, nil
	if active != nil {
		m.owner = active.current
	}
}

// Lock locks m.
func (m *Mutex) Lock() {
	if step(func() bool { return !m.held }) {
		m.v.wrote()
	}
	m.mu.Lock()
	m.locked()
}

// TryLock locks m unless it is locked.
func (m *Mutex) TryLock() bool {
	exploring := step(nil)
	ok := m.mu.TryLock()
	if ok {
		m.locked()
	}
	if exploring {
		m.v.touched(ok)
	}
	return ok
}

// Unlock unlocks m.
func (m *Mutex) Unlock() {
	if step(nil) {
		m.v.wrote()
	}
	m.held = false
	m.mu.Unlock()
}

// WaitGroup is a sync.WaitGroup.
type WaitGroup struct {
	wg sync.WaitGroup
	n  int
	v  variable
}

// Go runs f in a goroutine of the group.
func (g *WaitGroup) Go(f func()) {
	if active == nil {
		g.wg.Go(f)
		return
	}
	g.n++
	active.add(fmt.Sprintf("progress %d", len(active.threads)), func() {
		f()
		g.v.write()
		g.n--
	}).served = true
}

// Wait waits for all of them.
func (g *WaitGroup) Wait() {
	if step(func() bool { return g.n == 0 }) {
		g.v.wrote()
	}
	g.wg.Wait()
}

// Bool is an atomic.Bool.
type Bool struct {
	a atomic.Bool
	v variable
}

// Load reads it.
func (b *Bool) Load() bool {
	b.v.read()
	return b.a.Load()
}

// Store writes it.
func (b *Bool) Store(x bool) {
	b.v.write()
	b.a.Store(x)
}

// Swap writes it and returns what it was.
func (b *Bool) Swap(x bool) bool {
	b.v.write()
	return b.a.Swap(x)
}

// CompareAndSwap writes it if it is old.
func (b *Bool) CompareAndSwap(old, x bool) bool {
	exploring := step(nil)
	ok := b.a.CompareAndSwap(old, x)
	if exploring {
		b.v.touched(ok)
	}
	return ok
}

// Int32 is an atomic.Int32.
type Int32 struct {
	a atomic.Int32
	v variable
}

// Load reads it.
func (i *Int32) Load() int32 {
	i.v.read()
	return i.a.Load()
}

// Add adds to it.
func (i *Int32) Add(d int32) int32 {
	i.v.write()
	return i.a.Add(d)
}

// Int64 is an atomic.Int64.
type Int64 struct {
	a atomic.Int64
	v variable
}

// Load reads it.
func (i *Int64) Load() int64 {
	i.v.read()
	return i.a.Load()
}

// Store writes it.
func (i *Int64) Store(x int64) {
	i.v.write()
	i.a.Store(x)
}

// Uint32 is an atomic.Uint32.
type Uint32 struct {
	a atomic.Uint32
	v variable
}

// Load reads it.
func (i *Uint32) Load() uint32 {
	i.v.read()
	return i.a.Load()
}

// Store writes it.
func (i *Uint32) Store(x uint32) {
	i.v.write()
	i.a.Store(x)
}

// Add adds to it.
func (i *Uint32) Add(d uint32) uint32 {
	i.v.write()
	return i.a.Add(d)
}

// Pointer is an atomic.Pointer.
type Pointer[T any] struct {
	a atomic.Pointer[T]
	v variable
}

// Load reads it.
func (p *Pointer[T]) Load() *T {
	p.v.read()
	return p.a.Load()
}

// Store writes it.
func (p *Pointer[T]) Store(x *T) {
	p.v.write()
	p.a.Store(x)
}

// Swap writes it and returns what it was.
func (p *Pointer[T]) Swap(x *T) *T {
	p.v.write()
	return p.a.Swap(x)
}

// CompareAndSwap writes it if it is old.
func (p *Pointer[T]) CompareAndSwap(old, x *T) bool {
	exploring := step(nil)
	ok := p.a.CompareAndSwap(old, x)
	if exploring {
		p.v.touched(ok)
	}
	return ok
}

// Gosched lets other goroutines go first: the explorer runs the caller again only after another goroutine has taken a step.
func Gosched() {
	if active == nil {
		runtime.Gosched()
		return
	}
	active.yield()
}

// Event wakes the one goroutine that waits for it.
type Event struct {
	set bool
	v   variable
}

// NewEvent makes an event that is not set.
func NewEvent() Event { return Event{} }

// Set ends the present or the next Wait.
func (e *Event) Set() {
	e.v.write()
	e.set = true
}

// Wait waits until the event is set, and clears it.
func (e *Event) Wait() {
	if step(func() bool { return e.set }) {
		e.v.wrote()
	}
	e.set = false
}

package ndk

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// Completion is called when a request finishes that returned StatusPending: exactly once, and never otherwise.
type Completion func(context any, status Status)

// CreateCompletion delivers an object whose creation returned StatusPending, or tells why there is none.
type CreateCompletion[T any] func(context any, status Status, object T)

// CloseCompletion is called when a Close finishes that returned StatusPending. It is the last callback of the object.
type CloseCompletion func(context any)

// object is what all objects have: a count of what must be over before it is closed. That is the object itself, each callback
// that is pending or runs, and each successor, until that is closed and its close callback has returned (ND specification 3.2).
type object struct {
	adapter *Adapter
	kind    verbs.ObjectKind
	parents []*object // antecedents from creation on

	mu      sync.Mutex
	refs    int             // guarded by mu
	closing atomic.Bool     // set with mu held
	over    bool            // refs were 0 once, and are of no meaning since; guarded by mu
	others  []*object       // antecedents that came later; guarded by mu
	done    CloseCompletion // guarded by mu
	context any             // guarded by mu
}

// init makes a new object the successor of its parents, which the caller knows not to be closed.
func (o *object) init(a *Adapter, kind verbs.ObjectKind, parents ...*object) {
	o.adapter, o.kind, o.parents, o.refs = a, kind, parents, 1
	for _, p := range parents {
		p.hold()
	}
}

func (o *object) hold() {
	o.mu.Lock()
	o.refs++
	o.mu.Unlock()
}

// drop undoes hold. The last one ends a Close that waits: soon, on the callback goroutine.
func (o *object) drop() {
	o.mu.Lock()
	last := o.release()
	o.mu.Unlock()
	if !last {
		return
	}
	o.adapter.calls.push(func() {
		if o.done != nil {
			o.done(o.context)
		}
		o.end()
	})
}

// release decrements the count and reports whether that ended the object. Using an ended object must not affect others. The caller
// holds mu.
func (o *object) release() bool {
	o.refs--
	last := o.refs == 0 && !o.over
	o.over = o.over || last
	return last
}

// follow makes p an antecedent, too, until the object is closed.
func (o *object) follow(p *object) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if slices.Contains(o.others, p) {
		return
	}
	p.hold()
	o.others = append(o.others, p)
}

// end lets the antecedents go.
func (o *object) end() {
	if o == &o.adapter.root {
		return
	}
	o.adapter.closing[o.kind].Add(-1)
	o.adapter.verbs.Objects.Give(o.kind)
	for _, p := range append(o.parents, o.others...) {
		p.drop()
	}
}

// ending says that Close was called: events are not told any more, and new requests may not name the object.
func (o *object) ending() bool { return o.closing.Load() }

// close ends an object: cancel ends what it does, and the rest follows when nothing is pending any more. A second call does
// nothing.
func (o *object) close(cancel func(), done CloseCompletion, context any) Status {
	o.mu.Lock()
	if o.closing.Load() {
		o.mu.Unlock()
		return StatusSuccess
	}
	o.closing.Store(true)
	o.adapter.closing[o.kind].Add(1)
	o.done, o.context = done, context
	o.mu.Unlock()
	cancel()
	o.mu.Lock()
	last := o.release()
	o.mu.Unlock()
	if !last {
		return StatusPending
	}
	o.end()
	return StatusSuccess
}

// later runs f on the callback goroutine, and keeps the object until it has returned.
func (o *object) later(f func()) {
	o.hold()
	o.adapter.calls.push(func() {
		f()
		o.drop()
	})
}

// request starts what finishes later: start is given the finish that leads to done, and is the last to touch anything when it
// succeeds.
func (o *object) request(done Completion, context any, start func(provider.Finish) provider.Outcome) Status {
	if done == nil {
		return o.adapter.unless(StatusInvalidParameter)
	}
	o.hold()
	if out := start(func(out provider.Outcome) {
		o.adapter.calls.push(func() {
			done(context, statusTable[out])
			o.drop()
		})
	}); out != provider.OutcomeSuccess {
		o.drop()
		return statusTable[out]
	}
	return StatusPending
}

// perform does what needs no peer: here and now without a completion callback, on the callback goroutine with one.
func (o *object) perform(done Completion, context any, work func() Status) Status {
	if done == nil {
		return work()
	}
	o.later(func() { done(context, work()) })
	return StatusPending
}

// create is perform for objects; parent is the one that makes them.
func create[T any](parent *object, kind verbs.ObjectKind, done CreateCompletion[*T], context any, make func() (*T, Status)) (*T, Status) {
	counted := func() (*T, Status) {
		a := parent.adapter
		if o := a.verbs.Create(kind); o != provider.OutcomeSuccess {
			return nil, statusTable[o]
		}
		made, s := make()
		if s != StatusSuccess {
			a.verbs.Objects.Give(kind)
		}
		return made, s
	}
	if done == nil {
		return counted()
	}
	parent.later(func() {
		made, s := counted()
		done(context, s, made)
	})
	return nil, StatusPending
}

package ndk

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// Completion is called exactly once when a request finishes that returned StatusPending. It is not called for a request that
// returned another status.
type Completion func(context any, status Status)

// CreateCompletion delivers an object whose creation returned StatusPending, or the status of a creation that failed.
type CreateCompletion[T any] func(context any, status Status, object T)

// CloseCompletion is called when a Close finishes that returned StatusPending. It is the last callback of the object.
type CloseCompletion func(context any)

// object is the common part of all objects. It counts everything that must end before the object is closed (ND specification 3.2):
// the object itself and each pending or running callback. It also counts each successor until the successor is closed and its close
// callback has returned.
type object struct {
	adapter *Adapter
	kind    verbs.ObjectKind
	parents []*object // antecedents from creation

	mu      sync.Mutex
	refs    int             // guarded by mu
	closing atomic.Bool     // set with mu held
	over    bool            // refs has reached 0 and is not used any more; guarded by mu
	others  []*object       // antecedents added later; guarded by mu
	done    CloseCompletion // guarded by mu
	context any             // guarded by mu
}

// init makes a new object a successor of its parents. The caller knows that the parents are not closed.
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

// drop undoes hold. The last drop ends a waiting Close, soon, on the callback goroutine.
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

// end drops the antecedents.
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

// ending reports whether Close was called. From then on events are not reported, and new requests may not name the object.
func (o *object) ending() bool { return o.closing.Load() }

// close ends an object: cancel cancels its requests, and the rest follows when nothing is pending. A second call does nothing.
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

// later runs f on the callback goroutine, and keeps the object until f has returned.
func (o *object) later(f func()) {
	o.hold()
	o.adapter.calls.push(func() {
		f()
		o.drop()
	})
}

// request starts a request that finishes later. start gets the finish that leads to done. If start succeeds, nothing touches the
// request afterwards.
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

// perform does work that needs no peer: immediately without a completion callback, on the callback goroutine with one.
func (o *object) perform(done Completion, context any, work func() Status) Status {
	if done == nil {
		return work()
	}
	o.later(func() { done(context, work()) })
	return StatusPending
}

// create is perform for the creation of objects by parent.
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

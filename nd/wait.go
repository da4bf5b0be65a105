package nd

import (
	"context"
	"sync"

	"github.com/ndxdp/ndxdp/provider"
)

// call is a call that waits. They are pooled, so that waiting allocates nothing.
type call struct {
	*provider.Wait
	fin provider.Finish
}

var calls = sync.Pool{New: func() any {
	w := provider.NewWait()
	return &call{w, w.Finish}
}}

// newCall takes one out of the pool.
func newCall() *call {
	c, ok := calls.Get().(*call)
	if !ok {
		panic("nd: the pool of calls has something else")
	}
	c.Reset()
	return c
}

// sleep waits for the outcome of a pending request, by one of the sleeps of package verbs. When ctx ends first, cancel ends the request, and the
// outcome it then has is returned: the request may have finished on its own before.
func (c *call) sleep(ctx context.Context, g *canceler, sleep func(*provider.Wait) bool, cancel func()) (o provider.Outcome, cause error) {
	stop := g.begin(ctx, c.Wait)
	canceled := false
	for !sleep(c.Wait) {
		if ctx.Err() != nil && !canceled {
			canceled = true
			cancel()
		}
	}
	o = c.Outcome()
	g.finish(c.Wait, stop, o != provider.OutcomeSuccess)
	if o == provider.OutcomeCanceled && canceled {
		cause = context.Cause(ctx)
	}
	return o, cause
}

// canceler interrupts sleeps when their contexts end. It keeps the registration with the context of the last sleep, because a program that sleeps
// again mostly has the same one, and to register anew takes longer than to sleep. The zero canceler is ready.
type canceler struct {
	mu      sync.Mutex
	call    func()          // interrupt, made once
	done    <-chan struct{} // of the context that it is registered with
	stop    func() bool
	sleeper *provider.Wait // whose sleep ends with that context; nil for none
	closed  bool           // it keeps no registration any more
}

// begin makes w be interrupted when ctx ends, until finish is given w and stop.
func (g *canceler) begin(ctx context.Context, w *provider.Wait) (stop func() bool) {
	done := ctx.Done()
	if done == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sleeper != nil || g.closed { // by another call, with whatever context
		return afterFunc(ctx, w.Interrupt)
	}
	if g.done != done {
		g.drop()
		if g.call == nil {
			g.call = g.interrupt
		}
		g.done, g.stop = done, afterFunc(ctx, g.call)
	}
	g.sleeper = w
	if ctx.Err() != nil {
		w.Interrupt() // the registration may be used up
	}
	return nil
}

// afterFunc is context.AfterFunc without a goroutine for contexts that call functions themselves: f does not block.
func afterFunc(ctx context.Context, f func()) (stop func() bool) {
	if c, ok := ctx.(interface{ AfterFunc(f func()) func() bool }); ok {
		return c.AfterFunc(f)
	}
	return context.AfterFunc(ctx, f)
}

// finish ends begin. last says that no other sleep is likely to follow.
func (g *canceler) finish(w *provider.Wait, stop func() bool, last bool) {
	if stop != nil {
		stop()
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sleeper == w {
		g.sleeper = nil
		if last || g.closed {
			g.drop()
		}
	}
}

// drop gives the registration up. The caller holds mu.
func (g *canceler) drop() {
	if g.stop != nil {
		g.stop()
	}
	g.done, g.stop = nil, nil
}

// close makes g keep no registration.
func (g *canceler) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed = true; g.sleeper == nil {
		g.drop()
	}
}

func (g *canceler) interrupt() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sleeper != nil {
		g.sleeper.Interrupt()
	}
}

// sleep is call.sleep for calls that are few, on whatever object of the adapter.
func (a *Adapter) sleep(ctx context.Context, w *call, cancel func()) (o provider.Outcome, cause error) {
	g := &canceler{}
	defer g.close() // a registration that stays costs memory for as long as ctx lives
	return w.sleep(ctx, g, a.verbs.Sleep, cancel)
}

package nd

import (
	"context"
	"sync"

	"github.com/ndxdp/ndxdp/provider"
)

// call is a waiting call. Calls are pooled, so that waiting does not allocate.
type call struct {
	*provider.Wait
	fin provider.Finish
}

var calls = sync.Pool{New: func() any {
	w := provider.NewWait()
	return &call{w, w.Finish}
}}

// newCall takes a call out of the pool.
func newCall() *call {
	c, ok := calls.Get().(*call)
	if !ok {
		panic("nd: the pool of calls has something else")
	}
	c.Reset()
	return c
}

// sleep waits for the outcome of a pending request, by one of the sleeps of package verbs. If ctx ends first, it calls cancel and returns
// the outcome that the request then has: the request may have finished before it was canceled.
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

// canceler interrupts sleeps when their contexts end. It stays registered with the context of the last sleep, because the next sleep
// usually has the same context, and registering anew takes longer than sleeping. The zero canceler is ready.
type canceler struct {
	mu      sync.Mutex
	call    func()          // interrupts the sleeper; made once
	done    <-chan struct{} // Done channel of the registered context
	stop    func() bool
	sleeper *provider.Wait // sleep that ends with this context; nil for none
	closed  bool           // set when it must not stay registered
}

// begin registers w to be interrupted when ctx ends, until finish is called with w and stop.
func (g *canceler) begin(ctx context.Context, w *provider.Wait) (stop func() bool) {
	done := ctx.Done()
	if done == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sleeper != nil || g.closed { // in use by a concurrent call
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
		w.Interrupt() // the registered function may have run already
	}
	return nil
}

// afterFunc is context.AfterFunc without a goroutine, for contexts that call functions themselves. f must not block.
func afterFunc(ctx context.Context, f func()) (stop func() bool) {
	if c, ok := ctx.(interface{ AfterFunc(f func()) func() bool }); ok {
		return c.AfterFunc(f)
	}
	return context.AfterFunc(ctx, f)
}

// finish ends begin. last says that another sleep is unlikely to follow.
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

// drop ends the registration. The caller holds mu.
func (g *canceler) drop() {
	if g.stop != nil {
		g.stop()
	}
	g.done, g.stop = nil, nil
}

// close makes g drop its registration, now or when the sleep ends.
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

// sleep is call.sleep for infrequent calls, on any object of the adapter.
func (a *Adapter) sleep(ctx context.Context, w *call, cancel func()) (o provider.Outcome, cause error) {
	g := &canceler{}
	defer g.close() // otherwise the registration would use memory until ctx ends
	return w.sleep(ctx, g, a.verbs.Sleep, cancel)
}

package nd

import (
	"context"
	"slices"
	"sync"
)

// handoff passes items to waiting goroutines, oldest item first. The results of an endpoint's queue, the messages that it received
// and its free buffers each have one. waiters.mu guards it.
type handoff[T any] struct{ ready []T }

// pop removes the oldest item.
func (h *handoff[T]) pop() (item T, ok bool) {
	if len(h.ready) == 0 {
		return item, false
	}
	item = h.ready[0]
	h.ready = slices.Delete(h.ready, 0, 1)
	return item, true
}

// waiters are the goroutines that wait for items of an endpoint's handoffs. One of them, the leader, collects results from the completion
// queue for all: no goroutine has to run in the background for that. A follower is woken when there is an item for it, or to become the
// leader.
type waiters struct {
	mu        sync.Mutex
	leading   bool
	followers []*follower // in the order in which they began to wait
}

// follower is a goroutine that waits for an item of one handoff.
type follower struct {
	of    any           // the handoff
	woken chan struct{} // receives one value when the follower leaves the list
}

// wake wakes the first follower of a handoff, or of any handoff if it is nil. The caller holds mu.
func (w *waiters) wake(handoff any) {
	i := slices.IndexFunc(w.followers, func(f *follower) bool { return handoff == nil || f.of == handoff })
	if i < 0 {
		return
	}
	w.followers[i].woken <- struct{}{}
	w.followers = slices.Delete(w.followers, i, i+1)
}

// put adds an item. The caller holds mu.
func put[T any](w *waiters, h *handoff[T], item T) {
	h.ready = append(h.ready, item)
	w.wake(h)
}

// take waits for an item. While no other goroutine leads, it collects results. An item that is ready is taken also if ctx has ended.
func take[T any](ctx context.Context, e *Endpoint, h *handoff[T], op string) (T, error) {
	w := &e.dispatch.waiters
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		if item, ok := h.pop(); ok {
			return item, nil
		}
		if !w.leading {
			return lead(ctx, e, h, op)
		}
		if err := follow(ctx, w, h); err != nil {
			var none T
			return none, &Error{Op: op, Status: ErrCanceled, Err: err}
		}
	}
}

// lead collects results until there is an item in h. If collecting fails, only this call ends. The caller holds mu.
func lead[T any](ctx context.Context, e *Endpoint, h *handoff[T], op string) (T, error) {
	w := &e.dispatch.waiters
	w.leading = true
	for {
		w.mu.Unlock()
		err := e.collect(ctx, op)
		w.mu.Lock()
		item, ok := h.pop()
		if !ok && err == nil {
			continue
		}
		w.leading = false
		w.wake(nil)
		if ok {
			err = nil
		}
		return item, err
	}
}

// follow waits until h may have an item, or until the caller may lead. It returns the context's error if ctx ended first. The
// caller holds mu.
func follow[T any](ctx context.Context, w *waiters, h *handoff[T]) error {
	f := &follower{h, make(chan struct{}, 1)}
	w.followers = append(w.followers, f)
	w.mu.Unlock()
	select {
	case <-f.woken:
		w.mu.Lock()
		return nil
	case <-ctx.Done():
	}
	w.mu.Lock()
	if i := slices.Index(w.followers, f); i >= 0 {
		w.followers = slices.Delete(w.followers, i, i+1)
		return context.Cause(ctx)
	}
	// It was woken, too, so it wakes another goroutine in its place.
	if len(h.ready) > 0 {
		w.wake(h)
	}
	if !w.leading {
		w.wake(nil)
	}
	return context.Cause(ctx)
}

package ndnet

import (
	"context"
	"sync"
)

// ending counts connections and listeners that were closed and are not over yet. A WaitGroup would not do: nobody may begin to wait for one while others count from
// zero.
type ending struct {
	mu   sync.Mutex
	n    int
	none chan struct{} // closed when n is 0; nil while nobody waits
}

func (e *ending) begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.n++
}

func (e *ending) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.n--; e.n == 0 && e.none != nil {
		close(e.none)
		e.none = nil
	}
}

// wait returns when none is left, or when ctx ends, with its cause.
func (e *ending) wait(ctx context.Context) error {
	e.mu.Lock()
	if e.n == 0 {
		e.mu.Unlock()
		return nil
	}
	if e.none == nil {
		e.none = make(chan struct{})
	}
	none := e.none
	e.mu.Unlock()
	select {
	case <-none:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

package ndnet

import (
	"context"
	"sync"
)

// ending counts connections and listeners that were closed and have not ended yet. A WaitGroup does not fit: Wait must not start while the
// count rises from zero.
type ending struct {
	mu   sync.Mutex
	n    int
	none chan struct{} // closed when n is 0; nil without waiters
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

// wait returns nil when the count is zero, or the context's cause when ctx ends.
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

package ndk

import (
	"sync"
	"sync/atomic"
)

// calls runs the callbacks of an adapter one after the other, in the order in which they became due, on a goroutine of its own.
// Engines add callbacks with their locks held; callbacks run without locks. The queue is bounded by the pending requests: each
// object adds one callback per request, and one notification.
type calls struct {
	mu    sync.Mutex
	queue []func()      // guarded by mu
	ended bool          // guarded by mu
	wake  chan struct{} // holds one token while the queue may have callbacks
	done  chan struct{}
	due   atomic.Int32 // callbacks that were pushed and have not returned
}

func newCalls() *calls {
	c := &calls{wake: make(chan struct{}, 1), done: make(chan struct{})}
	go c.run()
	return c
}

// push makes f run soon. It never blocks.
func (c *calls) push(f func()) {
	c.due.Add(1)
	c.mu.Lock()
	c.queue = append(c.queue, f)
	c.mu.Unlock()
	c.poke()
}

func (c *calls) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *calls) run() {
	defer close(c.done)
	var batch []func()
	for {
		c.mu.Lock()
		batch, c.queue = c.queue, batch[:0]
		ended := c.ended
		c.mu.Unlock()
		for i, f := range batch {
			f()
			c.due.Add(-1)
			batch[i] = nil
		}
		switch {
		case len(batch) > 0:
		case ended:
			return
		default:
			<-c.wake
		}
	}
}

// stop waits until all pushed callbacks have run, and ends the goroutine.
func (c *calls) stop() {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.poke()
	<-c.done
}

package ndnet

import (
	"sync"
	"time"
)

// acceptDeadline is the deadline of a listener. The zero value is no deadline.
type acceptDeadline struct {
	mu    sync.Mutex
	timer *time.Timer
	past  chan struct{} // closed when the deadline passes; nil until the first waiter
}

// done returns a channel that is closed when the deadline passes. If the deadline is replaced, goroutines
// that wait on the channel wait for the new one.
func (d *acceptDeadline) done() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.channel()
}

// over reports whether the deadline has passed. Accept then returns no connection, even if one waits.
func (d *acceptDeadline) over() bool {
	select {
	case <-d.done():
		return true
	default:
		return false
	}
}

func (d *acceptDeadline) channel() chan struct{} {
	if d.past == nil {
		d.past = make(chan struct{})
	}
	return d.past
}

// set replaces the deadline. The zero time is no deadline.
func (d *acceptDeadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		<-d.channel() // the timer has fired or is about to; its function needs no lock
	}
	d.timer = nil
	past := d.channel()
	select {
	case <-past:
		past = make(chan struct{})
		d.past = past
	default:
	}
	if t.IsZero() {
		return
	}
	if left := time.Until(t); left > 0 {
		d.timer = time.AfterFunc(left, func() { close(past) })
		return
	}
	close(past)
}

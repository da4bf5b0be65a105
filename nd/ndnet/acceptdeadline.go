package ndnet

import (
	"sync"
	"time"
)

// acceptDeadline is the deadline of a listener. Its zero value is none.
type acceptDeadline struct {
	mu    sync.Mutex
	timer *time.Timer
	past  chan struct{} // closed when the deadline is past; nil until somebody asked
}

// done is closed when the deadline passes. Whoever waits on it when another deadline is set waits for that.
func (d *acceptDeadline) done() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.channel()
}

// over says that the deadline is past: nothing is accepted then, even if somebody waits to be.
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

// set replaces the deadline; the zero time is none.
func (d *acceptDeadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		<-d.channel() // it has passed, or is about to: its function needs no lock
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

package ndnet

import (
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

const (
	// shortWrite is the longest Write that leaves bytes for the next one. Longer Writes make long messages, whose cost per byte is small.
	// Copying their rest would displace what the next Write needs in the processor's cache.
	shortWrite = 16 << 10
	// laterTime is how long bytes wait for the next Write before a timer checks whether they can be sent. In an otherwise idle process it
	// is a millisecond: timers of the runtime are no more exact then.
	laterTime = 100 * time.Microsecond
	// lookEvery is how often short Writes check whether the bytes left over can be sent: a check costs as much as the copies of many
	// Writes.
	lookEvery = 10 * time.Microsecond
	// After mostLooks checks without a Write between them, a goroutine waits for the peer if bytes are still left over.
	mostLooks = 10
)

// later is what Writes leave for the next Write when the maximum number of messages is in flight. A stream of short Writes is then sent in
// few long messages. The zero value leaves nothing.
type later struct {
	timer *time.Timer // nil until something was left over
	armed bool        // the timer runs, and its function handles what is left over
	looks uint8       // checks after the last Write that left something
	last  time.Time   // when a Write checked last
	polls bool        // Writes poll, and no goroutine has slept since: the adapter waits for the next poll, also to send what is posted meanwhile
}

// looks reports whether a Write of n bytes polls for acknowledgements before it goes on. The caller holds mu.
func (c *Conn) looks(n int) bool {
	l := &c.waiting.later
	if n > shortWrite || !l.armed {
		return true
	}
	now := time.Now()
	if now.Sub(l.last) < lookEvery {
		return false
	}
	l.last = now
	return true
}

// putOff leaves unsent bytes, and messages posted by a Write that has polled, to the next Write. The caller holds mu.
func (c *Conn) putOff() {
	l := &c.waiting.later
	if !c.unfinished() && (!l.polls || c.send.n == 0) {
		return
	}
	l.looks = 0
	switch {
	case l.armed:
		return
	case l.timer == nil:
		l.timer = time.AfterFunc(c.network.later, c.look)
	default:
		l.timer.Reset(c.network.later)
	}
	l.armed = true
}

// look polls the engine and sends what can be sent of the bytes left over, until the peer has acknowledged all of them.
func (c *Conn) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := &c.waiting.later
	l.armed = false
	if c.closed || c.failed != nil || c.waiting.inside || c.waiting.helped {
		return // another goroutine does it, or nothing is left
	}
	before := c.send.number
	c.takeResults()
	if c.flush(); c.send.number != before {
		c.takeResults() // sends it now
	}
	over := c.send.n == 0 && !c.unfinished() && time.Since(l.last) > laterTime
	if l.looks++; l.looks < mostLooks && !over && c.failed == nil {
		l.timer.Reset(c.network.later)
		l.armed = true
		return
	}
	if c.leave(); !c.waiting.helped {
		c.rest()
	}
}

// hurry sends bytes that a Write left over although no Write follows. It sends what it can now. The goroutine in the queue, or a new one,
// sends the rest as soon as possible. The caller holds mu.
func (c *Conn) hurry() {
	l := &c.waiting.later
	if l.armed {
		l.timer.Stop() // if it has fired already, it finds nothing to do
		l.armed = false
		c.takeResults()
	}
	if c.leave(); l.polls && !c.waiting.inside && !c.waiting.helped {
		c.takeResults() // sends what was posted now
		c.rest()
	}
}

// rest hands the engine to the adapter's goroutine. If a goroutine has polled and does not come back, the engine, and the next Writes'
// messages with it, would wait. The caller holds mu.
func (c *Conn) rest() {
	c.waiting.later.polls = false
	if armed, err := c.cq.Arm(nd.NotifyAny); err == nil {
		armed.Done()
		armed.Cancel()
	}
}

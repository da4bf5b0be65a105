package ndnet

import (
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

const (
	// shortWrite is the longest Write that leaves bytes to the next one. Longer ones are messages that cost little for a byte; what they leave would be copied beside
	// what the next one needs from the processor's cache.
	shortWrite = 16 << 10
	// laterTime is how long bytes wait for the next Write before somebody looks whether they can go. In a process that does nothing else it is a millisecond: timers of
	// the runtime are not more exact then.
	laterTime = 100 * time.Microsecond
	// lookEvery is how often short Writes look whether what was left can go: a look costs as much as the copies of many of them.
	lookEvery = 10 * time.Microsecond
	// mostLooks without a Write between them have a goroutine wait for the peer, if something is left.
	mostLooks = 10
)

// later is what Writes leave to the next one, when as many messages are on their way as may be: a stream of short Writes then goes in few long messages. Zero leaves
// nothing.
type later struct {
	timer *time.Timer // nil until something was left
	armed bool        // it runs, and whoever it calls sees to what is left
	looks uint8       // since the last Write that left something
	last  time.Time   // a Write looked
	polls bool        // Writes look, and nobody has slept since: the adapter waits for who polls to come back, also with what is sent meanwhile
}

// looks says whether a Write of n bytes looks if messages have arrived before it goes on. The caller holds mu.
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

// putOff leaves what there is to send to the next Write, and what was sent by one that has polled. The caller holds mu.
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

// look sends what can go of what was left, and runs the engine for it, until all of it has arrived.
func (c *Conn) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := &c.waiting.later
	l.armed = false
	if c.closed || c.failed != nil || c.waiting.inside || c.waiting.helped {
		return // somebody else does, or nobody need
	}
	before := c.send.number
	c.takeResults()
	if c.flush(); c.send.number != before {
		c.takeResults() // it leaves now
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

// hurry sends what was left to a Write that comes no more: what can go now, and the rest by who waits inside, or by a goroutine, as soon as it can. The caller holds mu.
func (c *Conn) hurry() {
	l := &c.waiting.later
	if l.armed {
		l.timer.Stop() // if it has begun already it finds nothing to do
		l.armed = false
		c.takeResults()
	}
	if c.leave(); l.polls && !c.waiting.inside && !c.waiting.helped {
		c.takeResults() // what was posted leaves now
		c.rest()
	}
}

// rest leaves the engine to the adapter's goroutine. Who has polled and does not come back would leave it to nobody for a while, with what the next Writes post. The caller
// holds mu.
func (c *Conn) rest() {
	c.waiting.later.polls = false
	if armed, err := c.cq.Arm(nd.NotifyAny); err == nil {
		armed.Done()
		armed.Cancel()
	}
}

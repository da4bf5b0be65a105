package ndnet

import "time"

const (
	// shortWrite is the longest Write that leaves bytes to the next one. Longer ones are messages that cost little for a byte; what they leave would be copied beside
	// what the next one needs from the processor's cache.
	shortWrite = 16 << 10
	// laterTime is how long bytes wait for the next Write before somebody looks whether they can go.
	laterTime = 100 * time.Microsecond
	// lookEvery is how often short Writes look whether what was left can go: a look costs as much as the copies of many of them.
	lookEvery = 10 * time.Microsecond
	// mostLooks without a Write between them have a goroutine wait for the peer.
	mostLooks = 10
)

// later is what Writes leave to the next one, when as many messages are on their way as may be: a stream of short Writes then goes in few long messages. Zero leaves
// nothing.
type later struct {
	timer *time.Timer // nil until something was left
	armed bool        // it runs, and whoever it calls sees to what is left
	looks uint8       // since the last Write that left something
	last  time.Time   // a Write looked
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

// putOff leaves what there is to send to the next Write. The caller holds mu.
func (c *Conn) putOff() {
	l := &c.waiting.later
	l.looks = 0
	switch {
	case l.armed:
		return
	case l.timer == nil:
		l.timer = time.AfterFunc(laterTime, c.look)
	default:
		l.timer.Reset(laterTime)
	}
	l.armed = true
}

// look sends what can go of what was left.
func (c *Conn) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := &c.waiting.later
	l.armed = false
	if c.closed || c.waiting.inside || !c.unfinished() {
		return // somebody else does, or nothing is left
	}
	c.takeResults()
	if c.flush(); !c.unfinished() {
		return
	}
	if l.looks++; l.looks < mostLooks {
		l.timer.Reset(laterTime)
		l.armed = true
		return
	}
	c.leave()
}

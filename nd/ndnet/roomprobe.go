package ndnet

import "time"

// A connection whose peer has no room asks it for a sign of life: after firstProbe, which doubles as long as nothing moves, up to lastProbe. Nothing
// else is under way then that could tell of a peer that is gone (RFC 9293 section 3.8.6.1).
const (
	firstProbe = 200 * time.Millisecond
	lastProbe  = defaultKeepAlive
)

// roomProbe is when to ask. The zero value asks nobody.
type roomProbe struct {
	timer *time.Timer // nil until the peer had no room
	armed bool        // it runs
	gap   time.Duration
	seen  uint // messages that were sent when it was looked at last
}

// probeRoom begins to ask a peer that was told that it has no room. The caller holds mu.
func (c *Conn) probeRoom() {
	p := &c.room
	if p.armed {
		return
	}
	p.armed, p.gap, p.seen = true, firstProbe, c.send.number
	if p.timer == nil {
		p.timer = time.AfterFunc(p.gap, c.askForRoom)
	} else {
		p.timer.Reset(p.gap)
	}
}

// askForRoom asks a peer that still has no room, unless something was sent meanwhile.
func (c *Conn) askForRoom() {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &c.room
	p.armed = false
	if c.closed || c.failed != nil || !c.blocked() {
		return
	}
	p.armed = true
	if c.takeResults(); c.send.number != p.seen {
		p.gap = firstProbe
	} else {
		p.gap = min(2*p.gap, lastProbe)
		if c.send.n == 0 {
			c.send.signDue = true
			c.flush()
		}
	}
	p.seen = c.send.number
	p.timer.Reset(p.gap)
}

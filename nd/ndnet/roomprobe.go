package ndnet

import "time"

// A connection blocked by a full ring of the peer sends a probe: after firstProbe, then at intervals that double up to lastProbe while
// nothing moves. Nothing else is in flight then that could reveal a dead peer (RFC 9293 section 3.8.6.1).
const (
	firstProbe = 200 * time.Millisecond
	lastProbe  = defaultKeepAlive
)

// roomProbe is the timer of these probes. The zero value sends none.
type roomProbe struct {
	timer *time.Timer // nil until the peer's ring was full
	armed bool        // the timer runs
	gap   time.Duration
	seen  uint // messages sent at the last probe
}

// probeRoom starts to probe a peer that was told that its ring is full. The caller holds mu.
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

// askForRoom sends a probe if the peer's ring is still full and nothing was sent meanwhile.
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

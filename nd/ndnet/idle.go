package ndnet

import (
	"maps"
	"math"
	"time"
)

// tidyInterval is how often connections with grown buffers are checked. A connection on which nothing moved between two checks gives its
// buffers back.
const tidyInterval = time.Second

// noteGrown adds a connection to the checked ones.
func (n *Network) noteGrown(c *Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.tidying {
		n.tidying = true
		time.AfterFunc(tidyInterval, n.tidy)
	}
	if _, there := n.grown[c]; !there {
		n.grown[c] = 0
	}
}

// forget removes a connection that is being released.
func (n *Network) forget(c *Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.grown, c)
}

// tidy checks all connections with grown buffers, and runs again while there are any.
func (n *Network) tidy() {
	n.mu.Lock()
	look := make(map[*Conn]uint64, len(n.grown))
	maps.Copy(look, n.grown)
	n.mu.Unlock()
	for c, before := range look {
		moved, small := c.tidy(before)
		n.mu.Lock()
		if _, there := n.grown[c]; there && !small {
			n.grown[c] = moved
		}
		n.mu.Unlock()
	}
	_ = n.pool.trim() // memory that cannot be freed now is freed with the adapter
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.tidying = len(n.grown) > 0; n.tidying {
		time.AfterFunc(tidyInterval, n.tidy)
	}
}

// tidy gives back the buffers of a connection if nothing has moved after before. It returns the new value of moved, and whether no buffer
// is left to give back.
func (c *Conn) tidy(before uint64) (moved uint64, small bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	writing := c.writing.taken // a call may be using the send ring
	if c.closed {
		return 0, false // it is about to be released
	}
	c.takeResults()
	s := &c.send
	if c.in.blocked && c.in.read != c.in.told { // less than half of the ring: shows the peer that it is read, if slowly
		s.signDue = true
		c.flush()
		c.leave()
	}
	if moved = c.out.written + c.in.written + c.in.read + 1; moved != before {
		s.stalled = 0
		return moved, false
	}
	if c.owes() {
		s.stalled = min(s.stalled, math.MaxUint8-1) + 1
	}
	if !writing && s.ring.tail == s.ring.head && s.old == nil {
		c.network.pool.put(s.block)
		s.ring, s.block = sendRing{}, block{}
	}
	if c.inside.now.window != nil && c.in.next == nil && c.in.before == nil && c.in.unread() == 0 {
		c.offer(c.firstRing(), grant{size: minRing})
		c.flush()
		c.leave()
	}
	small = !writing && s.block.mem == nil && s.old == nil && c.inside.now.window == nil && c.in.next == nil && c.in.before == nil
	if small {
		c.network.forget(c) // until its buffers grow again
	}
	return moved, small
}

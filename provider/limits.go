package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/guard"
)

// This file bounds what others can make the engine keep and send (PROTOCOL §7.5), by what internal/guard counts: half-open and
// established connections per source, connections that are over, and answers to strangers.

// setShare moves the connection to another part of its source's budget. Connections that we asked for are nobody's share.
func (c *conn) setShare(s guard.Share) {
	if c.active || c.share == s {
		return
	}
	c.engine.guard.Sources.Move(guard.SourceOf(c.remote.IP), c.share, s)
	c.share = s
}

// noteEnded notes a connection that lingers from now on. Beyond guard.MaxEnded the oldest is forgotten at once.
func (e *Engine) noteEnded(c *conn) {
	ended := &e.guard.Ended
	for ended.Len() > 0 {
		oldest := e.lookup(ended.Oldest())
		if oldest != nil && oldest != c && ended.Len() < guard.MaxEnded {
			break
		}
		ended.Pop()
		if oldest != nil && oldest != c {
			e.stats.Forgotten++
			oldest.free()
		}
	}
	ended.Push(c.id)
}

// forgetEnded frees the oldest lingering connection, because its slot is needed.
func (e *Engine) forgetEnded() {
	ended := &e.guard.Ended
	for ended.Len() > 0 {
		if oldest := e.lookup(ended.Pop()); oldest != nil {
			e.stats.Forgotten++
			oldest.free()
			return
		}
	}
}

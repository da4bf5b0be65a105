package datapath

import "sync/atomic"

// counted decides when to read a socket whose packets a BPF program counts as they arrive: only if it has packets, and not at every poll.
// Except at a loopback interface, the program does not see packets from addresses of this machine. Polls that are spread as in socketReader
// find these packets. It belongs to the engine's owner; any goroutine may call passes.
type counted struct {
	count  func() uint64 // packets that the program has counted
	passed atomic.Uint64 // count at the last check
	owed   int           // number of these packets that are not received yet
	mark   uint64        // value of passed when tries began
	tries  int           // polls that emptied the socket before packets owed up to mark count as lost
	quiet  int           // polls since the socket had the last packet that the program does not see, including skipped polls
	skip   int           // polls of the socket that are still to be skipped
}

// passes reports whether packets came for the socket since the last check of the socket.
func (c *counted) passes() bool { return c.count() != c.passed.Load() }

// note adds packets that were counted after the last check.
func (c *counted) note() {
	if passed, before := c.count(), c.passed.Load(); passed != before {
		if c.owed == 0 {
			c.mark, c.tries = passed, hotLooks
		}
		c.owed += int(passed - before)
		c.passed.Store(passed)
	}
}

// due reports whether to poll the socket now.
func (c *counted) due() bool {
	c.note()
	if c.owed == 0 && c.skip > 0 {
		c.skip--
		return false
	}
	return true
}

// looked records that a poll of the socket brought so many messages, and whether more may wait.
func (c *counted) looked(messages int, more bool) {
	c.note()
	unseen := messages > c.owed // packets that the program does not see, from addresses of this machine; more may follow
	c.owed = max(c.owed-messages, 0)
	switch {
	case unseen:
		c.quiet, c.skip = 0, 0
	case c.owed == 0:
		c.skip = min(c.quiet/8, mostSkipped)
		c.quiet = min(c.quiet+c.skip+1, 8*mostSkipped)
	}
	if c.owed == 0 || more {
		return
	}
	if c.tries--; c.tries <= 0 { // the socket's buffer was full, or the firewall dropped the packets; packets that come meanwhile do not change that
		passed := c.passed.Load()
		c.owed = min(c.owed, int(passed-c.mark))
		c.mark, c.tries = passed, hotLooks
	}
}

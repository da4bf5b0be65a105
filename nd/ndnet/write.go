package ndnet

import (
	"net"
	"os"
	"syscall"
)

// Write writes all of p. It returns when all of p is in flight or in the send buffer. If the buffers of both sides are full, that takes
// until the peer reads. The first Write after the peer's Close succeeds, as over TCP, and its bytes are lost. Later ones fail with EPIPE.
func (c *Conn) Write(p []byte) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.writing.take(c.writable); err != nil {
		if c.parting() {
			return len(p), nil
		}
		return 0, c.opError("write", err)
	}
	defer c.writing.give()
	defer c.leave()
	c.hear()
	if c.parting() {
		return len(p), nil
	}
	if len(p) >= directMin {
		if region := c.network.buffers.holding(p); region != nil {
			n, err := c.writeDirect(p, region)
			return n, c.opError("write", err)
		}
	}
	for {
		err := c.writable()
		if n == len(p) && (err == nil || n > 0 && (err == os.ErrDeadlineExceeded || c.parting())) { // bytes accepted in time are delivered
			c.stay(n)
			return n, nil
		}
		if err != nil {
			c.parted = c.parted || c.gone // the next Write fails, too
			return n, c.opError("write", err)
		}
		space, err := c.space(len(p) - n)
		if err != nil {
			return n, c.opError("write", err)
		}
		if len(space) == 0 {
			if c.writable() == nil { // space may have become free at the end
				c.await(true)
			}
			continue
		}
		k := min(len(space), len(p)-n, maxPiece)
		if k >= longCopy {
			c.mu.Unlock()
			copy(space, p[n:n+k])
			c.mu.Lock()
		} else {
			copy(space, p[n:n+k])
		}
		if c.shut { // CloseWrite or Close may have sent the end meanwhile
			continue
		}
		n += k
		c.send.ring.tail += uint64(k)
		if rest := p[n:]; len(rest) < longCopy { // usually behind the end of the ring: both parts leave in one packet
			k = copy(c.send.ring.space(), rest)
			n += k
			c.send.ring.tail += uint64(k)
		}
		c.flush()
	}
}

// space returns where up to n bytes can go now; it is empty while the send ring is full. The caller holds mu and writing.
func (c *Conn) space(n int) ([]byte, error) {
	if c.send.requests > depth/2 && c.looks(n) {
		c.waiting.later.polls = true
		c.takeResults()
	}
	if _, err := c.reserve(n); err != nil {
		return nil, meaning(err)
	}
	return c.send.ring.space(), nil
}

// writable returns why nothing can be written, or nil. The caller holds mu.
func (c *Conn) writable() error {
	switch {
	case c.closed:
		return net.ErrClosed
	case c.shut:
		return syscall.EPIPE
	case c.writeTime.past:
		return os.ErrDeadlineExceeded
	case c.gone:
		return syscall.EPIPE
	case c.failed != nil:
		return c.failed
	}
	return nil
}

// parting reports whether a Write is the first one after the peer's Close, and so succeeds without effect. Over TCP it succeeds, because
// only the answer to its bytes says that nobody reads. Programs depend on this: crypto/tls sends an alert in Close and returns the error of
// that Write, also if the peer has closed first. The caller holds mu.
func (c *Conn) parting() bool {
	if c.closed || c.shut || c.writeTime.past || !c.gone || !c.ended || c.parted {
		return false
	}
	c.parted = true
	return true
}

package ndnet

import (
	"net"
	"os"
	"syscall"
)

// Write takes all of p. It returns when all of it is on its way or in the send buffer, which takes the peer's reading when the buffers of both
// sides are full.
func (c *Conn) Write(p []byte) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.writing.take(c.writable); err != nil {
		return 0, c.opError("write", err)
	}
	defer c.writing.give()
	defer c.leave()
	c.hear()
	if len(p) >= directMin {
		if region := c.network.buffers.holding(p); region != nil {
			n, err := c.writeDirect(p, region)
			return n, c.opError("write", err)
		}
	}
	for {
		err := c.writable()
		if n == len(p) && (err == nil || n > 0 && err == os.ErrDeadlineExceeded) { // what was taken in time is delivered
			c.stay(n)
			return n, nil
		}
		if err != nil {
			return n, c.opError("write", err)
		}
		space, err := c.space(len(p) - n)
		if err != nil {
			return n, c.opError("write", err)
		}
		if len(space) == 0 {
			if c.writable() == nil { // space may have taken in the end
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
		if c.shut { // CloseWrite or Close has come between, and may have said the end
			continue
		}
		n += k
		c.send.ring.tail += uint64(k)
		if rest := p[n:]; len(rest) < longCopy { // mostly behind the end of the ring: both parts leave in one packet
			k = copy(c.send.ring.space(), rest)
			n += k
			c.send.ring.tail += uint64(k)
		}
		c.flush()
	}
}

// space is where up to n bytes can go now, none while the send ring is full. The caller holds mu and writing.
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

// writable says why nothing can be written. The caller holds mu.
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

package ndnet

import (
	"io"
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

// ReadFrom writes what r reads until it ends. It reads into the send ring, without a copy between. Other writers wait meanwhile.
func (c *Conn) ReadFrom(r io.Reader) (n int64, err error) {
	if r == nil {
		return 0, c.opError("write", errNil)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.writing.take(c.writable); err != nil {
		return 0, c.opError("write", err)
	}
	defer c.writing.give()
	defer c.leave()
	for {
		if err := c.writable(); err != nil {
			return n, c.opError("write", err)
		}
		space, err := c.space(maxPiece)
		if err != nil {
			return n, c.opError("write", err)
		}
		if len(space) == 0 {
			if c.writable() == nil {
				c.await(true)
			}
			continue
		}
		c.stay(maxPiece)
		c.leave()
		got, err := c.fill(space[:min(len(space), maxPiece)], r)
		if got > 0 {
			if err := c.writable(); err != nil { // they are lost
				return n, c.opError("write", err)
			}
			n += int64(got)
			c.send.ring.tail += uint64(got)
			c.flush()
		}
		switch {
		case err == io.EOF:
			return n, nil
		case err != nil:
			return n, err
		}
	}
}

// fill has r read into p while others go on. The caller holds mu, also when r panics.
func (c *Conn) fill(p []byte, r io.Reader) (int, error) {
	c.mu.Unlock()
	defer c.mu.Lock()
	return r.Read(p)
}

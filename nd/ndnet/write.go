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
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.leave()
	if len(p) >= directMin {
		if region := c.network.buffers.holding(p); region != nil {
			n, err := c.writeDirect(p, region)
			return n, c.opError("write", err)
		}
	}
	for {
		if err := c.writable(); err != nil {
			return n, c.opError("write", err)
		}
		if n == len(p) {
			c.stay()
			return n, nil
		}
		space, err := c.space(len(p) - n)
		if err != nil {
			return n, c.opError("write", err)
		}
		if len(space) == 0 {
			c.await(true)
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
		n += k
		c.written(k)
	}
}

// space is where up to n bytes can go now, none while the send ring is full. The caller holds mu and writing.
func (c *Conn) space(n int) ([]byte, error) {
	if c.send.requests > depth/2 {
		c.takeResults()
	}
	if _, err := c.reserve(n); err != nil {
		return nil, meaning(err)
	}
	return c.send.ring.space(), nil
}

// written sends n bytes that were put into the send ring.
func (c *Conn) written(n int) {
	c.send.ring.tail += uint64(n)
	c.flush()
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
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
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
			c.await(true)
			continue
		}
		c.stay()
		c.leave()
		c.mu.Unlock()
		got, err := r.Read(space[:min(len(space), maxPiece)])
		c.mu.Lock()
		if got > 0 && c.writable() == nil {
			n += int64(got)
			c.written(got)
		}
		switch {
		case err == io.EOF:
			return n, nil
		case err != nil:
			return n, err
		}
	}
}

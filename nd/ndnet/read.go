package ndnet

import (
	"io"
	"net"
	"os"
)

// longCopy is from how many bytes on a copy is made without the connection's lock, so that others go on meanwhile.
const longCopy = 4 << 10

// Read reads what has arrived, and waits for the first byte. It returns io.EOF once the peer has shut down writing and
// everything was read. Into an empty p it reads nothing, and fails on a closed connection alone, as package net has it.
func (c *Conn) Read(p []byte) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	why, ready := c.unreadable, c.readable
	if len(p) == 0 {
		why, ready = c.over, c.over
	}
	if err := c.reading.take(why); err != nil {
		return 0, c.opError("read", err)
	}
	defer c.reading.give()
	defer c.leave()
	if err := ready(); err != nil {
		return 0, c.opError("read", err)
	}
	for n < len(p) && c.in.unread() > 0 { // a second time where the ring wraps
		from := c.in.peek()
		from = from[:min(len(from), len(p)-n)]
		if len(from) >= longCopy {
			c.copying = true
			c.mu.Unlock()
			n += copy(p[n:], from)
			c.mu.Lock()
			c.copying = false
		} else {
			n += copy(p[n:], from)
		}
		c.consume(len(from))
	}
	return n, nil
}

// consume counts bytes as read, and tells the peer when it must know. The caller holds mu and reading.
func (c *Conn) consume(n int) {
	if c.closed || c.deaf { // has come between
		c.discard()
	} else {
		c.in.consume(n)
	}
	c.settle()
	c.flush()
}

// discard throws away what has arrived. Where a Read or WriteTo is at it, that does so later: the peer writes into what it hears was read.
func (c *Conn) discard() {
	if !c.copying {
		c.in.consume(c.in.unread())
	}
}

// over says that the connection is closed. The caller holds mu.
func (c *Conn) over() error {
	if c.closed {
		return net.ErrClosed
	}
	return nil
}

// unreadable says why nobody may read, whatever has arrived. The caller holds mu.
func (c *Conn) unreadable() error {
	if c.readTime.past && !c.closed {
		return os.ErrDeadlineExceeded
	}
	return c.over()
}

// readable waits until there is something to read, or returns why there will not be. The caller holds mu.
func (c *Conn) readable() error {
	for {
		if err := c.unreadable(); err != nil {
			return err
		}
		switch {
		case c.in.unread() > 0:
			return nil
		case c.ended, c.deaf:
			return io.EOF
		case c.failed != nil:
			return c.failed
		}
		c.await(false)
	}
}

// WriteTo writes to w, without a copy between, what arrives until the peer shuts down writing.
func (c *Conn) WriteTo(w io.Writer) (n int64, err error) {
	if w == nil {
		return 0, c.opError("read", errNil)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.reading.take(c.unreadable); err != nil {
		return 0, c.opError("read", err)
	}
	defer c.reading.give()
	defer c.leave()
	for {
		if err := c.readable(); err != nil {
			if err == io.EOF {
				return n, nil
			}
			return n, c.opError("read", err)
		}
		c.leave() // w may wait for long, and Writes have left what they have to who was inside
		wrote, err := c.pour(w, c.in.peek())
		n += int64(wrote)
		c.consume(wrote)
		if err != nil {
			return n, err
		}
	}
}

// pour has w write p, which has arrived, while others go on. The caller holds mu, also when w panics.
func (c *Conn) pour(w io.Writer, p []byte) (int, error) {
	c.copying = true
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.copying = false
	}()
	return w.Write(p)
}

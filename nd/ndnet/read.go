package ndnet

import (
	"io"
	"net"
	"os"
)

// longCopy is the length from which a copy is made without the connection's lock, so that other calls go on meanwhile.
const longCopy = 4 << 10

// Read reads received data; if there is none, it waits for the first byte. It returns io.EOF once the peer has shut down writing and
// everything was read. With an empty p it returns 0 and fails only on a closed connection, as in package net.
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
	for n < len(p) && c.in.unread() > 0 { // a second time if the ring wraps
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

// consume counts bytes as read, and tells the peer if necessary. The caller holds mu and reading.
func (c *Conn) consume(n int) {
	if c.closed || c.deaf { // closed or shut down meanwhile
		c.discard()
	} else {
		c.in.consume(n)
	}
	c.settle()
	c.flush()
}

// discard drops received data. If a Read or WriteTo is using the data, that call drops it later, because the peer overwrites bytes once it
// is told that they were read.
func (c *Conn) discard() {
	if !c.copying {
		c.in.consume(c.in.unread())
	}
}

// over returns an error if the connection is closed. The caller holds mu.
func (c *Conn) over() error {
	if c.closed {
		return net.ErrClosed
	}
	return nil
}

// unreadable returns an error if reading is not allowed, whatever has arrived. The caller holds mu.
func (c *Conn) unreadable() error {
	if c.readTime.past && !c.closed {
		return os.ErrDeadlineExceeded
	}
	return c.over()
}

// readable waits until there is something to read, or returns why there will be nothing. The caller holds mu.
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

// WriteTo writes received data to w without an intermediate copy, until the peer shuts down writing.
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
		c.leave() // w may block for long, and Writes may have left bytes to the goroutine in the queue
		wrote, err := c.pour(w, c.in.peek())
		n += int64(wrote)
		c.consume(wrote)
		if err != nil {
			return n, err
		}
	}
}

// pour writes p, received data, to w without the lock. The caller holds mu, also if w panics.
func (c *Conn) pour(w io.Writer, p []byte) (int, error) {
	c.copying = true
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.copying = false
	}()
	return w.Write(p)
}

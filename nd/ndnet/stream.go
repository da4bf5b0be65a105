package ndnet

import (
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"
)

// Read reads what has arrived, and waits for the first byte. It returns io.EOF once the peer has shut down writing and
// everything was read.
func (c *Conn) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &c.read
	for {
		switch {
		case c.closed:
			return 0, c.opError("read", net.ErrClosed)
		case r.deadline.past:
			return 0, c.opError("read", os.ErrDeadlineExceeded)
		case len(p) == 0:
			return 0, nil
		case len(r.waiting) > 0:
			return c.copyOut(p), nil
		case r.ended:
			return 0, io.EOF
		case c.failed != nil:
			return 0, c.opError("read", c.failed)
		}
		if c.processResults(); len(r.waiting) > 0 || r.ended || c.failed != nil || c.spin() {
			continue
		}
		c.changed.Wait()
	}
}

// A reader that finds nothing looks again for a while before it sleeps, because waking takes several goroutines: the one
// that waits for packets, the connection's, and the reader's own. It looks for as long as that paid off of late.
const (
	spinMin = 1
	spinMax = 32 // looks, about a microsecond each, between which others may run
)

// spin looks for something to read without sleeping, and reports whether the reader has to look at its state again. The caller holds mu.
func (c *Conn) spin() bool {
	r := &c.read
	for range r.spins {
		c.mu.Unlock()
		runtime.Gosched()
		c.mu.Lock()
		if c.processResults(); len(r.waiting) > 0 || r.ended || c.failed != nil || c.closed || r.deadline.past {
			r.spins = min(2*r.spins, spinMax)
			return true
		}
	}
	r.spins = max(r.spins/2, spinMin)
	return false
}

// copyOut moves bytes of as many messages as fit into p.
func (c *Conn) copyOut(p []byte) (n int) {
	r := &c.read
	for n < len(p) && len(r.waiting) > 0 {
		m := &r.waiting[0]
		took := copy(p[n:], c.buffer(m.buffer)[m.off:m.end])
		n += took
		m.off += took
		if m.off < m.end {
			break
		}
		buffer := m.buffer
		r.waiting = r.waiting[:copy(r.waiting, r.waiting[1:])]
		c.recycle(buffer)
	}
	return n
}

// Write takes all of p. It returns when all of it is on its way, which takes the peer's reading when the buffers of both sides are
// full.
func (c *Conn) Write(p []byte) (n int, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if err := c.writable(); err != nil {
			return n, c.opError("write", err)
		}
		if n == len(p) {
			return n, nil
		}
		if w := &c.write; len(w.free) > 0 && int32(w.limit-w.sent) > 1 {
			part := p[n:min(n+c.payload, len(p))]
			c.send(part)
			n += len(part)
			continue
		}
		if free, limit := len(c.write.free), c.write.limit; c.takeNews(free, limit) {
			continue
		}
		c.changed.Wait()
	}
}

// takeNews takes results and says whether a writer that found that many free buffers and that limit may go on.
func (c *Conn) takeNews(free int, limit uint32) bool {
	c.processResults()
	return len(c.write.free) != free || c.write.limit != limit || c.failed != nil
}

// writable says why nothing can be written. The caller holds mu.
func (c *Conn) writable() error {
	switch {
	case c.closed:
		return net.ErrClosed
	case c.write.ended:
		return syscall.EPIPE
	case c.write.deadline.past:
		return os.ErrDeadlineExceeded
	case c.read.gone:
		return syscall.EPIPE
	case c.failed != nil:
		return c.failed
	}
	return nil
}

// CloseWrite shuts down writing: the peer reads io.EOF after what was written before. Reading goes on.
func (c *Conn) CloseWrite() error {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.writable(); err != nil {
		return c.opError("close", err)
	}
	c.shutDown(flagEnd)
	return nil
}

// shutDown tells the peer that no data follows. The caller holds mu.
func (c *Conn) shutDown(flags uint8) {
	c.write.ended = true
	c.write.signalDue, c.write.finalFlags = true, c.write.finalFlags|flags
	c.sendPending()
	c.changed.Broadcast()
}

// Close ends the connection. Pending calls return; what was written before is still delivered, in the background, for at most ten
// seconds. Closing twice is an error, as for other connections.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.opError("close", net.ErrClosed)
	}
	c.closed = true
	c.read.deadline.stop()
	c.write.deadline.stop()
	for _, m := range c.read.waiting { // nobody will read them; the peer's credits must not run dry before its end arrives
		c.recycle(m.buffer)
	}
	c.read.waiting = nil
	time.AfterFunc(lingerTime, c.end)
	c.shutDown(flagEnd | flagGone)
	return nil
}

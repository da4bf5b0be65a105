package ndnet

import (
	"net"
	"time"
)

// lingerTime bounds how long a closed connection keeps delivering what was written before to a peer that answers and takes nothing in: about as long as Linux does so for TCP
// (tcp_orphan_retries). A program that serves one client after the other reads late.
const lingerTime = 2 * time.Minute

// CloseWrite shuts down writing: the peer reads io.EOF after what was written before. Reading goes on. Once more is harmless, and so is a peer that
// reads no more.
func (c *Conn) CloseWrite() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return c.opError("close", net.ErrClosed)
	case c.failed != nil && !c.gone:
		return c.opError("close", c.failed)
	}
	c.shut = true
	c.sayFlags(flagEnd)
	c.hurry()
	return nil
}

// CloseRead shuts down reading: Read returns io.EOF, what has arrived and arrives is thrown away, and the peer's Write fails.
func (c *Conn) CloseRead() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.opError("close", net.ErrClosed)
	}
	c.deaf = true
	c.discard()
	c.settle()
	c.sayFlags(flagGone)
	c.leave()
	return nil
}

// sayFlags tells the peer how much of the connection is over. The caller holds mu.
func (c *Conn) sayFlags(flags uint8) {
	c.send.flags |= flags
	c.flush()
	c.wake()
}

// Close ends the connection. Pending calls return; what was written before is still delivered, in the background, for at most two
// minutes, or until the peer is gone. A process that ends meanwhile cuts it off: Wait waits for it. Closing twice is an error, as for other connections.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.opError("close", net.ErrClosed)
	}
	c.closed, c.shut = true, true
	c.readTime.stop()
	c.writeTime.stop()
	c.keep.stop()
	c.discard()
	c.sayFlags(flagEnd | flagGone)
	go c.linger()
	return nil
}

// linger delivers what was written, and gives everything back.
func (c *Conn) linger() {
	c.mu.Lock()
	over := false
	stop := time.AfterFunc(c.network.linger, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		over = true
		c.wake()
	})
	for c.failed == nil && !over && !c.delivered() {
		c.await(true)
	}
	c.mu.Unlock()
	stop.Stop()
	c.release()
}

// delivered says that everything written has arrived at the peer, and the end of it. The caller holds mu.
func (c *Conn) delivered() bool {
	return c.gone || c.send.n == 0 && c.send.ring.waiting() == 0 && c.send.saidFlags == c.send.flags
}

// never is for who waits for a turn whatever happens.
func never() error { return nil }

// release gives everything back. The peer has all that it gets: ending the connection now takes nothing from it.
func (c *Conn) release() {
	if c.connector != nil {
		_ = c.connector.Close() // like all below, never fails
	}
	if c.qp != nil {
		_ = c.qp.Close()
	}
	if c.cq != nil {
		_ = c.cq.Close()
	}
	c.mu.Lock()
	c.fail(net.ErrClosed)
	_ = c.reading.take(never) // those who copy
	_ = c.writing.take(never)
	c.mu.Unlock()
	c.network.forget(c)
	c.revoke(&c.inside.now)
	c.revoke(&c.inside.next)
	for _, b := range []block{c.inside.now.block, c.inside.before.block, c.inside.next.block, c.send.block, c.control} {
		c.network.pool.put(b)
	}
	if old := c.send.old; old != nil {
		c.network.pool.put(old.block)
	}
	c.mu.Lock()
	c.writing.give()
	c.reading.give()
	c.mu.Unlock()
	_ = c.network.pool.trim() // of an adapter that is closed, or memory that it keeps until then
	c.network.drop()
	c.network.busy.Done()
}

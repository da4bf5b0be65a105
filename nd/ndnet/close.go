package ndnet

import (
	"net"
	"time"
)

// Bounds of the wait in Close, and of the life of a closed connection.
const (
	// closeTime bounds how long Close waits for a peer that reads slowly.
	closeTime = 30 * time.Second
	// stallTime is how long Close waits while the peer reads nothing. A peer that reads reports it every second (tidyInterval).
	stallTime = 4 * time.Second
	// farewellTime is how long Close waits for the acknowledgement of the end alone, if all data is acknowledged. It covers some
	// retransmissions and a peer with busy processors.
	farewellTime = 500 * time.Millisecond
	// farewellPause follows an end that was not acknowledged within farewellTime. During the pause no Close of the network waits for the
	// end alone, so that a program that closes a thousand connections to a dead host does not wait for each.
	farewellPause = time.Second
	// lingerTime bounds how long a closed connection keeps delivering in the background to a peer that answers but does not read. It is
	// about as long as Linux does so for TCP (tcp_orphan_retries). A server that handles one client after another reads late.
	lingerTime = 2 * time.Minute
)

// closeBounds holds these times. Tests of networks change them.
type closeBounds struct{ whole, stall, farewell, pause, linger time.Duration }

var usualBounds = closeBounds{whole: closeTime, stall: stallTime, farewell: farewellTime, pause: farewellPause, linger: lingerTime}

// CloseWrite shuts down writing: the peer reads io.EOF after the written data. Reading goes on. Calling it again is harmless, and so is a
// peer that no longer reads.
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

// CloseRead shuts down reading: Read returns io.EOF, received data is discarded, and the peer's Write fails.
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

// sayFlags tells the peer which directions are shut down. The caller holds mu.
func (c *Conn) sayFlags(flags uint8) {
	c.send.flags |= flags
	c.flush()
	c.wake()
}

// SetLinger controls what Close does with bytes that the peer's host has not acknowledged. If sec < 0, the default, Close behaves
// as its comment says. If sec is 0, Close discards the bytes, and the peer gets ECONNRESET. Otherwise Close waits for at most sec
// seconds and then discards the rest.
func (c *Conn) SetLinger(sec int) error {
	return c.set(func() { c.lingers = max(sec, -1) })
}

// Close ends the connection. Pending calls return at once. After the process has ended nothing delivers written data, so Close waits until
// the peer's host has acknowledged all data and the end. It waits for at most 30 seconds, and only while the peer reads something within 4
// seconds. If all data is acknowledged already, Close waits for at most half a second. The rest is delivered in the background, for two
// minutes or until the peer is gone; Wait waits for it. Close returns no error for undelivered data.
//
// Deadlines do not end Close; SetLinger bounds it. Closing twice is an error, as for other connections. A second Close returns no earlier
// than the first, so a program that exits after the second has waited for both. (For example, Server.Shutdown of net/http may close a
// connection that its handler closes too.)
func (c *Conn) Close() error {
	over, err := c.close()
	if over {
		c.release()
	}
	return err
}

// close is Close without release, which the caller of close calls if over is true.
func (c *Conn) close() (over bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		for c.closing {
			c.waiting.changed.Wait()
		}
		return false, c.opError("close", net.ErrClosed)
	}
	c.closed, c.shut, c.closing = true, true, true
	defer func() {
		c.closing = false
		c.waiting.changed.Broadcast()
	}()
	c.network.ending.begin()
	c.readTime.stop()
	c.writeTime.stop()
	c.keep.stop()
	c.discard()
	if c.lingers == 0 {
		c.wake()
		c.abort()
		return false, nil
	}
	owes := c.owes()
	if !c.ended || !c.gone { // otherwise the peer has closed, and the end of the connection says the same
		c.sayFlags(flagEnd | flagGone)
	}
	c.takeResults() // sends the end now, even if no goroutine waits for the answer
	switch {
	case c.farewell(owes):
		if !c.reading.taken && !c.writing.taken {
			return true, nil
		}
		go c.release() // it waits for these calls
	case c.lingers > 0:
		c.abort()
	default:
		go c.linger()
	}
	return false, nil
}

// farewell waits for everything to be acknowledged, for as long as Close may, and says whether it was. owes says that data was not
// acknowledged before. The caller holds mu.
func (c *Conn) farewell(owes bool) (arrived bool) {
	n, bounds := c.network, &c.network.bounds
	if c.lingers > 0 {
		limit := time.Duration(min(c.lingers, int(lingerTime/time.Second))) * time.Second
		return c.deliver(limit, limit)
	}
	if owes { // closing many stalled connections one by one takes as long as closing one
		return c.deliver(bounds.whole, bounds.stall-time.Duration(c.send.stalled)*tidyInterval)
	}
	if n.unheard(0) {
		return c.failed != nil || c.delivered()
	}
	arrived = c.deliver(bounds.farewell, bounds.farewell)
	if !arrived {
		n.unheard(bounds.pause)
	}
	return arrived
}

// unheard reports whether a recent Close has waited in vain for its end to be acknowledged. more extends the period from now.
func (n *Network) unheard(more time.Duration) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	if more > 0 {
		n.deafUntil = now.Add(more)
	}
	return now.Before(n.deafUntil)
}

// deliver waits until the peer has acknowledged everything or the connection is lost. It returns false if that takes longer than whole, or
// if nothing is acknowledged for stall. The caller holds mu.
func (c *Conn) deliver(whole, stall time.Duration) bool {
	if c.failed != nil || c.delivered() {
		return true
	}
	begin := time.Now()
	last, moved := begin, c.moved()
	wake := time.AfterFunc(min(whole, stall), c.stayed)
	defer wake.Stop()
	for c.failed == nil && !c.delivered() {
		now := time.Now()
		if m := c.moved(); m != moved {
			last, moved = now, m
		}
		left := min(whole-now.Sub(begin), stall-now.Sub(last))
		if left <= 0 {
			return false
		}
		wake.Reset(left)
		c.await(true)
	}
	return true
}

// moved returns a number that changes whenever the peer reads or acknowledges something.
func (c *Conn) moved() uint64 { return c.out.written + c.out.read + uint64(c.arrived()) }

// owes reports whether the peer has not acknowledged written bytes or the message that announces them.
func (c *Conn) owes() bool {
	return c.send.n > 0 || c.send.ring.waiting() > 0 || c.send.ring.tail != c.send.ring.head || c.send.old != nil
}

// linger delivers what Close has left over, and releases everything.
func (c *Conn) linger() {
	c.mu.Lock()
	limit := c.network.bounds.linger
	c.deliver(limit, limit)
	c.mu.Unlock()
	c.release()
}

// abort ends the connection for both sides now, whatever is in flight. The caller holds mu.
func (c *Conn) abort() {
	c.mu.Unlock()
	_ = c.connector.Close() // never fails, and waits for the owner of the engine
	c.mu.Lock()
	go c.release()
}

// delivered reports whether the peer has acknowledged all written data and the end. The caller holds mu.
func (c *Conn) delivered() bool {
	return c.gone || c.send.n == 0 && c.send.ring.waiting() == 0 && c.send.saidFlags == c.send.flags
}

// never is for waiting for a turn without a condition that ends the wait.
func never() error { return nil }

// release gives all resources back. The peer has received all that it will, so ending the connection loses nothing.
func (c *Conn) release() {
	if c.connector != nil {
		_ = c.connector.Close() // never fails, like the calls below
	}
	if c.qp != nil {
		_ = c.qp.Close()
	}
	if c.cq != nil {
		_ = c.cq.Close()
	}
	c.mu.Lock()
	c.fail(net.ErrClosed)
	_ = c.reading.take(never) // wait for calls that copy
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
	_ = c.network.pool.trim() // fails for a closed adapter, or if memory stays in use until then
	c.network.drop()
	if c.closed { // the caller of Close may be waiting
		c.network.ending.end()
	}
}

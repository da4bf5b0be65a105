package ndnet

import (
	"net"
	"time"
)

// How long Close waits, and how long a closed connection lives on.
const (
	// closeTime bounds how long Close waits for a peer that takes in what was written, but slowly.
	closeTime = 30 * time.Second
	// stallTime is how long the peer may take nothing in before Close waits no more. A peer that reads says so each second (tidyInterval).
	stallTime = 4 * time.Second
	// farewellTime is how long Close waits for the peer to acknowledge the end alone, behind data that it has acknowledged: time for some
	// retransmissions, and for a peer whose processors are busy.
	farewellTime = 500 * time.Millisecond
	// farewellPause is how long after an end that was not acknowledged in farewellTime no Close of the network waits for an end alone: a
	// program that closes a thousand connections to a host that is gone does not wait for each.
	farewellPause = time.Second
	// lingerTime bounds how long a closed connection keeps delivering, in the background behind Close, to a peer that answers and takes nothing in: about
	// as long as Linux does so for TCP (tcp_orphan_retries). A program that serves one client after the other reads late.
	lingerTime = 2 * time.Minute
)

// closeBounds are these times. Tests of networks change theirs.
type closeBounds struct{ whole, stall, farewell, pause, linger time.Duration }

var usualBounds = closeBounds{whole: closeTime, stall: stallTime, farewell: farewellTime, pause: farewellPause, linger: lingerTime}

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

// SetLinger says what Close does with bytes that the peer's host has not acknowledged. Below 0, the default, Close does as it says. With 0 Close throws
// them away, and the peer gets ECONNRESET. Otherwise Close waits for sec seconds at most, and throws away what is left then.
func (c *Conn) SetLinger(sec int) error {
	return c.set(func() { c.lingers = max(sec, -1) })
}

// Close ends the connection. Pending calls return at once. Nobody delivers what was written when the process has ended, so Close waits until the
// peer's host has acknowledged it together with the end: for 30 seconds at most, while the peer takes in something within 4 seconds. Where it has
// acknowledged all that was written before, Close waits for no more than half a second. What is left then is delivered in the background, for two minutes or until the
// peer is gone, and Wait waits for it. Close returns no error for it.
//
// Deadlines do not end Close, SetLinger bounds it. Closing twice is an error, as for other connections; a second Close returns no earlier than the first
// one, so that a program which ends behind it ends behind both. (Server.Shutdown of net/http closes connections that their handlers close as well.)
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		for c.closing {
			c.waiting.changed.Wait()
		}
		return c.opError("close", net.ErrClosed)
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
		return nil
	}
	owes := c.owes()
	c.sayFlags(flagEnd | flagGone)
	c.takeResults() // what was said leaves now, whether or not somebody waits for the answer
	switch {
	case c.farewell(owes):
		go c.release()
	case c.lingers > 0:
		c.abort()
	default:
		go c.linger()
	}
	return nil
}

// farewell waits until everything has arrived, for as long as Close may, and says whether it has. The caller holds mu. owes says that data was on its way.
func (c *Conn) farewell(owes bool) (arrived bool) {
	n, bounds := c.network, &c.network.bounds
	if c.lingers > 0 {
		limit := time.Duration(min(c.lingers, int(lingerTime/time.Second))) * time.Second
		return c.deliver(limit, limit)
	}
	if owes { // closing one stalled connection after the other takes as long as closing one
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

// unheard says whether a Close has waited in vain for its end to be acknowledged a while ago. more has that so for as long from now on.
func (n *Network) unheard(more time.Duration) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	if more > 0 {
		n.deafUntil = now.Add(more)
	}
	return now.Before(n.deafUntil)
}

// deliver waits until everything has arrived at the peer, or the connection is lost: for no longer than whole, and while something arrives within stall. It
// returns false when that is over. The caller holds mu.
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

// moved changes when the peer takes something in.
func (c *Conn) moved() uint64 { return c.out.written + c.out.read + uint64(c.arrived()) }

// owes says that something was written which the peer has not acknowledged: bytes, or the message that tells of them.
func (c *Conn) owes() bool {
	return c.send.n > 0 || c.send.ring.waiting() > 0 || c.send.ring.tail != c.send.ring.head || c.send.old != nil
}

// linger delivers what Close has left, and gives everything back.
func (c *Conn) linger() {
	c.mu.Lock()
	limit := c.network.bounds.linger
	c.deliver(limit, limit)
	c.mu.Unlock()
	c.release()
}

// abort ends the connection for both sides now, whatever is on its way. The caller holds mu.
func (c *Conn) abort() {
	c.mu.Unlock()
	_ = c.connector.Close() // never fails, and waits for the engine's owner
	c.mu.Lock()
	go c.release()
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
	if c.closed { // by the caller, who may wait
		c.network.ending.end()
	}
}

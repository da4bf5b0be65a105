package ndnet

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// attendance is how the goroutines of a connection wait. One of them waits in the completion queue itself, so that no other goroutine is
// between a packet and its Read, and handles results for all. The other goroutines wait for it. When it leaves, it wakes them, and one of
// them takes its place.
type attendance struct {
	changed sync.Cond
	inside  bool        // a goroutine waits in the queue
	all     bool        // it also wakes up for results of this side's messages
	wantAll int         // how many waiters need that
	helped  bool        // a goroutine sends the bytes that a Write left over
	bell    *bell       // interrupts the goroutine in the queue; nil until the first one
	ends    *time.Timer // bounds how long a Write stays; nil until the first one
	later   later
}

// wake makes every waiter check its condition again. The caller holds mu.
func (c *Conn) wake() {
	c.waiting.changed.Broadcast()
	c.reading.free.Broadcast()
	c.writing.free.Broadcast()
	c.interrupt()
}

// turn is the right to use one direction, for one call at a time. mu guards it.
type turn struct {
	taken bool
	free  sync.Cond
}

// take waits for the right, until over returns an error.
func (t *turn) take(over func() error) error {
	for t.taken {
		if err := over(); err != nil {
			return err
		}
		t.free.Wait()
	}
	t.taken = true
	return nil
}

func (t *turn) give() {
	t.taken = false
	t.free.Signal()
}

// interrupt ends the sleep of the goroutine that waits in the queue.
func (c *Conn) interrupt() {
	if w := &c.waiting; w.inside {
		w.bell.ring()
	}
}

// await returns when something may have changed. The caller holds mu, has checked its condition, and checks it again afterwards. A
// goroutine that waits for messages of the peer is not woken by acknowledgements of this side's messages, unless a caller needs them: all
// says so.
func (c *Conn) await(all bool) {
	w := &c.waiting
	if c.takeResults() || c.failed != nil { // the goroutine that recorded a failure had no waiter to wake
		return
	}
	if all {
		w.wantAll++
		defer func() {
			if w.wantAll--; w.wantAll == 0 && !w.inside {
				w.changed.Broadcast() // this goroutine may now take the place in the queue
			}
		}()
	}
	if w.inside {
		if all && !w.all {
			c.interrupt()
		}
		w.changed.Wait()
		return
	}
	if !all && w.wantAll > 0 { // a waiter that needs everything takes the place
		w.changed.Wait()
		return
	}
	level := nd.NotifySolicited
	if all || c.unfinished() {
		level = nd.NotifyAny
	}
	if w.bell == nil {
		w.bell = newBell()
	}
	w.bell.reset()
	w.inside, w.all = true, level == nd.NotifyAny
	c.mu.Unlock()
	err := c.cq.Notify(w.bell, level)
	c.mu.Lock()
	w.inside, w.later.polls = false, false
	c.takeResults()
	if err != nil && !errors.Is(err, context.Canceled) {
		c.fail(c.lost(err))
	}
	w.changed.Broadcast()
}

// takeResults polls the engine, handles all results and says whether there were any. The caller holds mu.
func (c *Conn) takeResults() (news bool) {
	if c.failed != nil {
		return false
	}
	before := c.in.written
	for {
		n := c.cq.GetResults(c.results[:])
		for i := range c.results[:n] {
			c.result(&c.results[i])
		}
		news = news || n > 0
		if n < len(c.results) {
			break
		}
	}
	return c.tookResults(news, before)
}

// hear handles results that are already in the queue, such as the peer's close, without polling the engine, so that a Write after
// the close fails. A goroutine that waits in the queue handles them otherwise. The caller holds mu.
func (c *Conn) hear() {
	before, news := c.in.written, false
	for c.failed == nil && !c.waiting.inside && !c.cq.Empty() {
		if c.cq.GetResults(c.results[:1]) == 1 { // the queue is not empty, so this does not poll
			c.result(&c.results[0])
			news = true
		}
	}
	c.tookResults(news, before)
}

// tookResults handles the consequences of results. before is how much the peer had written before them.
func (c *Conn) tookResults(news bool, before uint64) bool {
	if news {
		c.flush()
		c.waiting.changed.Broadcast()
		if c.waiting.all || c.in.written != before || c.ended || c.gone || c.closed {
			c.interrupt() // the waiter in the queue may wait for exactly this, and the queue does not report it again
		}
	}
	return news
}

// stay sends the bytes that a Write of n bytes left over, if the peer reads soon. The next Write of a stream usually follows at
// once. If a helper goroutine sent the rest of each Write, it would compete with the writer for processors that the peer needs. The
// rest of a short Write is sent together with the next ones. The caller holds mu and writing.
func (c *Conn) stay(n int) {
	w, long := &c.waiting, c.network.stay
	if w.inside || w.helped {
		return
	}
	if n <= shortWrite && c.send.ring.waiting() < maxPiece {
		c.putOff()
		return
	}
	if !c.unfinished() {
		return
	}
	until := time.Now().Add(long)
	if w.ends == nil {
		w.ends = time.AfterFunc(long, c.stayed)
	} else {
		w.ends.Reset(long)
	}
	for c.unfinished() && c.writable() == nil && time.Now().Before(until) {
		c.await(true)
	}
	w.ends.Stop()
}

// stayed ends a bounded stay.
func (c *Conn) stayed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wake()
}

// leave ends a call. The goroutine in the queue sends the bytes that the call could not send; if there is none, a new goroutine
// does. The caller holds mu.
func (c *Conn) leave() {
	w := &c.waiting
	if !c.unfinished() || c.closed {
		return
	}
	if w.inside {
		if !w.all {
			c.interrupt()
		}
		return
	}
	if !w.helped && !w.later.armed {
		w.helped = true
		go c.finish()
	}
}

// finish sends the bytes that a Write left over, as soon as the peer has room.
func (c *Conn) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.unfinished() && !c.closed {
		c.await(true)
		c.flush()
	}
	if c.waiting.helped = false; !c.closed {
		c.putOff() // Writes that came meanwhile left their rest to this goroutine
	}
}

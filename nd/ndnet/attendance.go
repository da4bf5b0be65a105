package ndnet

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// attendance is how the goroutines of a connection wait: one of them waits in the completion queue itself, so that nobody stands between a
// packet and a Read, and takes in what comes for all; the others wait for it. Who leaves wakes the others, and one of them takes its place.
type attendance struct {
	changed sync.Cond
	inside  bool        // somebody is in the queue
	all     bool        // and wakes for everything: also for what this side has sent
	wantAll int         // how many wait that need that
	helped  bool        // a goroutine finishes what a Write left
	bell    *bell       // interrupts who is inside; nil until somebody was
	ends    *time.Timer // of how long a Write stays; nil until one stayed
	later   later
}

// wake makes everybody look again at what they wait for. The caller holds mu.
func (c *Conn) wake() {
	c.waiting.changed.Broadcast()
	c.reading.free.Broadcast()
	c.writing.free.Broadcast()
	c.interrupt()
}

// turn is whose a direction is: one call's at a time. mu guards it.
type turn struct {
	taken bool
	free  sync.Cond
}

// take waits for a turn, until over says why not to.
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

// interrupt takes the one out of the queue who waits there.
func (c *Conn) interrupt() {
	if w := &c.waiting; w.inside {
		w.bell.ring()
	}
}

// await returns when there may be news. It is called, with mu held, by who has looked and found nothing, and looks again afterwards. Who
// waits for messages of the peer is not woken when those of this side have arrived, unless somebody needs that: all says so.
func (c *Conn) await(all bool) {
	w := &c.waiting
	if c.takeResults() || c.failed != nil { // whoever has noted that found nobody to wake
		return
	}
	if all {
		w.wantAll++
		defer func() {
			if w.wantAll--; w.wantAll == 0 && !w.inside {
				w.changed.Broadcast() // somebody may have left the place to us
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
	if !all && w.wantAll > 0 { // one of those takes the place
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

// takeResults handles the results there are, and says whether there were any. It runs the engine for them. The caller holds mu.
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

// hear handles results that are there already, as that the peer has closed, without running the engine: a Write after that fails. Whoever waits in the
// queue does so otherwise. The caller holds mu.
func (c *Conn) hear() {
	before, news := c.in.written, false
	for c.failed == nil && !c.waiting.inside && !c.cq.Empty() {
		if c.cq.GetResults(c.results[:1]) == 1 { // as many as there are
			c.result(&c.results[0])
			news = true
		}
	}
	c.tookResults(news, before)
}

// tookResults goes on behind results. before is how much had been written by the peer before them.
func (c *Conn) tookResults(news bool, before uint64) bool {
	if news {
		c.flush()
		c.waiting.changed.Broadcast()
		if c.waiting.all || c.in.written != before || c.ended || c.gone || c.closed {
			c.interrupt() // that may be what the one inside waits for, and the queue does not tell of it any more
		}
	}
	return news
}

// stay sends what a Write of n bytes has left, if the peer reads soon. The next Write of a stream follows at once: a goroutine that sends what each one has left takes turns
// with them, on cores that the peer needs. What short Writes have left goes with those that follow. The caller holds mu and writing.
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

// stayed ends a wait that is bounded.
func (c *Conn) stayed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wake()
}

// leave ends a call. What it could not send yet is sent by who waits inside, or by a goroutine of its own. The caller holds mu.
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

// finish sends what a Write has left, when the peer lets it.
func (c *Conn) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.unfinished() && !c.closed {
		c.await(true)
		c.flush()
	}
	if c.waiting.helped = false; !c.closed {
		c.putOff() // what Writes sent meanwhile, which leave that to who helps
	}
}

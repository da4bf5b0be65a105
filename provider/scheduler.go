package provider

import (
	"slices"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/congestion"
	"github.com/ndxdp/ndxdp/provider/internal/packet"
	"github.com/ndxdp/ndxdp/provider/internal/turn"
	"github.com/ndxdp/ndxdp/wire"
)

// The order of sending is deficit round robin by bytes, over connections and over the two spaces of each connection. A connection that has
// not used up its share after it became active precedes those that have used it (FQ-CoDel, RFC 8290 §4.1). So a small message does not wait
// for bulk.

// connBurst is the most packets that a connection sends in one round. A batch of the link is as large, so a connection sends at most
// connBurst packets between two batches.
const connBurst = packet.TxBatch

// line is a queue of connections, linked through them: joining and leaving cost the same however many wait, and nothing is
// allocated. A connection is in one line at the most.
type line struct {
	first, last *conn
	n           int
}

func (l *line) push(c *conn) {
	if l.last == nil {
		l.first = c
	} else {
		l.last.places.behind = c
	}
	l.last = c
	l.n++
}

// remove takes out a connection that may be in line: seldom, and by looking at all of them.
func (l *line) remove(c *conn) {
	var before *conn
	for at := l.first; at != nil; before, at = at, at.places.behind {
		if at != c {
			continue
		}
		if before == nil {
			l.first = c.places.behind
		} else {
			before.places.behind = c.places.behind
		}
		if l.last == c {
			l.last = before
		}
		c.places.behind = nil
		l.n--
		return
	}
}

func (l *line) pop() *conn {
	c := l.first
	l.first, c.places.behind = c.places.behind, nil
	if l.first == nil {
		l.last = nil
	}
	l.n--
	return c
}

// round is the connections with something to send, in order. Connections that have not used up their share after they became active come
// first.
type round struct {
	fresh, active line
	shares        shares
}

// join puts a connection at the end of the line for its priority, unless it is in line.
func (r *round) join(c *conn) {
	if c.places.inActive {
		return
	}
	c.places.inActive = true
	if c.traffic.deficit > 0 {
		r.fresh.push(c)
	} else {
		r.active.push(c)
	}
}

// next removes the connection whose turn it is from the round, and returns it. The round must not be empty.
func (r *round) next() *conn {
	l := &r.fresh
	if l.n == 0 {
		l = &r.active
	}
	c := l.pop()
	c.places.inActive = false
	return c
}

// leave takes out a connection that may be in line.
func (r *round) leave(c *conn) {
	r.fresh.remove(c)
	r.active.remove(c)
	c.places.inActive = false
}

// waiting is how many connections are in line.
func (r *round) waiting() int { return r.fresh.n + r.active.n }

// sendShares gives connections with work their shares, in turn, until the turn's bytes are used up. Before a small share is built, the batch leaves; a post ends there.
func (e *Engine) sendShares(post bool) {
	share, turn := e.round.shares.At(e.now, e.round.waiting())
	for e.round.waiting() > 0 && e.out.Bytes() < turn && !e.out.Starved() {
		if share == smallShare && e.round.fresh.n == 0 {
			if post {
				return
			}
			e.flush()
		}
		c := e.round.next()
		if c.phase == phaseOpen {
			c.withTraffic(func(t *traffic) { t.useShare(share) })
		}
		c.touch()
	}
}

// useShare sends the connection's share, and notes what keeps the connection from sending more.
func (t *traffic) useShare(share int) {
	e := t.engine
	before := e.out.Bytes()
	again := t.sendShare(share)
	e.round.shares.Sent(&t.sends, e.out.Bytes()-before, e.now)
	if again {
		t.conn.want(wantTurn)
	}
	t.noteLimit(again)
	if qp := t.conn.qp; qp != nil && e.out.Clock != nil && t.sent.sample.Due(e.now) {
		q := &qp.sq
		t.sent.sample.Measure(e.now, e.out.Clock, &q.sample, q.head.Load(), q.next, q.off)
	}
}

// sendShare sends what the connection's share allows. It reports whether more could go out at once.
func (t *traffic) sendShare(share int) (again bool) {
	if t.deficit <= 0 {
		t.deficit += share
		if t.deficit <= 0 {
			return true // a large packet took the shares of several rounds
		}
	}
	before := t.engine.out.Bytes()
	t.deficit = min(t.deficit, share)
	again = t.sendUpTo(t.deficit)
	t.deficit -= t.engine.out.Bytes() - before
	if again && t.deficit > 0 {
		t.deficit = 0 // stopped by the burst: no saving up, and the end of the line
	}
	return again
}

// sendUpTo sends up to budget bytes: repetitions, then responses and requests, that space first which had less of late. It
// reports whether more could go out at once.
func (t *traffic) sendUpTo(budget int) (again bool) {
	e := t.engine
	for space := range t.sent.spaces {
		if t.sent.spaces[space].HasAgain() && !t.sent.holds(wire.Space(space)) && t.resendLost(wire.Space(space)) {
			return true
		}
	}
	burst := connBurst
	respond, request := t.hasResponses(), t.lookForRequests()
	if respond && request {
		// Each space gets half of the budget. The second one also gets what the first left. The window may end before the budget does, so the order alternates
		// by bytes.
		first := wire.ResponseSpace
		if t.lean > 0 {
			first = wire.RequestSpace
		}
		start := e.out.Bytes()
		again = t.sendSpace(first, budget/2, &burst)
		middle := e.out.Bytes()
		if t.sendSpace(1-first, budget-(middle-start), &burst) {
			again = true
		}
		d := 2*middle - start - e.out.Bytes() // what the first sent more than the second
		if first == wire.RequestSpace {
			d = -d
		}
		t.lean = max(min(t.lean+d, mostShare), -mostShare)
		return again
	}
	start := e.out.Bytes()
	if request {
		again = t.sendRequests(budget, &burst)
	} else {
		again = t.sendResponses(budget, &burst)
	}
	if e.out.Bytes() != start {
		t.lean = 0 // one that the window holds keeps its turn
	}
	return again
}

func (t *traffic) sendSpace(space wire.Space, budget int, burst *int) (again bool) {
	if space == wire.RequestSpace {
		return t.sendRequests(budget, burst)
	}
	return t.sendResponses(budget, burst)
}

// hasWork says whether there is anything to transmit, now or when something allows it.
func (t *traffic) hasWork(q *initiatorQueue) bool {
	return t.sent.spaces[0].HasAgain() || t.sent.spaces[1].HasAgain() || t.hasResponses() || q != nil && q.next != q.posted.Load()
}

func (t *traffic) hasResponses() bool { return t.served.Left(t.sent.spaces[wire.ResponseSpace].Next()) }

// lookForRequests says whether a request may go out, and notes what the next one waits for.
func (t *traffic) lookForRequests() bool {
	if !t.requesting() || t.sent.paused {
		return false
	}
	h := t.requests.hold(&t.conn.qp.sq, t.conn.qp.sq.at(), t.sent.cc.Window)
	t.noteHold(h)
	return h == holdNone
}

// ackLine is the connections that have an acknowledgement to send, each once.
type ackLine struct{ conns []*conn }

// join puts a connection in line.
func (l *ackLine) join(c *conn) {
	if !c.places.inAcks {
		c.places.inAcks = true
		l.conns = append(l.conns, c)
	}
}

// leave takes out a connection that may be in line.
func (l *ackLine) leave(c *conn) {
	if i := slices.Index(l.conns, c); i >= 0 {
		l.conns = slices.Delete(l.conns, i, i+1)
	}
	c.places.inAcks = false
}

// send sends the acknowledgements that are due, once for each connection and turn at the most.
func (l *ackLine) send() {
	keep := l.conns[:0]
	for _, c := range l.conns {
		speak, wait := false, false
		if c.phase != phaseFree {
			speak, wait = c.traffic.received.ack.Turn()
		}
		if speak {
			c.withTraffic(func(t *traffic) { wait = !t.sendAck() })
		}
		if wait { // without frames: the next turn
			keep = append(keep, c)
			continue
		}
		c.places.inAcks = false
		if speak && c.phase == phaseLingering {
			c.touch() // it waited for this
		}
	}
	clear(l.conns[len(keep):])
	l.conns = keep
}

// heardLine is the connections that have heard from their peers in this receive batch, each once.
type heardLine struct{ conns []*conn }

// join puts a connection in line.
func (l *heardLine) join(c *conn) {
	if !c.places.inHeard {
		c.places.inHeard = true
		l.conns = append(l.conns, c)
	}
}

// conclude lets the controllers of every connection that heard something draw their conclusions, once per receive batch.
func (l *heardLine) conclude(ctl congestion.Control, turns *turn.Clock, now clock.Time) {
	for i, c := range l.conns {
		l.conns[i] = nil
		c.places.inHeard = false
		if c.phase != phaseOpen {
			c.traffic.sent.cc.Discard()
			continue
		}
		c.traffic.sent.cc.Conclude(ctl, congestion.Path{Now: now, Own: turns.OwnPart(), Smoothed: c.rtt.Smoothed, Idle: c.traffic.sent.loss.Idle()})
		if base := c.traffic.sent.cc.Base(); base > 0 {
			c.rtt.Min = base
		}
	}
	l.conns = l.conns[:0]
}

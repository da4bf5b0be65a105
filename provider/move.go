package provider

import (
	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/interleave"
	"github.com/ndxdp/ndxdp/provider/internal/link"
	"github.com/ndxdp/ndxdp/wire"
)

// This file moves open connections between the engines of an adapter. A NIC queue delivers to the socket bound to it and to
// no other, and which queue a peer's packets land on is the NIC's choice. A packet on the wrong queue is handed to the engine
// whose connection it is for, and counted; a connection whose packets keep landing elsewhere follows them.

// residence is the engine that a connection is on, and where its packets come from.
type residence struct {
	engine    *Engine                    // the owner's view of home
	home      interleave.Pointer[Engine] // whose it is; nil while it moves
	misrouted misrouted                  // packets that landed on another engine's queue
}

// followAfter is how many packets in a row must land on another queue before a connection follows them there. It doubles
// with every move, so that a path that scatters its packets does not make a connection move all the time.
const followAfter = 32

// maxMoves is how many moves still double that: it fits misrouted.count.
const maxMoves = 20

const _ = uint(255 - MaxEngines)

// numberOf returns the number of an engine's link.
func numberOf(e *Engine) link.Number { return link.Number(e.index + 1) }

// misrouted counts the newest packets of a connection that did not land on its engine's queue.
type misrouted struct {
	count  uint32      // how many in a row
	from   link.Number // where they landed; none when the newest one landed right
	target link.Number // where the connection goes at the end of the turn; none to stay
	moves  uint8
}

// landed notes where a packet landed; none for our own queue. It reports whether so many landed there that the connection should follow.
func (m *misrouted) landed(from link.Number) (follow bool) {
	if from != m.from {
		m.from, m.count = from, 0
	}
	if from == 0 {
		return false
	}
	m.count++
	return m.count >= followAfter<<m.moves
}

// leave begins to count anew, at the next engine.
func (m *misrouted) leave() { *m = misrouted{moves: min(m.moves+1, maxMoves)} }

// follow notes where a packet landed: on another queue, or on our own when that is none.
func (c *conn) follow(origin link.Number) {
	if c.misrouted.landed(origin) && c.phase == phaseOpen {
		c.moveTo(c.engine.group.at(origin))
	}
}

// chooseEngine chooses the engine of a connection that has just opened: the queue its peer's last packet landed on. That says nothing
// when it was the leader's, because that is where every handshake is answered from; the active side then spreads.
func (c *conn) chooseEngine() {
	g := c.engine.group
	switch {
	case len(g.engines) == 1:
	case c.misrouted.from != 0:
		c.moveTo(g.at(c.misrouted.from))
	case c.active:
		c.moveTo(g.engines[int(wire.SourcePort(c.id))%len(g.engines)])
	}
}

// moveTo makes the connection leave for another engine at the end of the turn.
func (c *conn) moveTo(to *Engine) {
	if to != c.engine {
		c.misrouted.target = numberOf(to)
		c.touch()
	}
}

// handOver hands the connection over, with its queue pair and connector (I11). One with packets that wait behind a gap stays until
// its target is chosen again: their memory is of the engine's store.
func (c *conn) handOver() {
	e, to := c.engine, c.engine.group.at(c.misrouted.target)
	c.misrouted.target = 0
	if c.phase == phaseFree || c.traffic != nil && (c.inHeard || c.phase == phaseOpen && c.gapsOpen()) {
		return
	}
	if c.traffic != nil {
		c.closeAccount()
	}
	c.misrouted.leave()
	mac := e.link.Hop(c.path)
	forgetBulk(c)
	e.round.leave(c)
	e.acks.leave(c)
	e.timers.deadlines.Set(c.slot, clock.Never)
	c.home.Store(nil)
	if c.qp != nil {
		c.qp.home.Store(nil)
	}
	if c.connector != nil {
		c.connector.home.Store(nil)
	}
	if c.phase == phaseOpen {
		e.limitTotals.Exit(e.now, c.limit())
	}
	e.stats.Moved++
	e.flight.Note(e.now, FlightMove, c.id, uint32(e.index), uint32(to.index))
	to.inbox.call(func(to *Engine) { to.takeOver(c, mac) })
}

// takeOver takes a connection that left another engine, by a path to mac. The connection keeps its old path until it has the new one,
// because two paths from one source port may share a socket. If the link refuses the path, the connection goes back. An ended connection
// cannot go back, because only the leader keeps ended connections. It is freed, and its peer gets an RST when it asks again.
func (e *Engine) takeOver(c *conn, mac [6]byte) {
	from, old := c.engine, c.path
	path, ok := replyPath(e, c, mac, c.local.Port, c.peerPort)
	if !ok && c.phase != phaseLingering {
		from.inbox.call(func(from *Engine) { settle(from, c, old) })
		return
	}
	from.inbox.call(func(from *Engine) { from.forget(old) })
	settle(e, c, path)
	if !ok {
		c.path = 0
		c.free()
	}
}

// settle makes the connection, with its queue pair and connector, an engine's.
func settle(e *Engine, c *conn, path Path) {
	c.engine, c.path = e, path
	if c.traffic != nil {
		c.stand(setting{&e.environment, &c.lasting})
		c.openAccount()
	}
	k, qp := c.connector, c.qp
	if k != nil {
		k.engine = e
		k.home.Store(e)
	}
	if qp != nil {
		qp.recvCQ.ServedBy(e.index)
		qp.initCQ.ServedBy(e.index)
		qp.home.Store(e)
	}
	c.home.Store(e)
	if c.phase == phaseOpen {
		e.limitTotals.Enter(e.now, c.limit())
	}
	c.fitLink()
	c.touch()
	if c.phase == phaseLingering {
		c.startLingering()
		return
	}
	c.leaveIdle()
	c.raise(c.ack.Urgency())
	c.activate()
	c.heed()
	if qp != nil {
		qp.answer(e) // what was posted on the way
	}
	if e.inbox.over {
		e.Shutdown()
	}
}

// receiveForeign takes a packet whose connection is another engine's, or was.
func (e *Engine) receiveForeign(c *conn, p *RxPacket, h wire.BaseHeader) (d wire.DropReason, keeps kept) {
	home := c.home.Load()
	if home == nil {
		e.inbox.runCalls(e) // it may be on its way here
		home = c.home.Load()
	}
	switch home {
	case nil:
		return wire.DropWrongQueue, keptNothing
	case e:
		return e.deliver(c, p, h)
	}
	passOn(e, home, p)
	return wire.DropNone, keptFrames
}

// own runs f as the owner of what is at home there, wherever that is.
func own(lead *Engine, home *interleave.Pointer[Engine], f func(*Engine)) {
	for done := false; !done; {
		e := home.Load()
		if e == nil {
			// It is moving. The engine that it goes to may be closed, and then handles its inbox only when it is called.
			for _, e := range lead.group.engines {
				e.do(func(e *Engine) { e.inbox.runCalls(e) })
			}
			interleave.Gosched()
			continue
		}
		e.do(func(e *Engine) {
			if done = home.Load() == e; done {
				f(e)
			}
		})
	}
}

// do runs f as the owner of the engine: through its shard, or here and now when nothing runs it but the caller.
func (e *Engine) do(f func(*Engine)) {
	if e.shard != nil {
		e.shard.Do(f)
		return
	}
	e.inbox.runCalls(e)
	f(e)
}

// Own runs f as the owner of the connector. f must not block.
func (k *Connector) Own(f func(*Engine)) { own(k.lead, &k.home, f) }

// Own runs f as the owner of the queue pair. f must not block.
func (qp *QP) Own(f func(*Engine)) { own(qp.lead, &qp.home, f) }

// Shard returns who runs the queue pair's engine now; nil when its caller does.
func (qp *QP) Shard() *Shard {
	if e := qp.home.Load(); e != nil {
		return e.shard
	}
	return qp.lead.shard
}

// Ring makes posted work move, after a post that asks for it. The engine must have a shard: one that a test runs itself has none, so
// Ring panics there, and the test's next Run takes the work.
func (qp *QP) Ring() { qp.Shard().Ring() }

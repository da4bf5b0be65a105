package provider

import (
	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/interleave"
	"github.com/ndxdp/ndxdp/provider/internal/link"
	"github.com/ndxdp/ndxdp/wire"
)

// This file moves open connections between the engines of an adapter. The NIC chooses the queue of a peer's packets, and a queue
// delivers only to its own socket. A packet on the wrong queue is passed to the engine of its connection, and counted. If a
// connection's packets keep arriving on another queue, the connection moves there.

// followAfter is the number of successive packets on another queue after which a connection moves there. It doubles with every
// move, so that a path that scatters its packets does not cause constant moves.
const followAfter = 32

// maxMoves is the number of moves that double it, so that misrouted.count does not overflow.
const maxMoves = 20

const _ = uint(255 - MaxEngines)

// numberOf returns the number of an engine's link.
func numberOf(e *Engine) link.Number { return link.Number(e.index + 1) }

// misrouted counts the newest packets of a connection that arrived on another queue than its engine's.
type misrouted struct {
	count  uint32      // number of successive packets
	from   link.Number // where they arrived; none if the newest one arrived on the right queue
	target link.Number // engine to move to at the end of the poll; none to stay
	moves  uint8
}

// landed records where a packet arrived; none is the engine's own queue. It reports whether the connection should move there.
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

// leave resets the count after a move.
func (m *misrouted) leave() { *m = misrouted{moves: min(m.moves+1, maxMoves)} }

// follow records where a packet arrived; none is the engine's own queue.
func (c *conn) follow(origin link.Number) {
	if c.misrouted.landed(origin) && c.phase == phaseOpen {
		c.moveTo(c.engine.group.at(origin))
	}
}

// chooseEngine chooses the engine of a connection that has just opened: the queue on which the peer's last packet arrived. The
// leader's queue means nothing, because the leader answers every handshake; the active side then spreads connections.
func (c *conn) chooseEngine() {
	g := c.engine.group
	switch {
	case len(g.engines) == 1:
	case c.misrouted.from != 0:
		c.moveTo(g.at(c.misrouted.from))
	case c.identity.active:
		c.moveTo(g.engines[int(wire.SourcePort(c.identity.id))%len(g.engines)])
	}
}

// moveTo makes the connection move to another engine at the end of the poll.
func (c *conn) moveTo(to *Engine) {
	if to != c.engine {
		c.misrouted.target = numberOf(to)
		c.touch()
	}
}

// handOver passes the connection with its queue pair and connector to another engine (I11). A connection that has packets behind a
// gap stays until its target is chosen again, because their memory belongs to the engine's store.
func (c *conn) handOver() {
	e, to := c.engine, c.engine.group.at(c.misrouted.target)
	c.misrouted.target = 0
	if c.phase == phaseFree || c.traffic != nil && (c.places.inHeard || c.phase == phaseOpen && c.traffic.received.gapsOpen()) {
		return
	}
	if c.traffic != nil {
		c.traffic.closeAccount()
	}
	c.misrouted.leave()
	mac := e.link.Hop(c.identity.path)
	forgetBulk(c)
	e.round.leave(c)
	e.acks.leave(c)
	e.timers.deadlines.Set(c.identity.slot, clock.Never)
	c.home.Store(nil)
	if c.qp != nil {
		c.qp.home.Store(nil)
	}
	if c.connector != nil {
		c.connector.home.Store(nil)
	}
	if c.phase == phaseOpen {
		e.limitTotals.Exit(e.now, c.traffic.limit())
	}
	e.stats.Moved++
	e.flight.Note(e.now, FlightMove, c.identity.id, uint32(e.index), uint32(to.index))
	to.inbox.call(func(to *Engine) { to.takeOver(c, mac) })
}

// takeOver receives a connection from another engine, with a path to mac. The connection keeps its old path until it has the new
// one, because two paths from one source port may share a socket. If the link provides no path, the connection returns. An ended
// connection cannot return, because only the leader keeps ended connections. It is freed, and its peer gets an RST when it asks
// again.
func (e *Engine) takeOver(c *conn, mac [6]byte) {
	from, old := c.engine, c.identity.path
	path, ok := replyPath(e, c, mac, c.identity.local.Port, c.identity.peerPort)
	if !ok && c.phase != phaseLingering {
		from.inbox.call(func(from *Engine) { settle(from, c, old) })
		return
	}
	from.inbox.call(func(from *Engine) { from.forget(old) })
	settle(e, c, path)
	if !ok {
		c.identity.path = 0
		c.free()
	}
}

// settle makes the connection, its queue pair and its connector part of an engine.
func settle(e *Engine, c *conn, path Path) {
	c.engine, c.identity.path = e, path
	if c.traffic != nil {
		c.traffic.stand(e, c)
		c.traffic.openAccount()
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
		e.limitTotals.Enter(e.now, c.traffic.limit())
	}
	c.fitLink()
	c.touch()
	if c.phase == phaseLingering {
		c.startLingering(false)
		return
	}
	c.withTraffic(func(t *traffic) {
		t.received.raise(t.received.ack.Urgency())
		c.want(wantTurn)
	})
	if qp != nil {
		qp.answer(e) // requests posted during the move
	}
	if e.inbox.over {
		e.Shutdown()
	}
}

// receiveForeign handles a packet whose connection belongs, or belonged, to another engine.
func (e *Engine) receiveForeign(c *conn, p *RxPacket, h wire.BaseHeader) (d wire.DropReason, keeps kept) {
	home := c.home.Load()
	if home == nil {
		e.inbox.runCalls(e) // the connection may be in the inbox
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

// own runs f as the owner of an object, on whichever engine the object is.
func own(lead *Engine, home *interleave.Pointer[Engine], f func(*Engine)) {
	for done := false; !done; {
		e := home.Load()
		if e == nil {
			// The object is moving. A closed engine, to which it may move, handles its inbox only when somebody calls the engine.
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

// do runs f as the owner of the engine: through its shard, or directly if only the caller runs the engine.
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

// Shard returns the shard of the queue pair's engine, or nil if the caller runs the engine.
func (qp *QP) Shard() *Shard {
	if e := qp.home.Load(); e != nil {
		return e.shard
	}
	return qp.lead.shard
}

// Ring makes the engine handle posted requests, after a post that asks for it. The engine must have a shard. Ring panics for an
// engine that a test runs directly; the test's next Run handles the requests.
func (qp *QP) Ring() { qp.Shard().Ring() }

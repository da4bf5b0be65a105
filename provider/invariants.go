package provider

import (
	"fmt"

	"github.com/ndxdp/ndxdp/wire"
)

// Violation says which invariant of the engine does not hold; it is empty when all do. It looks at everything, so it is for
// simulations and tests. The owner of all engines of the adapter calls it between turns.
func (e *Engine) Violation() string {
	waiting := 0
	for c := range e.group.conns.all {
		if c.home.Load() != e || c.traffic == nil {
			continue // another engine's, or idle and so with nothing under way
		}
		for sp := range c.rx {
			if held := c.rx[sp].held; held != nil {
				for _, h := range held {
					if h != 0 {
						waiting++
					}
				}
			}
		}
		if c.phase != phaseOpen {
			continue
		}
		if what := c.violation(); what != "" {
			return fmt.Sprintf("connection %016x: %s", c.id, what)
		}
	}
	switch {
	case waiting != e.received.waiting():
		return fmt.Sprintf("%d packets wait in %d places", waiting, e.received.waiting())
	case e.guard.Sources.HalfOpen() < 0:
		return fmt.Sprintf("%d connections are half-open", e.guard.Sources.HalfOpen())
	case e.stats.IllegalTransitions != 0:
		return fmt.Sprintf("%d illegal transitions", e.stats.IllegalTransitions)
	}
	e.group.mu.Lock()
	defer e.group.mu.Unlock()
	for qp := range e.group.qps {
		if qp.home.Load() != e {
			continue
		}
		if what := qp.violation(); what != "" {
			return what
		}
	}
	return ""
}

// violation checks the windows of an open connection: none is ever negative, or larger than was granted.
func (c *conn) violation() string {
	for i := range c.tx {
		sp := &c.tx[i]
		out := int(sp.outstanding())
		if sp.inFlight < 0 || sp.lost < 0 || sp.sacked < 0 || sp.inFlight+sp.lost+sp.sacked != out || out > int(c.peerWindow) {
			return fmt.Sprintf("%s space: %d in flight, %d lost, %d acknowledged beyond the oldest, %d outstanding of %d",
				wire.Space(i), sp.inFlight, sp.lost, sp.sacked, out, c.peerWindow)
		}
	}
	switch cc := &c.cc; {
	case c.mtu.Packet < wire.MinPacket || c.mtu.Packet > c.mtu.Ceiling || c.assembling > maxAssemblies:
		return fmt.Sprintf("packets of %d bytes, at most %d; %d in parts", c.mtu.Packet, c.mtu.Ceiling, c.assembling)
	case !cc.Valid():
		return fmt.Sprintf("congestion window: %+v", *cc)
	case int32(c.sendLimit-c.nextSend) < 0 && c.engine.group.pauses() == 0: // RNR takes promises back
		return fmt.Sprintf("SEND %d went out, the limit is %d", c.nextSend-1, c.sendLimit)
	case c.reads.count > c.ord:
		return fmt.Sprintf("%d READs are out, the limit is %d", c.reads.count, c.ord)
	case c.served.tail-c.served.head > c.ird:
		return fmt.Sprintf("%d READs are served, the limit is %d", c.served.tail-c.served.head, c.ird)
	}
	return ""
}

// violation checks the order of a queue pair's indices.
func (qp *QP) violation() string {
	sq, rq := &qp.sq, &qp.rq
	head, posted := sq.head.Load(), sq.posted.Load()
	if sq.next-head > posted-head || posted-head > sq.depth {
		return fmt.Sprintf("initiator queue: done up to %d, sent up to %d, posted up to %d, of %d", head, sq.next, posted, sq.depth)
	}
	depth := rq.depth
	if qp.srq != nil {
		depth = 1 // the one that is taken from it
	}
	if n := rq.posted.Load() - rq.head.Load(); n > depth {
		return fmt.Sprintf("receive queue: %d of %d", n, depth)
	}
	return ""
}

// Leftover says what the engine still holds; it is empty when connections, listeners and connectors have all gone and
// everything was given back, but for transmit frames kept at hand (FramesHeld). What is made on one engine may be given back on
// another: the pools of all must balance together. The owner of all engines of the adapter calls it between turns.
func (e *Engine) Leftover() string {
	switch {
	case e.stats.Connections != 0:
		return "a connection is left"
	case !e.directory.empty():
		return "a peer, tuple, port, listener or request is left"
	case e.guard.Sources.Len() != 0 || e.guard.Sources.HalfOpen() != 0:
		return "a source has a share of nothing"
	case e.received.waiting() != 0:
		return "a receive frame is missing"
	case e.group.poolUse() != (PoolUse{}):
		return fmt.Sprintf("of the pools is left %+v", e.group.poolUse())
	case e.timers.deadlines.Len() != 0:
		return "a deadline is left"
	}
	return e.Violation()
}

// poolUse sums up what connections have from the pools of all engines: a connection takes it along when it moves.
func (g *group) poolUse() (sum PoolUse) {
	for _, e := range g.engines {
		use := e.PoolUse()
		sum.Traffic += use.Traffic
		sum.ShortFlights += use.ShortFlights
		sum.WholeFlights += use.WholeFlights
		sum.Gaps += use.Gaps
		sum.Numbers += use.Numbers
	}
	return sum
}

// pauses sums up the pauses that all engines counted.
func (g *group) pauses() (sum uint64) {
	for _, e := range g.engines {
		sum += e.stats.Pauses
	}
	return sum
}

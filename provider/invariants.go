package provider

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/wire"
)

// Violation says which invariant of the engine does not hold; it is empty when all do. It looks at everything, so it is for
// simulations and tests. The owner of all engines of the adapter calls it between turns.
func (e *Engine) Violation() string {
	waiting := 0 // bytes, with what records are charged for
	for c := range e.group.conns.all {
		if c.home.Load() != e || c.traffic == nil {
			continue // another engine's, or idle and so with nothing under way
		}
		waiting += c.traffic.sent.charged
		for sp := range c.traffic.received.spaces {
			waiting += c.traffic.received.spaces[sp].gaps.Bytes()
		}
		if c.wanted != 0 || c.faulted != faultNone {
			return fmt.Sprintf("connection %016x: work outside of withTraffic left wants %b, fault %d", c.identity.id, c.wanted, c.faulted)
		}
		if c.phase != phaseOpen {
			continue
		}
		if what := c.traffic.violation(e.group.pauses() > 0); what != "" {
			return fmt.Sprintf("connection %016x: %s", c.identity.id, what)
		}
	}
	switch {
	case waiting != e.store.Used():
		return fmt.Sprintf("packets that wait and records take %d bytes of memory, %d are counted", waiting, e.store.Used())
	case e.guard.Sources.Unproven() < 0:
		return fmt.Sprintf("%d half-open connections may lack a cookie", e.guard.Sources.Unproven())
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

// violation checks the windows of an open connection: none is ever negative, or larger than was granted; and that nothing that has to
// arrive is forgotten.
func (t *traffic) violation(paused bool) string {
	for i := range t.sent.spaces {
		sp := &t.sent.spaces[i]
		if what := sp.Violation(); what != "" {
			return fmt.Sprintf("%s space: %s", wire.Space(i), what)
		}
		if what := t.sent.forgotten(recovery.Kind(i)); what != "" {
			return fmt.Sprintf("%s space: %s", wire.Space(i), what)
		}
	}
	if what := t.sent.packets.Violation(); what != "" {
		return what
	}
	switch cc := &t.sent.cc; {
	case t.conn.mtu.Packet < wire.MinPacket || t.conn.mtu.Packet > t.conn.mtu.Ceiling:
		return fmt.Sprintf("packets of %d bytes, at most %d", t.conn.mtu.Packet, t.conn.mtu.Ceiling)
	case !cc.Valid():
		return fmt.Sprintf("congestion window: %+v", *cc)
	case int32(t.requests.numbers.sendLimit-t.requests.numbers.nextSend) < 0 && !paused: // RNR takes promises back
		return fmt.Sprintf("SEND %d went out, the limit is %d", t.requests.numbers.nextSend-1, t.requests.numbers.sendLimit)
	case t.requests.reads.Waiting() > t.requests.numbers.ord:
		return fmt.Sprintf("%d READs are out, the limit is %d", t.requests.reads.Waiting(), t.requests.numbers.ord)
	case t.served.Waiting() > t.conn.ird:
		return fmt.Sprintf("%d READs are served, the limit is %d", t.served.Waiting(), t.conn.ird)
	}
	return ""
}

// forgotten says that something is missing at the peer that is neither in flight nor to be sent again.
func (s *sentState) forgotten(kind recovery.Kind) string {
	sp := &s.spaces[kind]
	var underWay []*recovery.Packet
	for n := s.packets.Oldest(); n < s.packets.Next(); n++ {
		if p := s.packets.Packet(n); p.InFlight() && p.Kind == kind {
			underWay = append(underWay, p)
		}
	}
	at := sp.Una()
	slices.SortFunc(underWay, func(p, q *recovery.Packet) int { return cmp.Compare(int64(p.From-q.From), 0) })
	for _, p := range underWay {
		if hole, ok := sp.Hole(at, p.From); ok {
			return fmt.Sprintf("nobody sends %v again", hole)
		}
		if at.Before(p.To) {
			at = p.To
		}
	}
	if hole, ok := sp.Hole(at, sp.Next()); ok {
		return fmt.Sprintf("nobody sends %v again", hole)
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
		depth = 1 // the receive that is taken from it
	}
	if n := rq.posted.Load() - rq.head.Load(); n > depth {
		return fmt.Sprintf("receive queue: %d of %d", n, depth)
	}
	return ""
}

// Leftover says what the engine still holds. It is empty if all connections, listeners and connectors are gone and everything was
// given back, except transmit frames kept at hand (FramesHeld). An object that was taken on one engine may be given back on another,
// so the pools of all engines must balance together. The owner of all engines of the adapter calls it between polls.
func (e *Engine) Leftover() string {
	switch {
	case e.stats.Connections != 0:
		return "a connection is left"
	case !e.directory.empty():
		return "a peer, tuple, port, listener or request is left"
	case e.guard.Sources.Len() != 0 || e.guard.Sources.Unproven() != 0:
		return "a source has a share of nothing"
	case e.store.Used() != 0:
		return "a packet waits for nobody"
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

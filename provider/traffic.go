package provider

import (
	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/congestion"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/provider/internal/trace"
	"github.com/ndxdp/ndxdp/wire"
)

// This file keeps idle connections small. What a connection needs only while data moves is taken from pools when something
// happens on it, and given back when nothing did for Config.IdleAfter: never at each emptying, so that a ping-pong does not take and
// return with every message. An idle connection keeps who the two ends are, its numbers, and its timers.

// traffic is the state of moving data, in both directions. It is there from the first packet until the connection is
// idle for the first time, and from leaveIdle until it is idle again.
type traffic struct {
	// Sending.
	tx         [wire.NumSpaces]sendSpace
	cc         congestion.State
	sent       recovery.Sent
	numbers    [shortNumbers]recovery.Packet // sent's ring, while that suffices
	recovery   lossRecovery
	search     congestion.Search
	reads      outstandingReads
	blockedAt  clock.Time // since when the head SEND waits for a receive; zero when it does not
	askAt      clock.Time // when to ask for the receive limit, while blockedAt
	pacedUntil clock.Time // the pacing timer; zero when nothing waits for it
	concludes  bool       // in Engine.heardConns
	paused     bool       // RNR: nothing of the request space goes out
	hasPaused  bool       // it was paused before
	term       wire.Op    // the TERM to send, when termQueued
	termPSN    wire.PSN
	deficit    int // bytes left of the connection's share of a round
	limitTimes trace.LimitTimes
	sample     trace.Sample
	lean       int // bytes that responses were sent more than requests, while both waited

	termQueued, termSent bool

	// Receiving.
	rx       [wire.NumSpaces]recvSpace
	received space.Received
	takenIn  uint64 // our packet that tells what was taken back, while its arrival is awaited; else zero
	served   servedReads
	ack      ackState

	assembling uint8 // packets of which some parts have arrived
}

// idleState is what remains of the traffic of an idle connection: numbers with nothing between them.
type idleState struct {
	tx, rx      [wire.NumSpaces]wire.PSN
	next, heard uint64 // packet numbers: our next one, the peer's largest
	served      uint32 // read id the peer uses next
	deficit     int32
	limited     trace.LimitHistory
}

// shortFlight is how many packets a connection may have in flight in a space before it takes the records for a whole window:
// the initial window, and far more than small messages need. A record ring that small also stays in the cache.
const shortFlight = 16

// A connection remembers shortNumbers transmissions, and wholeNumbers once there are more that may still get lost. With two windows in
// flight the latter leaves room for as many repetitions and acknowledgements between them.
const (
	shortNumbers = 64
	wholeNumbers = 4 * Window
)

const _ = uint(Window - shortFlight)

// pools hold what idle connections gave back. All of it is memory of the Go heap: a connection may give to other
// pools than it took from.
type pools struct {
	traffic pool[traffic]
	short   pool[[shortFlight]txRecord]
	whole   pool[[Window]txRecord]
	gaps    pool[[Window]heldPacket]
	numbers pool[[wholeNumbers]recovery.Packet]
}

// pool is a list of free objects.
type pool[T any] struct {
	free []*T
	out  int // taken and not given back
}

// poolSpare is how many free objects a pool keeps beyond as many as are in use.
const poolSpare = 64

// get returns an object in the state in which it was given back; a new one is zero.
func (p *pool[T]) get() *T {
	p.out++
	last := len(p.free) - 1
	if last < 0 {
		return new(T)
	}
	x := p.free[last]
	p.free[last] = nil
	p.free = p.free[:last]
	return x
}

// put takes an object back. What is not likely to be needed is left to the garbage collector.
func (p *pool[T]) put(x *T) {
	p.out--
	if keep := max(p.out, 0) + poolSpare; len(p.free) < keep {
		p.free = append(p.free, x)
	} else if len(p.free) > keep {
		clear(p.free[keep:])
		p.free = p.free[:keep]
	}
}

// PoolUse is how many objects of the engine's pools connections have.
type PoolUse struct{ Traffic, ShortFlights, WholeFlights, Gaps, Numbers int }

// PoolUse tells what connections have from the engine's pools. All is zero when no connection is left. The owner calls it.
func (e *Engine) PoolUse() PoolUse {
	p := &e.pools
	return PoolUse{p.traffic.out, p.short.out, p.whole.out, p.gaps.out, p.numbers.out}
}

// leaveIdle makes the connection ready to move data. Whatever can happen to an idle connection begins with it.
func (c *conn) leaveIdle() {
	if c.traffic == nil {
		c.takeTraffic()
	}
}

// takeTraffic takes the state of moving data from the pool. The congestion window starts anew: nobody knows what the path bears by now (RFC 5681 §4.1).
func (c *conn) takeTraffic() {
	e, p := c.engine, &c.idle
	t := e.pools.traffic.get()
	*t = traffic{deficit: int(p.deficit)}
	for sp := range t.tx {
		t.tx[sp].next, t.tx[sp].una = p.tx[sp], p.tx[sp]
		t.rx[sp].next = p.rx[sp]
	}
	t.reads.head = c.nextRead
	t.served.head, t.served.next.seq, t.served.tail = p.served, p.served, p.served
	t.sent.Start(uint64(c.firstNumber), p.next, t.numbers[:])
	t.received.Resume(p.heard)
	t.cc.Reset(e.controller, int(c.mtu.Packet))
	t.search.At = c.mtu.SearchAt(e.now)
	t.limitTimes.Begin(e.now)
	c.traffic = t
	c.idleAt = e.now.Add(e.cfg.IdleAfter)
	c.touch()
}

// enterIdle gives back what only moving data needs. Nothing is under way, or the connection is over.
func (c *conn) enterIdle() {
	t := c.traffic
	if t == nil {
		return
	}
	c.limitedBy(LimitApplication)
	limited := c.idle.limited
	limited.Add(&t.limitTimes)
	c.idle = idleState{
		next: t.sent.Next(), heard: t.received.Largest(),
		served: t.served.tail, deficit: int32(t.deficit), limited: limited,
	}
	c.dropParts()
	pools := &c.engine.pools
	for sp := range t.tx {
		c.idle.tx[sp], c.idle.rx[sp] = t.tx[sp].next, t.rx[sp].next
		pools.giveFlight(t.tx[sp].records)
		t.tx[sp].records = nil
		if t.rx[sp].held != nil {
			pools.gaps.put(t.rx[sp].held)
			t.rx[sp].held = nil
		}
	}
	if ring := t.sent.Ring(); len(ring) == wholeNumbers {
		pools.numbers.put((*[wholeNumbers]recovery.Packet)(ring))
	}
	pools.traffic.put(t)
	c.traffic = nil
	c.idleAt = 0
}

// enterIdleIfQuiet makes the connection idle when nothing came for Config.IdleAfter and nothing is under way, and otherwise says when to look
// again.
func (c *conn) enterIdleIfQuiet() {
	e := c.engine
	if at := c.alive.HeardAt().Add(e.cfg.IdleAfter); at > e.now {
		c.idleAt = at
		return
	}
	if c.hasWorkUnderWay() {
		c.idleAt = e.now.Add(e.cfg.IdleAfter)
		return
	}
	c.handshake = nil // no REQ will need an answer any more
	c.enterIdle()
}

// hasWorkUnderWay says that something is under way which the numbers of idleState do not tell.
func (c *conn) hasWorkUnderWay() bool {
	for sp := range c.tx {
		if c.tx[sp].outstanding() > 0 || c.rx[sp].holes {
			return true
		}
	}
	s := &c.served
	return c.inActive || c.inAcks || c.concludes || c.pacedUntil != 0 || c.ack.urgency != ackNone || c.blockedAt != 0 ||
		c.wait != (receiveWait{}) || c.termQueued || c.reads.count > 0 || s.head != s.tail || c.awaitsParts()
}

// extendFlight makes room for the record of another packet.
func (c *conn) extendFlight(sp *sendSpace) {
	pools := &c.engine.pools
	old := sp.records
	if old == nil {
		sp.records = pools.short.get()[:]
		return
	}
	sp.records = pools.whole.get()[:]
	for psn := sp.una; psn != sp.next; psn++ {
		*sp.record(psn) = old[uint32(psn)%shortFlight]
	}
	pools.giveFlight(old)
}

// giveFlight gives the records of a space back.
func (p *pools) giveFlight(records []txRecord) {
	switch len(records) {
	case shortFlight:
		p.short.put((*[shortFlight]txRecord)(records))
	case Window:
		p.whole.put((*[Window]txRecord)(records))
	}
}

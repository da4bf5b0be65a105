package provider

import (
	"math/bits"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/answers"
	"github.com/ndxdp/ndxdp/provider/internal/bulk"
	"github.com/ndxdp/ndxdp/provider/internal/congestion"
	"github.com/ndxdp/ndxdp/provider/internal/credit"
	"github.com/ndxdp/ndxdp/provider/internal/pool"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/provider/internal/shares"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/provider/internal/trace"
	"github.com/ndxdp/ndxdp/wire"
)

// This file keeps idle connections small. State that a connection needs only while data moves is taken from pools when data moves, and
// returned after Config.IdleAfter without packets. It is not returned each time the connection has nothing to do, so that a ping-pong does
// not take and return it for every message. An idle connection keeps its identity, its numbers, and its timers.

// traffic is the state of moving data, in both directions. It is there from the first packet until the connection is
// idle for the first time, and from leaveIdle until it is idle again.
type traffic struct {
	repeater
}

// repeater handles the peer's reports about sent packets, retransmits contents that did not arrive, and lets new contents follow.
type repeater struct {
	sender
	refusedTo uint64 // number of ours up to which the peer last took back what it had acknowledged
}

// sender sends requests and READ responses, as far as the congestion window, the peer's window, the connection's share of the round and
// the free frames allow.
type sender struct {
	outbound
	requester
	served     answers.Queue
	deficit    int // bytes left of the connection's share of a round
	sends      shares.Sends
	fullByBulk bool // the packet at hand leaves by the bulk lane if it gets full
	lean       int  // bytes that responses were sent more than requests, while both waited
	limitTimes trace.LimitTimes
}

// outbound writes the packets of a connection: what begins each one, the acknowledgements beside it, its number, and whole control packets.
type outbound struct {
	setting
	receiving
	transmitted
}

// transmitted is the state of sent packets: packets in flight, contents to send again, and what acknowledgements say of the path. It sends
// nothing.
type transmitted struct {
	setting
	tx         [wire.NumSpaces]space.Send
	bulk       bulk.Choice
	bulkPath   Path                        // of the engine's bulk lane; zero before the first probe
	bulkTo     [wire.NumSpaces]space.Place // what follows on these goes by the bulk lane too, until they are acknowledged
	sent       recovery.Sent
	numbers    [shortNumbers]recovery.Packet // sent's ring, while that suffices
	account    *space.Account                // of the peer's source
	charged    int                           // bytes of sent's ring on it
	loss       recovery.Detector
	cc         congestion.State
	runs       congestion.Runs
	search     congestion.Search
	pacedUntil clock.Time   // when pacing, or a silence, lets the next packet go; zero when nothing waits for it
	sample     trace.Sample // of the request that is watched
	paused     bool         // RNR: nothing of the request space goes out
}

// receiving is the state of received packets and what to report about them: packet numbers, the next offset in each space, packets behind a
// gap, receives, marks. It sends nothing.
type receiving struct {
	setting
	rx       [wire.NumSpaces]recvSpace
	received space.Received
	takenIn  uint64 // our packet that tells what was taken back, while its arrival is awaited; else zero
	ack      recovery.Acks
	woke     bool // the packet under way ended a SEND that wakes its receiver
}

// stand puts the objects of a connection's traffic where they work. The pool's stand nowhere.
func (t *traffic) stand(s setting) {
	t.setting, t.receiving.setting, t.transmitted.setting = s, s, s
	t.requestNumbers = nil
	if s.lasting != nil {
		t.requestNumbers = &s.requestNumbers
	}
}

// idleState is what remains of the traffic of an idle connection: numbers with nothing between them.
type idleState struct {
	rx          [wire.NumSpaces]uint32 // messages that are next
	next, heard uint64                 // packet numbers: our next one, the peer's largest
	newest      space.Run              // of the peer's numbers: it may not know that these came
	served      uint32                 // read id the peer uses next
	deficit     int32
	limited     trace.LimitHistory
	bulk        bulk.Rest
}

// pools hold what idle connections gave back. All of it is memory of the Go heap: a connection may give to other
// pools than it took from.
type pools struct {
	traffic pool.Of[*traffic]
	numbers [numberSizes]pool.Of[[]recovery.Packet]
}

// numbersOf returns the pool of rings of n entries.
func (p *pools) numbersOf(n int) *pool.Of[[]recovery.Packet] {
	return &p.numbers[(bits.Len(uint(n/shortNumbers))-3)/2]
}

// getTraffic takes a traffic as it was given back.
func (p *pools) getTraffic() *traffic {
	if t, ok := p.traffic.Get(); ok {
		return t
	}
	return new(traffic)
}

// getNumbers takes a ring of n entries.
func (p *pools) getNumbers(n int) []recovery.Packet {
	if ring, ok := p.numbersOf(n).Get(); ok {
		return ring
	}
	return make([]recovery.Packet, n)
}

// putNumbers gives a ring back, unless it is a connection's own.
func (p *pools) putNumbers(ring []recovery.Packet) {
	if n := len(ring); n > shortNumbers {
		p.numbersOf(n).Put(ring)
	}
}

// PoolUse is how many objects of the engine's pools connections have.
type PoolUse struct{ Traffic, Numbers int }

// PoolUse tells what connections have from the engine's pools. All is zero when no connection is left. The owner calls it.
func (e *Engine) PoolUse() PoolUse {
	use := PoolUse{Traffic: e.pools.traffic.Out()}
	for i := range e.pools.numbers {
		use.Numbers += e.pools.numbers[i].Out()
	}
	return use
}

// leaveIdle makes the connection ready to move data. Whatever can happen to an idle connection begins with it.
func (c *conn) leaveIdle() {
	if c.traffic == nil {
		c.takeTraffic()
	}
}

// takeTraffic takes the state of moving data from the pool.
func (c *conn) takeTraffic() {
	e := c.engine
	t := e.pools.getTraffic()
	t.begin(setting{&e.environment, &c.lasting}, &c.idle)
	c.traffic = t
	c.idleAt = e.now.Add(e.cfg.IdleAfter)
	c.touch()
}

// begin goes on with the numbers of an idle connection. The congestion window starts anew: nobody knows what the path bears by now (RFC 5681 §4.1).
func (t *traffic) begin(s setting, p *idleState) {
	*t = traffic{}
	t.stand(s)
	t.openAccount()
	for sp := range t.rx {
		t.rx[sp].next = space.At(p.rx[sp], 0)
	}
	if t.qp != nil {
		t.tx[wire.RequestSpace].Reset(space.At(t.qp.sq.next, 0))
	}
	t.tx[wire.ResponseSpace].Reset(space.At(p.served, 0))
	for sp := range t.tx {
		t.bulkTo[sp] = t.tx[sp].Una()
	}
	t.deficit = int(p.deficit)
	t.reads.Start(t.requestNumbers.nextRead)
	t.served.Start(p.served)
	t.sent.Start(uint64(t.identity.firstNumber), p.next, t.numbers[:])
	t.received.Resume(p.heard, p.newest)
	t.cc.Reset(t.controller, int(t.mtu.Packet))
	t.search.At, t.bulk = t.mtu.SearchAt(t.now), p.bulk.Resume(t.now, t.cfg.BulkAlways)
	t.limitTimes.Begin(t.now)
}

// rest is what remains when nothing is under way, added to what was limited before. The traffic stands nowhere then: the pool must not keep a connection.
func (t *traffic) rest(limited trace.LimitHistory) (p idleState) {
	t.limitedBy(LimitApplication)
	limited.Add(&t.limitTimes)
	p = idleState{
		next: t.sent.Next(), heard: t.received.Largest(), newest: t.received.Newest(),
		served: t.served.Next(), deficit: int32(t.deficit), limited: limited, bulk: t.bulk.Rest(),
	}
	for sp := range t.rx {
		p.rx[sp] = t.rx[sp].next.Message()
	}
	t.pools.putNumbers(t.sent.Ring())
	t.closeAccount()
	t.stand(setting{})
	return p
}

// enterIdle gives back what only moving data needs. Nothing is under way, or the connection is over.
func (c *conn) enterIdle() {
	if t := c.traffic; t != nil {
		forgetBulk(c)
		c.idle = t.rest(c.idle.limited)
		c.engine.pools.traffic.Put(t)
		c.traffic, c.idleAt = nil, 0
	}
}

// enterIdleIfQuiet makes the connection idle when nothing came for Config.IdleAfter and nothing is under way, and otherwise says when to look
// again.
func (c *conn) enterIdleIfQuiet() {
	e := c.engine
	c.traffic.trimNumbers()
	if at := c.alive.HeardAt().Add(e.cfg.IdleAfter); at > e.now {
		c.idleAt = at
		return
	}
	if c.places.inActive || c.places.inAcks || c.places.inHeard || c.traffic.underWay() || c.handshake.Due() != 0 || c.alive.Asked() > 0 { // an error about a PING names its number
		c.idleAt = e.now.Add(e.cfg.IdleAfter)
		return
	}
	c.handshake = nil // no REQ will need an answer any more
	c.enterIdle()
}

// underWay reports whether something is under way which the numbers of idleState do not tell.
func (t *traffic) underWay() bool {
	for sp := range t.tx {
		if t.tx[sp].Outstanding() || t.rx[sp].next.Offset() > 0 {
			return true
		}
	}
	s := &t.served
	return t.pacedUntil != 0 || t.ack.Urgency() != recovery.AckNone || t.ask.Waiting() ||
		t.receives.Wait.State() > credit.Asked || s.Terminated() || t.reads.Waiting() > 0 || s.Waiting() > 0 || t.gapsOpen()
}

package provider

import (
	"math/bits"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/answers"
	"github.com/ndxdp/ndxdp/provider/internal/bulk"
	"github.com/ndxdp/ndxdp/provider/internal/congestion"
	"github.com/ndxdp/ndxdp/provider/internal/credit"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/provider/internal/secure"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/provider/internal/trace"
	"github.com/ndxdp/ndxdp/wire"
)

// This file keeps idle connections small. State that a connection needs only while data moves is taken from pools when data moves, and
// returned after keptFor without packets. It is not returned each time the connection has nothing to do, so that a ping-pong does
// not take and return it for every message. An idle connection keeps its identity, its numbers, and its timers.

// traffic is the state of moving data, in both directions. It is there from the first packet until the connection is
// idle for the first time, and from leaveIdle until it is idle again. It sends requests and READ responses, as far as the congestion window,
// the peer's window, the connection's share of the round and the free frames allow. It retransmits lost contents and executes received ones.
type traffic struct {
	engine   *Engine
	conn     *conn
	received receivedState
	sent     sentState
	requests requester

	served     answers.Queue
	deficit    int // bytes left of the connection's share of a round
	sends      shareSends
	fullByBulk bool // the packet at hand leaves by the bulk lane if it gets full
	long       bool // it may be a long packet
	lean       int  // bytes that responses were sent more than requests, while both waited
	worked     bool // contents were sent or received; otherwise only keep-alives ended the idling
	limitTimes trace.LimitTimes
	refusedTo  uint64 // number of ours up to which the peer last took back what it had acknowledged
}

// sentState is the state of sent packets: packets in flight, contents to send again, and what acknowledgements say of the path. It sends
// nothing.
type sentState struct {
	engine     *Engine
	conn       *conn
	spaces     [wire.NumSpaces]space.Send
	bulk       bulk.Choice
	long       bulk.Long
	bulkPath   Path                        // of the engine's bulk lane; zero before the first probe
	bulkTo     [wire.NumSpaces]space.Place // what follows on these goes by the bulk lane too, until they are acknowledged
	packets    recovery.Sent
	ring       [shortNumbers]recovery.Packet // of packets, while that suffices
	account    *space.Account                // of the peer's source
	charged    int                           // bytes of packets' ring on it
	loss       recovery.Detector
	cc         congestion.State
	runs       congestion.Runs
	search     congestion.Search
	pacedUntil clock.Time   // when pacing, or a silence, lets the next packet go; zero when nothing waits for it
	sample     trace.Sample // of the request that is watched
	paused     bool         // RNR: nothing of the request space goes out
}

// receivedState is the state of received packets and what to report about them: packet numbers, the next offset in each space, packets
// behind a gap, receives, marks. It sends nothing.
type receivedState struct {
	engine  *Engine
	conn    *conn
	spaces  [wire.NumSpaces]recvSpace
	numbers space.Received
	takenIn uint64 // our packet that tells what was taken back, while its arrival is awaited; else zero
	ack     recovery.Acks
	woke    bool // the packet under way ended a SEND that wakes its receiver
}

// stand puts a connection's traffic where it works. The pool's has neither an engine nor a connection.
func (t *traffic) stand(e *Engine, c *conn) {
	t.engine, t.received.engine, t.sent.engine = e, e, e
	t.conn, t.received.conn, t.sent.conn = c, c, c
	t.requests.numbers = nil
	if c != nil {
		t.requests.numbers = &c.requestNumbers
		t.sent.loss.WaitFor(e.timers.absences.of(c.identity.remote.IP))
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
	traffic pool[*traffic]
	numbers [numberSizes]pool[[]recovery.Packet]
	windows pool[*secure.Window]
}

// numbersOf returns the pool of rings of n entries.
func (p *pools) numbersOf(n int) *pool[[]recovery.Packet] {
	return &p.numbers[(bits.Len(uint(n/shortNumbers))-3)/2]
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

// getWindow takes a window for the packet numbers of an encrypted connection, in any state.
func (p *pools) getWindow() *secure.Window {
	if w, ok := p.windows.Get(); ok {
		return w
	}
	return new(secure.Window)
}

// PoolUse is how many objects of the engine's pools connections have. Numbers are records of packet numbers, sent or opened.
type PoolUse struct{ Traffic, Numbers int }

// PoolUse tells what connections have from the engine's pools. All is zero when no connection is left. The owner calls it.
func (e *Engine) PoolUse() PoolUse {
	use := PoolUse{Traffic: e.pools.traffic.Out(), Numbers: e.pools.windows.Out()}
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
	t, ok := e.pools.traffic.Get()
	if !ok {
		t = new(traffic)
	}
	t.begin(e, c, &c.idle)
	c.traffic = t
	wakeKeys(c)
	c.idleAt = e.now.Add(c.traffic.keptFor())
	c.touch()
}

// A connection that has sent fewer than newFor packets keeps its traffic for a newKept-th part of Config.IdleAfter. Of many connections that
// are opened in a row, most only shake hands, and the next connections take their traffic.
const newFor, newKept = 32, 10

// keptFor returns how long the connection keeps t without packets.
func (t *traffic) keptFor() time.Duration {
	if t.sent.packets.Next()-uint64(t.conn.identity.firstNumber) < newFor {
		return t.engine.cfg.IdleAfter / newKept
	}
	return t.engine.cfg.IdleAfter
}

// begin goes on with the numbers of an idle connection. The congestion window starts anew: nobody knows what the path bears by now (RFC 5681 §4.1).
func (t *traffic) begin(e *Engine, c *conn, p *idleState) {
	*t = traffic{}
	t.stand(e, c)
	t.openAccount()
	for sp := range t.received.spaces {
		t.received.spaces[sp].next = space.At(p.rx[sp], 0)
	}
	if t.conn.qp != nil {
		t.sent.spaces[wire.RequestSpace].Reset(space.At(t.conn.qp.sq.next, 0))
	}
	t.sent.spaces[wire.ResponseSpace].Reset(space.At(p.served, 0))
	for sp := range t.sent.spaces {
		t.sent.bulkTo[sp] = t.sent.spaces[sp].Una()
	}
	t.deficit = int(p.deficit)
	t.requests.reads.Start(t.requests.numbers.nextRead)
	t.served.Start(p.served)
	t.sent.packets.Start(uint64(t.conn.identity.firstNumber), p.next, t.sent.ring[:])
	t.received.numbers.Resume(p.heard, p.newest)
	t.sent.cc.Reset(t.engine.controller, int(t.conn.mtu.Packet))
	t.sent.search.At = t.conn.mtu.SearchAt(t.engine.now)
	t.sent.bulk, t.sent.long = p.bulk.Resume(t.engine.now, t.engine.cfg.BulkAlways)
	t.limitTimes.Begin(t.engine.now)
}

// rest is what remains when nothing is under way, added to what was limited before. The traffic stands nowhere then: the pool must not keep a connection.
func (t *traffic) rest(limited trace.LimitHistory) (p idleState) {
	t.limitedBy(LimitApplication)
	limited.Add(&t.limitTimes)
	p = idleState{
		next: t.sent.packets.Next(), heard: t.received.numbers.Largest(), newest: t.received.numbers.Newest(),
		served: t.served.Next(), deficit: int32(t.deficit), limited: limited, bulk: bulk.RestOf(&t.sent.bulk, &t.sent.long),
	}
	for sp := range t.received.spaces {
		p.rx[sp] = t.received.spaces[sp].next.Message()
	}
	t.engine.pools.putNumbers(t.sent.packets.Ring())
	t.closeAccount()
	t.stand(nil, nil)
	return p
}

// enterIdle gives back what only moving data needs. Nothing is under way, or the connection is over.
func (c *conn) enterIdle() {
	if t := c.traffic; t != nil {
		forgetBulk(c)
		c.idle = t.rest(c.idle.limited)
		c.engine.pools.traffic.Put(t)
		c.traffic, c.idleAt = nil, 0
		restKeys(c)
	}
}

// enterIdleIfQuiet makes the connection idle when nothing came for keptFor and nothing is under way, and otherwise says when to look again.
func (c *conn) enterIdleIfQuiet() {
	c.traffic.sent.trimNumbers()
	now, kept := c.engine.now, c.traffic.keptFor()
	at := c.alive.HeardAt().Add(kept)
	if at <= now && (!c.quiet() || c.handshake.Due() != 0) {
		at = now.Add(kept)
	}
	if at > now {
		c.idleAt = at
		return
	}
	c.handshake = nil // no REQ will need an answer any more
	c.enterIdle()
}

// quiet reports whether the connection has nothing to do with its traffic.
func (c *conn) quiet() bool {
	return !c.places.inActive && !c.places.inAcks && !c.places.inHeard && !c.traffic.underWay() && c.alive.Asked() == 0 // an error about a PING names its number
}

// onlyAsked reports whether a connection has sent and received only keep-alives since it was idle, and is done. It then becomes idle at
// once. If it kept its traffic for Config.IdleAfter, a thousand of ten thousand idle connections would hold traffic state at any time.
func onlyAsked(c *conn) bool {
	return c.traffic != nil && !c.traffic.worked && c.phase == phaseOpen && c.handshake == nil && c.quiet()
}

// underWay reports whether something is under way which the numbers of idleState do not tell.
func (t *traffic) underWay() bool {
	for sp := range t.sent.spaces {
		if t.sent.spaces[sp].Outstanding() || t.received.spaces[sp].next.Offset() > 0 {
			return true
		}
	}
	s := &t.served
	return t.sent.pacedUntil != 0 || t.received.ack.Urgency() != recovery.AckNone || t.requests.ask.Waiting() ||
		t.conn.receives.Wait.State() > credit.Asked || s.Terminated() || t.requests.reads.Waiting() > 0 || s.Waiting() > 0 || t.received.gapsOpen()
}

// The functions below run work on the traffic of connections. Traffic does not use the lists of its engine: it says what it wants, and the
// connection takes its places there when the work is over.

// withTraffic runs work on the traffic of a connection that may be idle. It then applies the work's wants to the engine, and ends the
// connection if the work found that it cannot go on. All work on traffic runs in here, so no caller can forget either. Work may contain other
// work on the same connection.
func (c *conn) withTraffic(work func(*traffic)) {
	c.leaveIdle()
	work(c.traffic)
	if c.faulted != faultNone {
		c.conclude()
	}
	if w := c.wanted; w != 0 {
		c.wanted = 0
		c.apply(w)
	}
}

// wants is what work on the traffic of a connection wants of its engine.
type wants uint8

const (
	wantTurn    wants = 1 << iota // to transmit
	wantAck                       // to acknowledge
	wantVerdict                   // of congestion control, about what was heard
	wantLook                      // at the deadline
)

// want adds to the wants of the work under way.
func (c *conn) want(w wants) { c.wanted |= w }

// apply gives the connection its places in the lists of its engine.
func (c *conn) apply(w wants) {
	if w&wantTurn != 0 {
		c.engine.round.join(c)
	}
	if w&wantAck != 0 {
		c.engine.acks.join(c)
	}
	if w&wantVerdict != 0 {
		c.engine.heard.join(c)
	}
	if w&(wantTurn|wantLook) != 0 {
		c.touch()
	}
}

// fault is why the traffic of a connection cannot go on. The connection draws the conclusion.
type fault uint8

const (
	faultNone       fault = iota
	faultTerminated       // a request cannot be carried out, and the peer is being told
	faultTold             // the peer knows
	faultNamed            // the peer says which of our requests cannot be carried out
)

// blame notes why the connection is about to end, for the application.
func (c *conn) blame(why Cause) { c.why.Note(why) }

package provider

import (
	"crypto/hmac"
	"crypto/sha256"
	"hash"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

// Batch sizes of one turn.
const (
	rxBatch = 64
	txBatch = 32
)

// starvedRetry is when to look again for transmit frames: the link has no way to tell when they come back.
const starvedRetry = 20 * time.Microsecond

// Engine is the transport of one NIC queue. It is a function of its inputs: packets from the link, requests from work
// queues, calls from its owner, and the time; it reads no clock, starts no goroutine and blocks on nothing.
//
// Everything in it belongs to its owner, whoever holds Shard's lock (I1), except doorbells and the fields of work and
// completion queues that say otherwise.
type Engine struct {
	cfg      Config
	link     Link
	mem      *Memory
	rng      *rand.Rand
	now      clock.Time
	resetMAC hash.Hash // PROTOCOL §7.4
	resetSum [sha256.Size]byte

	// The other engines of the adapter.
	group    *group
	lead     *Engine // does what only one engine may do: the first one, perhaps this one
	index    int     // in group.engines, and so the NIC queue
	shard    *Shard  // runs this engine; nil where a test does
	inbox    inbox
	relays   [][]RxPacket // packets of this turn for other engines
	borrowed [][]uint64   // frames of this turn to give back to other engines
	relayed  bool         // one of these has something

	doorbells atomic.Pointer[QP] // queue pairs with new work; applications push, the owner takes all

	listeners map[addrPort]*Listener
	ports     map[addrPort]int // endpoints in use, counted
	tuples    index[tuple]     // connections by ND endpoints
	peers     index[peerKey]   // and by what their peers call them
	deadlines clock.Deadlines
	pools     pools

	cookies      cookieMint
	sources      map[source]usage
	halfOpen     int // half-open connections of all sources
	graves       graves
	unproven     bucket // REQs without a cookie
	retries      bucket // answers to strangers, by kind
	rejects      bucket
	resets       bucket
	sourceResets sourceBuckets

	fresh        line    // have something to transmit and have not used up their share; in turn, before active
	active       line    // have something to transmit, in turn
	heardConns   []*conn // have heard from their peers in this receive batch
	acks         []*conn // owe the peer an acknowledgement
	touchedConns []*conn
	touchedCQs   []*CQ
	moderated    []moderated // completion queues that hold notifications back
	starved      bool        // the link had no frames this turn

	rx        [rxBatch]RxPacket
	recycle   []uint64
	held      []RxPacket
	placed    []placedPacket // beside held; with Config.ImmediatePlacement
	plan      placedPacket   // of the packet being placed
	freeHeld  []heldPacket
	reader    reader
	op1, op2  wire.Op
	ackMsg    wire.Ack
	hello     wire.Hello
	tx        [txBatch]TxPacket
	ntx       int
	turnBytes int
	frames    []Frag
	build     builder
	staging   staging
	assembled RxPacket // from parts
	// assemblies are packets of which parts have arrived; made for the first.
	assemblies []assembly

	controller controller
	pressured  Pressured     // the link, if it knows; else nil
	load       uint8         // how close the receiving side is to dropping packets
	worked     bool          // this turn sent packets
	blind      bool          // nobody waits for packets between turns: they lie in the ring until the next one
	lookGap    time.Duration // how long nobody looked for packets before this turn
	away       bool          // far longer than a turn takes
	awayFrom   clock.Time    // when that was last the case, it began then
	turnCost   time.Duration // filtered time of a turn that sends packets
	working    time.Duration // spent in such turns since shareFrom
	shareFrom  clock.Time
	busyShare  int // share of the time that such turns took lately, in 1/windowUnit

	census census
	clock  clock.Source // the owner's, for samples of latency; nil without any

	tap    Tap // nil: off
	tapped TapPacket
	flight flightRecorder

	stats Stats
}

// newEngine makes one engine of a group.
func newEngine(cfg Config, g *group, index int, link Link, mem *Memory, rng *rand.Rand) *Engine {
	e := &Engine{
		cfg: cfg, link: link, mem: mem, rng: rng, group: g, index: index,
		listeners: map[addrPort]*Listener{}, ports: map[addrPort]int{},
		tuples:  newIndex((*conn).tuple, func(c *conn) **conn { return &c.nextTuple }),
		peers:   newIndex((*conn).peerKey, func(c *conn) **conn { return &c.nextPeer }),
		sources: map[source]usage{},
		recycle: make([]uint64, 0, rxBatch*MaxFrags), frames: make([]Frag, 0, frameCache),
		held: make([]RxPacket, cfg.HeldPackets), controller: newController(&cfg), busyShare: windowUnit,
	}
	e.lead = e
	if index > 0 {
		e.lead = g.engines[0]
	}
	if cfg.ImmediatePlacement {
		e.placed = make([]placedPacket, cfg.HeldPackets)
	}
	e.pressured, _ = link.(Pressured)
	e.resetMAC = hmac.New(sha256.New, g.resetKey[:])
	e.sourceResets.key = rng.Uint64()
	for i := cfg.HeldPackets; i > 0; i-- {
		e.freeHeld = append(e.freeHeld, heldPacket(i))
	}
	return e
}

// Run does one turn: receive, timers, doorbells, transmit, acknowledge, report. It returns true when more work is ready
// at once; otherwise the engine wants to be run when the link has packets, a doorbell was rung, or NextDeadline came.
func (e *Engine) Run(now clock.Time) (busy bool) {
	e.measureTurn(now)
	e.now = now
	e.turnBytes = 0
	e.starved = false
	relayed := 0
	if e.inbox.waiting.Load() {
		relayed = e.openInbox()
	}
	n := e.link.Receive(e.rx[:])
	for i := range n {
		e.receive(&e.rx[i])
	}
	if e.relayed {
		e.flushRelays()
	}
	if len(e.recycle) > 0 {
		e.link.Recycle(e.recycle)
		e.recycle = e.recycle[:0]
	}
	if n+relayed > 0 {
		if n >= rxBatch/4 || e.load > 0 || len(e.freeHeld) < len(e.held) {
			e.measureLoad() // few packets in the ring are no load
		}
		e.conclude()
	}
	for {
		slot, due := e.deadlines.PopDue(now)
		if !due {
			break
		}
		e.group.conns.at(slot).onDeadline()
	}
	if len(e.moderated) > 0 {
		e.tellModerated()
	}
	if e.doorbells.Load() != nil {
		e.answerDoorbells()
	}
	if e.waiting() > 0 {
		e.transmit()
	}
	if len(e.acks) > 0 {
		e.acknowledge()
	}
	e.finishTurn()
	return n == rxBatch || (e.waiting() > 0 || len(e.acks) > 0) && !e.starved || e.doorbells.Load() != nil || e.worked ||
		e.inbox.waiting.Load()
}

// awayGap is the time between two turns from which on the engine counts as having been off its core.
const awayGap = 200 * time.Microsecond

// measureTurn learns how long the turn before took, if it sent packets: Run reports such a turn as busy, so that the next
// one follows at once and the time between is its time. Where nobody waits for packets between turns, they may have lain in
// the ring since the turn before; far longer than a turn takes means that the engine's owner was interrupted.
func (e *Engine) measureTurn(now clock.Time) {
	gap := now.Sub(e.now)
	e.lookGap, e.away = 0, false
	if e.worked || e.blind {
		e.lookGap = gap
	}
	if e.lookGap > awayGap+2*e.turnCost {
		e.away, e.awayFrom = true, e.now
	} else if e.worked {
		e.turnCost += (gap - e.turnCost) / 8
		e.working += gap
	}
	e.worked = false
	if span := now.Sub(e.shareFrom); span > shareSpan {
		if span < maxShareSpan { // else it was mostly idle, which says nothing about now
			e.busyShare = int(e.working * windowUnit / span)
		}
		e.working, e.shareFrom = 0, now
	}
}

// The share of time spent on sending is taken over shareSpan, several round trips.
const (
	shareSpan    = time.Millisecond
	maxShareSpan = 10 * shareSpan
)

// idle says that a turn would find nothing to do but timers.
func (e *Engine) idle() bool {
	return !e.worked && e.waiting() == 0 && len(e.acks) == 0 && e.doorbells.Load() == nil && !e.link.Ready() && !e.inbox.waiting.Load()
}

// finishTurn makes visible what the turn, or a call from the owner, did.
func (e *Engine) finishTurn() {
	e.flush()
	for i, c := range e.touchedConns {
		c.touched = false
		e.touchedConns[i] = nil
		switch {
		case c.phase == phaseFree:
			c.park()
			continue
		case c.phase == phaseLingering && !c.inAcks:
			c.park()
		}
		e.deadlines.Set(c.slot, c.deadline())
		if c.strays.target != 0 {
			c.leave()
		}
	}
	e.touchedConns = e.touchedConns[:0]
	if e.relayed {
		e.flushRelays()
	}
	for len(e.touchedCQs) > 0 {
		last := len(e.touchedCQs) - 1
		q := e.touchedCQs[last]
		e.touchedCQs[last] = nil
		e.touchedCQs = e.touchedCQs[:last]
		if q.several {
			q.producing.Lock()
		}
		q.queued = false
		if q.publish() {
			e.Moderate(q)
		}
		overran := !q.failed && q.faulted.Load()
		q.failed = q.failed || overran
		if q.several {
			q.producing.Unlock()
		}
		if overran {
			e.failUsersOf(q)
		}
	}
}

// failUsersOf ends the connections of all queue pairs that report to a completion queue that overran (spec section 9). It is
// done once; whoever connects later ends at once (conn.established).
func (e *Engine) failUsersOf(q *CQ) {
	q.mu.Lock()
	users := slices.Clone(q.users)
	q.mu.Unlock()
	for _, qp := range users {
		fail := func(e *Engine) {
			if qp.home.Load() == e && qp.conn != nil && qp.State() == QPReady {
				qp.conn.terminate(wire.TermLocal, 0, 0, 0)
			}
		}
		if home := qp.home.Load(); home == e || home == nil {
			fail(e)
		} else {
			home.tell(fail)
		}
	}
}

// NextDeadline is when the engine wants to be run even if nothing happens.
func (e *Engine) NextDeadline() clock.Time {
	if e.starved {
		return e.now.Add(starvedRetry)
	}
	if len(e.moderated) > 0 {
		return min(e.deadlines.Next(), e.moderationDue())
	}
	return e.deadlines.Next()
}

// complete reports a result.
func (e *Engine) complete(q *CQ, r *Result) {
	if q.several {
		q.producing.Lock()
		q.push(r)
		q.producing.Unlock()
		if !slices.Contains(e.touchedCQs, q) {
			e.touchedCQs = append(e.touchedCQs, q)
		}
		return
	}
	q.push(r)
	if !q.queued {
		q.queued = true
		e.touchedCQs = append(e.touchedCQs, q)
	}
}

// answerDoorbells looks at every queue pair that was posted to.
func (e *Engine) answerDoorbells() {
	for qp := e.doorbells.Swap(nil); qp != nil; {
		next := qp.nextRung
		qp.nextRung = nil
		if home := qp.home.Load(); home != e && home != nil {
			home.push(qp) // it moved
			if home.shard != nil {
				home.shard.wake()
			}
		} else {
			qp.rung.Store(false)
			if home == e { // else who takes it looks at it
				e.answer(qp)
			}
		}
		qp = next
	}
}

// answer looks at a queue pair that was posted to.
func (e *Engine) answer(qp *QP) {
	switch qp.State() {
	case QPReady:
		if c := qp.conn; c != nil {
			if qp.sq.next != qp.sq.posted.Load() {
				c.activate()
			}
			c.checkReceiveLimit()
			if c.wait.state == waitStarved {
				c.receivePosted()
			}
		}
	case QPError, QPClosed:
		e.cancelAll(qp, OutcomeCanceled)
	case QPIdle, QPAttached:
	}
}

// holdPacket takes p out of the receive batch until the gap before it closes. It fails when too many wait already.
func (e *Engine) holdPacket(p *RxPacket) (heldPacket, bool) {
	if len(e.freeHeld) == 0 {
		return 0, false
	}
	h := e.freeHeld[len(e.freeHeld)-1]
	e.freeHeld = e.freeHeld[:len(e.freeHeld)-1]
	e.held[h-1] = *p
	return h, true
}

func (e *Engine) releaseHeld(h heldPacket) {
	if h == heldNothing {
		return
	}
	e.release(&e.held[h-1])
	e.freeHeld = append(e.freeHeld, h)
}

// release gives a packet's frames back to the link they came from (I8), at the end of the batch or when the list is full.
func (e *Engine) release(p *RxPacket) {
	if len(e.recycle)+p.N > cap(e.recycle) {
		e.link.Recycle(e.recycle)
		e.recycle = e.recycle[:0]
	}
	if p.origin != nil && p.origin != e {
		e.sendBack(p)
		return
	}
	for i := range p.N {
		e.recycle = append(e.recycle, p.Frags[i].ID)
	}
}

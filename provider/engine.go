package provider

import (
	"crypto/hmac"
	"crypto/sha256"
	"hash"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

// Batch sizes of one turn. A turn is short so that acknowledgements are answered while bulk data goes out.
const (
	rxBatch = 64
	txBatch = 32
	// turnLimit ends the transmit phase of a turn; a packet is never cut for it.
	turnLimit = 256 << 10
	// connBytes is one connection's share of a turn before the next one has its go.
	connBytes = 64 << 10
)

// starvedRetry is when to look again for transmit frames: the link has no way to tell when they come back.
const starvedRetry = 20 * time.Microsecond

// Engine is the transport of one NIC queue. It is a function of its inputs: packets from the link, requests from work
// queues, calls from its owner, and the time; it reads no clock, starts no goroutine and blocks on nothing.
//
// Everything in it belongs to its owner, whoever holds Shard's lock, except doorbells and the fields of work and
// completion queues that say otherwise.
type Engine struct {
	cfg        Config
	link       Link
	mem        *Memory
	rng        *rand.Rand
	now        clock.Time
	resetMAC   hash.Hash // PROTOCOL §7.4
	resetSum   [sha256.Size]byte
	slotSecret uint32

	doorbells atomic.Pointer[QP] // queue pairs with new work; applications push, the owner takes all

	conns     []*conn // by slot
	freeSlots []uint32
	listeners map[addrPort]*Listener
	ports     map[addrPort]int // endpoints in use, counted
	tuples    map[tuple]*conn
	peers     map[peerKey]*conn
	qps       map[*QP]struct{}
	deadlines clock.Deadlines

	cookies      cookieMint
	sources      map[source]usage
	halfOpen     int // half-open connections of all sources
	graves       graves
	unproven     bucket // REQs without a cookie
	retries      bucket // answers to strangers, by kind
	rejects      bucket
	resets       bucket
	sourceResets sourceBuckets

	active       []*conn // have something to transmit, in turn
	acks         []*conn // owe the peer an acknowledgement
	touchedConns []*conn
	touchedCQs   []*CQ
	starved      bool // the link had no frames this turn

	rx        [rxBatch]RxPacket
	recycle   []uint64
	held      []RxPacket
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

	stats Stats
}

// New makes an engine. All randomness comes from rng, which must be unpredictable outside tests: connection ids, first
// PSNs and the reset key are drawn from it.
func New(cfg Config, link Link, mem *Memory, rng *rand.Rand) *Engine {
	cfg.setDefaults()
	e := &Engine{
		cfg: cfg, link: link, mem: mem, rng: rng, slotSecret: rng.Uint32(),
		listeners: map[addrPort]*Listener{}, ports: map[addrPort]int{}, tuples: map[tuple]*conn{}, peers: map[peerKey]*conn{}, qps: map[*QP]struct{}{},
		sources: map[source]usage{},
		recycle: make([]uint64, 0, rxBatch*MaxFrags), frames: make([]Frag, 0, frameCache),
		held: make([]RxPacket, cfg.HeldPackets),
	}
	var key [sha256.Size]byte
	for i := range key {
		key[i] = byte(rng.Uint32())
	}
	e.resetMAC = hmac.New(sha256.New, key[:])
	e.sourceResets.key = rng.Uint64()
	for i := cfg.HeldPackets; i > 0; i-- {
		e.freeHeld = append(e.freeHeld, heldPacket(i))
	}
	return e
}

// Run does one turn: receive, timers, doorbells, transmit, acknowledge, report. It returns true when more work is ready
// at once; otherwise the engine wants to be run when the link has packets, a doorbell was rung, or NextDeadline came.
func (e *Engine) Run(now clock.Time) (busy bool) {
	e.now = now
	e.turnBytes = 0
	e.starved = false
	n := e.link.Receive(e.rx[:])
	for i := range n {
		e.receive(&e.rx[i])
	}
	if len(e.recycle) > 0 {
		e.link.Recycle(e.recycle)
		e.recycle = e.recycle[:0]
	}
	for {
		slot, due := e.deadlines.PopDue(now)
		if !due {
			break
		}
		e.conns[slot].onDeadline()
	}
	if e.doorbells.Load() != nil {
		e.answerDoorbells()
	}
	if len(e.active) > 0 {
		e.transmit()
	}
	if len(e.acks) > 0 {
		e.acknowledge()
	}
	e.finishTurn()
	return n == rxBatch || (len(e.active) > 0 || len(e.acks) > 0) && !e.starved || e.doorbells.Load() != nil
}

// idle says that a turn would find nothing to do but timers.
func (e *Engine) idle() bool {
	return len(e.active) == 0 && len(e.acks) == 0 && e.doorbells.Load() == nil && !e.link.Ready()
}

// finishTurn makes visible what the turn, or a call from the owner, did.
func (e *Engine) finishTurn() {
	e.flush()
	for i, c := range e.touchedConns {
		c.touched = false
		e.touchedConns[i] = nil
		if c.phase != phaseFree {
			e.deadlines.Set(c.slot, c.deadline())
		}
		if c.phase == phaseLingering {
			c.shed()
		}
	}
	e.touchedConns = e.touchedConns[:0]
	for len(e.touchedCQs) > 0 {
		last := len(e.touchedCQs) - 1
		q := e.touchedCQs[last]
		e.touchedCQs[last] = nil
		e.touchedCQs = e.touchedCQs[:last]
		q.queued = false
		q.publish()
		if q.faulted.Load() {
			e.failUsersOf(q)
		}
	}
}

// failUsersOf ends the connections of all queue pairs that report to a completion queue that overran (spec section 9).
func (e *Engine) failUsersOf(q *CQ) {
	for _, qp := range q.users {
		if qp.conn != nil && qp.State() == QPReady {
			qp.conn.terminate(wire.TermLocal, 0, 0, 0)
		}
	}
}

// NextDeadline is when the engine wants to be run even if nothing happens.
func (e *Engine) NextDeadline() clock.Time {
	if e.starved {
		return e.now.Add(starvedRetry)
	}
	return e.deadlines.Next()
}

// complete reports a result.
func (e *Engine) complete(q *CQ, r *Result) {
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
		qp.rung.Store(false)
		switch qp.State() {
		case QPReady:
			if c := qp.conn; c != nil {
				if qp.sq.next != qp.sq.posted.Load() {
					c.activate()
				}
				c.checkReceiveLimit()
			}
		case QPError, QPClosed:
			e.cancelAll(qp, OutcomeCanceled)
		case QPIdle, QPAttached:
		}
		qp = next
	}
}

// transmit gives every connection with work its share, in turn, until the turn's bytes are used up.
func (e *Engine) transmit() {
	n := len(e.active)
	for i := 0; i < n && e.turnBytes < turnLimit && !e.starved; i++ {
		c := e.active[0]
		copy(e.active, e.active[1:])
		e.active = e.active[:len(e.active)-1]
		c.inActive = false
		if c.phase == phaseOpen && c.transmit() {
			c.activate()
		}
		c.touch()
	}
}

// transmit sends what the connection may send within its share: repetitions, then responses, then requests. It reports
// whether more could go out at once.
func (c *conn) transmit() (again bool) {
	for space := range c.tx {
		if c.tx[space].lost > 0 && c.resendLost(wire.Space(space)) {
			return true
		}
	}
	used := c.engine.turnBytes
	if c.sendResponses(connBytes) {
		again = true
	}
	if c.sendRequests(connBytes - (c.engine.turnBytes-used)/2) {
		again = true
	}
	return again
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
	e.release(&e.held[h-1])
	e.freeHeld = append(e.freeHeld, h)
}

// release gives a packet's frames back to the link, at the end of the batch or when the list is full.
func (e *Engine) release(p *RxPacket) {
	if len(e.recycle)+p.N > cap(e.recycle) {
		e.link.Recycle(e.recycle)
		e.recycle = e.recycle[:0]
	}
	for i := range p.N {
		e.recycle = append(e.recycle, p.Frags[i].ID)
	}
}

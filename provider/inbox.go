package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/interleave"
	"github.com/ndxdp/ndxdp/provider/internal/link"
	"github.com/ndxdp/ndxdp/provider/internal/watch"
	"github.com/ndxdp/ndxdp/wire"
)

// Bounds of what engines hand each other.
const (
	inboxPackets = 256  // packets that wait in an inbox; more are dropped and counted
	inboxCalls   = 4096 // calls that strangers' packets can cause; more are dropped
)

// inbox is where others leave work for an engine: queue pairs with new requests, packets that arrived on another engine's queue, returned
// receive frames, and calls to run as the owner. Packets and frames come in batches, with one lock operation for each batch.
type inbox struct {
	sleeper *watch.Sleeper // who is woken; nil where a test runs the engine

	doorbells interleave.Pointer[QP] // queue pairs with new work; applications push, the owner takes all

	waiting interleave.Bool  // something else is inside
	mu      interleave.Mutex // guards what follows
	packets []RxPacket
	frames  []uint64 // ours, that others are done with
	calls   []func(*Engine)

	// The owner's slices: emptied, and exchanged with packets, frames and calls.
	oldPackets []RxPacket
	oldFrames  []uint64
	over       bool // the engine was shut down: a connection that still comes here ends
}

// ring puts a queue pair on the doorbell list. Its caller has set rung.
func (b *inbox) ring(qp *QP) {
	for {
		head := b.doorbells.Load()
		qp.nextRung = head
		if b.doorbells.CompareAndSwap(head, qp) {
			return
		}
	}
}

// rung says that the doorbell list is not empty.
func (b *inbox) rung() bool { return b.doorbells.Load() != nil }

// call leaves a call, to be run soon: control work, which may allocate.
func (b *inbox) call(f func(*Engine)) {
	b.mu.Lock()
	b.calls = append(b.calls, f)
	b.mu.Unlock()
	b.Alert()
}

// ask is call for what strangers' packets cause: bounded.
func (b *inbox) ask(f func(*Engine)) bool {
	b.mu.Lock()
	ok := len(b.calls) < inboxCalls
	if ok {
		b.calls = append(b.calls, f)
	}
	b.mu.Unlock()
	b.Alert()
	return ok
}

// Hand leaves packets, and returns how many there was room for.
func (b *inbox) Hand(batch []RxPacket) (n int) {
	b.mu.Lock()
	n = min(len(batch), inboxPackets-len(b.packets))
	b.packets = append(b.packets, batch[:n]...)
	b.mu.Unlock()
	return n
}

// GiveBack leaves frames of the engine's link.
func (b *inbox) GiveBack(frames []uint64) {
	b.mu.Lock()
	b.frames = append(b.frames, frames...)
	b.mu.Unlock()
}

// Alert says that the inbox is not empty, and wakes who sleeps. The flag is stored before the sleeper's state is read.
func (b *inbox) Alert() {
	b.waiting.Store(true)
	b.wake()
}

// wake wakes who sleeps.
func (b *inbox) wake() {
	if b.sleeper != nil {
		b.sleeper.Wake()
	}
}

// open takes packets and frames out. They are the owner's until it opens the inbox again.
func (b *inbox) open() (packets []RxPacket, frames []uint64) {
	b.waiting.Store(false)
	b.mu.Lock()
	b.packets, b.oldPackets = b.oldPackets[:0], b.packets
	b.frames, b.oldFrames = b.oldFrames[:0], b.frames
	b.mu.Unlock()
	return b.oldPackets, b.oldFrames
}

// takeCalls takes the calls out.
func (b *inbox) takeCalls() (calls []func(*Engine)) {
	b.mu.Lock()
	calls, b.calls = b.calls, nil
	if len(calls) > 0 && len(b.packets)+len(b.frames) == 0 {
		b.waiting.Store(false) // others add under the lock and say so behind it
	}
	b.mu.Unlock()
	return calls
}

// runCalls runs the calls alone, for their owner: one of them may bring the connection that a packet at hand is for.
func (b *inbox) runCalls(e *Engine) {
	for _, f := range b.takeCalls() {
		f(e)
	}
}

// answerDoorbells looks at every queue pair that was posted to, for its owner.
func (b *inbox) answerDoorbells(e *Engine) {
	for qp := b.doorbells.Swap(nil); qp != nil; {
		next := qp.nextRung
		qp.nextRung = nil
		if home := qp.home.Load(); home != e && home != nil {
			home.inbox.ring(qp) // it moved
			home.inbox.wake()
		} else {
			qp.rung.Store(false)
			if home == e { // else who takes it looks at it
				qp.answer(e)
			}
		}
		qp = next
	}
}

// passOn keeps a packet of e for another engine of its group until the receive batch is done.
func passOn(e, to *Engine, p *RxPacket) {
	e.stats.Relayed++
	e.outbox.Pass(p, numberOf(e), to.index, len(e.group.engines))
}

// sendOutbox hands packets and frames to the other engines of e's group. Packets without room in an inbox are dropped and counted.
func sendOutbox(e *Engine) {
	if !e.outbox.Pending() {
		return
	}
	e.outbox.Send(func(to int) *inbox { return &e.group.engines[to].inbox }, func(p *RxPacket) {
		e.stats.Drop(wire.DropWrongQueue)
		e.release(p)
	})
}

// Called says that others left something for the engine's next turn: a doorbell, or something in its inbox. Any goroutine
// may ask. Where engines have no shards, whoever runs them asks all of them after each turn.
func (e *Engine) Called() bool { return e.inbox.rung() || e.inbox.waiting.Load() }

// openInbox handles everything that other engines left, and returns the number of packets.
func (e *Engine) openInbox() int {
	packets, frames := e.inbox.open()
	if len(frames) > 0 {
		e.link.Recycle(frames)
	}
	e.inbox.runCalls(e)
	for i := range packets {
		p := &packets[i]
		if p.Origin == numberOf(e) {
			p.Origin = 0 // it went round: the connection came here meanwhile
		}
		e.receive(p)
	}
	return len(packets)
}

// outbox collects what one engine has for other engines of its adapter, by index, until the end of its receive batch or poll. The
// engine's owner uses it.
type outbox struct {
	packets [][]RxPacket
	frames  [][]uint64 // frames of packets that other engines passed on
	pending bool       // there is something to send
}

// Pass queues a packet for the engine with index to of several. origin is the link that received the packet, unless another engine
// has set it already.
func (o *outbox) Pass(p *RxPacket, origin link.Number, to, several int) {
	if o.packets == nil {
		o.packets = make([][]RxPacket, several)
	}
	if o.packets[to] == nil {
		o.packets[to] = make([]RxPacket, 0, link.RxBatch)
	}
	batch := append(o.packets[to], *p)
	if p.Origin == 0 {
		batch[len(batch)-1].Origin = origin
	}
	o.packets[to] = batch
	o.pending = true
}

// GiveBack queues the frames of a packet for the engine with index to of several, which passed it on.
func (o *outbox) GiveBack(p *RxPacket, to, several int) {
	if o.frames == nil {
		o.frames = make([][]uint64, several)
	}
	for i := range p.N {
		o.frames[to] = append(o.frames[to], p.Frags[i].ID)
	}
	o.pending = true
}

// Pending reports whether there is something to send.
func (o *outbox) Pending() bool { return o.pending }

// Send delivers queued packets and frames to the inboxes. It calls refused for each packet that does not fit; refused may return
// its frames with GiveBack.
func (o *outbox) Send(inboxOf func(to int) *inbox, refused func(*RxPacket)) {
	for i, batch := range o.packets {
		if len(batch) == 0 {
			continue
		}
		to := inboxOf(i)
		for n := to.Hand(batch); n < len(batch); n++ {
			refused(&batch[n])
		}
		o.packets[i] = batch[:0]
		to.Alert()
	}
	for i, frames := range o.frames {
		if len(frames) == 0 {
			continue
		}
		to := inboxOf(i)
		to.GiveBack(frames)
		o.frames[i] = frames[:0]
		to.Alert()
	}
	o.pending = false // includes frames of refused packets
}

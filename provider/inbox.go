package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/interleave"
	"github.com/ndxdp/ndxdp/wire"
)

// Bounds of what engines hand each other.
const (
	inboxPackets = 256  // packets that wait in an inbox; more are dropped and counted
	inboxCalls   = 4096 // calls that strangers' packets can cause; more are dropped
)

// inbox is where the other engines of a group leave things for one: packets that landed on the wrong queue, receive frames
// that came back, and calls to run as its owner. Packets and frames come in batches, one lock for each.
type inbox struct {
	waiting interleave.Bool // something is inside

	mu      interleave.Mutex // guards what follows
	packets []RxPacket
	frames  []uint64 // ours, that others are done with
	calls   []func(*Engine)

	// The owner's: emptied, and exchanged with those above.
	oldPackets []RxPacket
	oldFrames  []uint64
}

// tell runs f as the owner of e, soon: control work, which may allocate.
func (e *Engine) tell(f func(*Engine)) {
	b := &e.inbox
	b.mu.Lock()
	b.calls = append(b.calls, f)
	b.mu.Unlock()
	e.alert()
}

// askOwner is tell for what strangers' packets cause: bounded.
func (e *Engine) askOwner(f func(*Engine)) bool {
	b := &e.inbox
	b.mu.Lock()
	ok := len(b.calls) < inboxCalls
	if ok {
		b.calls = append(b.calls, f)
	}
	b.mu.Unlock()
	e.alert()
	return ok
}

// alert says that the inbox is not empty, and wakes who sleeps. The flag is stored before the shard's state is read.
func (e *Engine) alert() {
	e.inbox.waiting.Store(true)
	if e.shard != nil {
		e.shard.wake()
	}
}

// Called says that others left something for the engine's next turn: a doorbell, or something in its inbox. Any goroutine
// may ask. Where engines have no shards, whoever runs them asks all of them after each turn.
func (e *Engine) Called() bool { return e.doorbells.Load() != nil || e.inbox.waiting.Load() }

// outbox is what one engine has for the others of its group, by index, until its receive batch or its turn is done.
type outbox struct {
	packets [][]RxPacket
	frames  [][]uint64 // that came with packets from others
	pending bool       // there is something
}

// pass keeps a packet for the engine at index to of several, from the engine that took it from its link.
func (o *outbox) pass(p *RxPacket, from *Engine, to, several int) {
	if o.packets == nil {
		o.packets = make([][]RxPacket, several)
	}
	if o.packets[to] == nil {
		o.packets[to] = make([]RxPacket, 0, rxBatch)
	}
	batch := append(o.packets[to], *p)
	if p.origin == nil {
		batch[len(batch)-1].origin = from
	}
	o.packets[to] = batch
	o.pending = true
}

// giveBack keeps the frames of a packet that came from the engine at index to of several.
func (o *outbox) giveBack(p *RxPacket, to, several int) {
	if o.frames == nil {
		o.frames = make([][]uint64, several)
	}
	for i := range p.N {
		o.frames[to] = append(o.frames[to], p.Frags[i].ID)
	}
	o.pending = true
}

// relay keeps a packet of the receive batch for the engine that it is for, until the batch is done.
func (e *Engine) relay(p *RxPacket, to *Engine) {
	e.outbox.pass(p, e, to.index, len(e.group.engines))
	e.stats.Relayed++
}

// sendOutbox puts relayed packets into the inboxes of their engines, and gives other engines' frames back to them.
func (e *Engine) sendOutbox() {
	o := &e.outbox
	o.pending = false
	for i := range o.packets {
		batch := o.packets[i]
		if len(batch) == 0 {
			continue
		}
		to := e.group.engines[i]
		b := &to.inbox
		b.mu.Lock()
		n := min(len(batch), inboxPackets-len(b.packets))
		b.packets = append(b.packets, batch[:n]...)
		b.mu.Unlock()
		for j := n; j < len(batch); j++ {
			e.drop(wire.DropWrongQueue)
			e.release(&batch[j])
		}
		o.packets[i] = batch[:0]
		to.alert()
	}
	for i := range o.frames {
		if len(o.frames[i]) == 0 {
			continue
		}
		to := e.group.engines[i]
		to.inbox.mu.Lock()
		to.inbox.frames = append(to.inbox.frames, o.frames[i]...)
		to.inbox.mu.Unlock()
		o.frames[i] = o.frames[i][:0]
		to.alert()
	}
}

// openInbox takes in what the other engines left, and returns how many packets that were.
func (e *Engine) openInbox() (packets int) {
	b := &e.inbox
	b.waiting.Store(false)
	b.mu.Lock()
	b.packets, b.oldPackets = b.oldPackets[:0], b.packets
	b.frames, b.oldFrames = b.oldFrames[:0], b.frames
	b.mu.Unlock()
	if len(b.oldFrames) > 0 {
		e.link.Recycle(b.oldFrames)
	}
	e.takeCalls()
	for i := range b.oldPackets {
		p := &b.oldPackets[i]
		if p.origin == e {
			p.origin = nil // it went round: the connection came here meanwhile
		}
		e.receive(p)
	}
	return len(b.oldPackets)
}

// takeCalls runs the calls alone: one of them may bring the connection that a packet at hand is for.
func (e *Engine) takeCalls() {
	b := &e.inbox
	b.mu.Lock()
	calls := b.calls
	b.calls = nil
	b.mu.Unlock()
	for _, f := range calls {
		f(e)
	}
}

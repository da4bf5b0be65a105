package provider

import (
	"math/rand/v2"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/completion"
	"github.com/ndxdp/ndxdp/provider/internal/congestion"
	"github.com/ndxdp/ndxdp/provider/internal/guard"
	"github.com/ndxdp/ndxdp/provider/internal/lifetime"
	"github.com/ndxdp/ndxdp/provider/internal/link"
	"github.com/ndxdp/ndxdp/provider/internal/packet"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/provider/internal/trace"
	"github.com/ndxdp/ndxdp/provider/internal/turn"
	"github.com/ndxdp/ndxdp/wire"
)

// Engine is the transport of one NIC queue. It is a function of its inputs: packets from the link, requests from work
// queues, calls from its owner, and the time; it reads no clock, starts no goroutine and blocks on nothing.
//
// Everything in it belongs to its owner, whoever holds Shard's lock (I1), except what others leave in its inbox and the fields of work and
// completion queues that say otherwise.
type Engine struct {
	cfg  Config
	link Link
	mem  *Memory
	rng  *rand.Rand
	now  clock.Time

	// The other engines of the adapter.
	group  *group
	lead   *Engine // does what only one engine may do: the first one, perhaps this one
	index  int     // in group.engines, and so the NIC queue
	shard  *Shard  // runs this engine; nil where a test does
	inbox  inbox
	outbox outbox // for the others, until the batch is done

	directory directory
	timers    timers
	pools     pools
	guard     strangers

	round   round // have something to transmit
	heard   heardLine
	acks    ackLine
	results completion.Reporter

	received   link.Received
	out        packet.Out
	walk       packet.Walk // through the packet at hand
	ackMsg     wire.Ack
	reportMsg  wire.Report
	in         arrival
	hello      hello
	store      space.Store // of packets that wait behind gaps
	heldPacket RxPacket    // the one of them whose turn has come

	controller congestion.Control
	backlog    backlog // of the link
	putOff     bool    // Glance left the second half of a turn to the next one
	turns      turn.Clock

	clock       clock.Source // the owner's, for samples of latency; nil without any
	limitTotals trace.LimitTotals
	tap         tapping
	flight      *trace.Recorder
	stats       Stats
}

// hello is the REQ or REP at hand.
type hello struct {
	wire.Hello
	grease [wire.MaxGrease]byte
}

// newEngine makes one engine of a group.
func newEngine(cfg Config, g *group, index int, l Link, mem *Memory, rng *rand.Rand) *Engine {
	e := &Engine{
		cfg: cfg, link: l, mem: mem, rng: rng, group: g, index: index,
		directory: newDirectory(), flight: trace.NewRecorder(lifetime.Names()),
		out: packet.NewOut(l), received: link.NewReceived(l), store: space.NewStore(cfg.HeldBytes), controller: newController(&cfg),
	}
	e.lead = e
	if index > 0 {
		e.lead = g.engines[0]
	}
	e.backlog.device, _ = l.(Backlogged)
	e.guard = newStrangers(rng, guard.NewResetTokens(&g.resetKey), &e.directory, &e.stats, cfg.UDPPort)
	return e
}

// release gives a packet's frames back to the link they came from (I8).
func (e *Engine) release(p *RxPacket) {
	if p.Origin != 0 && p.Origin != numberOf(e) {
		e.outbox.giveBack(p, int(p.Origin-1), len(e.group.engines))
		return
	}
	e.received.Recycle(p)
}

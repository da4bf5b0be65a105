package provider

import (
	"math/rand/v2"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/access"
	"github.com/ndxdp/ndxdp/provider/internal/completion"
	"github.com/ndxdp/ndxdp/provider/internal/congestion"
	"github.com/ndxdp/ndxdp/provider/internal/guard"
	"github.com/ndxdp/ndxdp/provider/internal/lifetime"
	"github.com/ndxdp/ndxdp/provider/internal/link"
	"github.com/ndxdp/ndxdp/provider/internal/packet"
	"github.com/ndxdp/ndxdp/provider/internal/relay"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/provider/internal/trace"
	"github.com/ndxdp/ndxdp/provider/internal/turn"
	"github.com/ndxdp/ndxdp/wire"
)

// Engine is the transport of one NIC queue. It is a function of its inputs: packets from the link, requests from work queues, calls from
// its owner, and the time. It reads no clock, starts no goroutine and never blocks.
//
// Everything in it belongs to its owner, the holder of Shard's lock (I1). Exceptions are its inbox, and the fields of work and completion
// queues that say so.
type Engine struct {
	// All engines of the adapter.
	group  *group
	lead   *Engine // does what only one engine may do: the first one, perhaps this one
	index  int     // in group.engines, and so the NIC queue
	shard  *Shard  // runs this engine; nil where a test does
	inbox  inbox
	outbox relay.Outbox // for the others, until the batch is done

	directory directory
	timers    timers
	guard     strangers

	round  round // have something to transmit
	heard  heardLine
	acks   ackLine
	putOff bool // Glance left the second half of a turn to the next one

	// Lent to connections during a poll.
	cfg  Config
	link Link
	mem  *Memory
	rng  *rand.Rand
	now  clock.Time

	pools   pools
	results completion.Reporter

	received   link.Received
	out        packet.Out
	walk       packet.Walk // through the packet at hand
	ackMsg     wire.Ack
	reportMsg  wire.Report
	in         arrival
	hello      hello
	store      space.Store // of packets that wait behind gaps
	heldPacket RxPacket    // the stored packet that is being executed

	controller congestion.Control
	backlog    link.Backlog
	turns      turn.Clock

	writes      access.Tally
	copies      bool // the link has read what leaves when Transmit returns
	limitTotals trace.LimitTotals
	tap         tapping
	flight      *trace.Recorder
	stats       Stats
}

// newEngine makes one engine of a group.
func newEngine(cfg Config, g *group, index int, l Link, mem *Memory, rng *rand.Rand) *Engine {
	e := &Engine{
		group: g, index: index, directory: newDirectory(cfg.PortSpace),
		cfg: cfg, link: l, mem: mem, rng: rng, flight: trace.NewRecorder(lifetime.Names()),
		out: packet.NewOut(l), received: link.NewReceived(l), store: space.NewStore(cfg.HeldBytes), backlog: link.NewBacklog(l), controller: newController(&cfg),
		copies: link.Copies(l),
	}
	e.lead = e
	if index > 0 {
		e.lead = g.engines[0]
	}
	e.guard = newStrangers(rng, guard.NewResetTokens(&g.resetKey), &e.directory, &e.stats, cfg.UDPPort, cfg.PortSpace)
	return e
}

// release gives a packet's frames back to the link they came from (I8).
func (e *Engine) release(p *RxPacket) {
	if p.Origin != 0 && p.Origin != numberOf(e) {
		e.outbox.GiveBack(p, int(p.Origin-1), len(e.group.engines))
		return
	}
	e.received.Recycle(p)
}

package provider

import (
	"math/rand/v2"

	"github.com/ndxdp/ndxdp/provider/internal/guard"
	"github.com/ndxdp/ndxdp/provider/internal/relay"
)

// Engine is the transport of one NIC queue. It is a function of its inputs: packets from the link, requests from work queues, calls from
// its owner, and the time. It reads no clock, starts no goroutine and never blocks.
//
// Everything in it belongs to its owner, the holder of Shard's lock (I1). Exceptions are its inbox, and the fields of work and completion
// queues that say so.
type Engine struct {
	environment

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
}

// newEngine makes one engine of a group.
func newEngine(cfg Config, g *group, index int, l Link, mem *Memory, rng *rand.Rand) *Engine {
	e := &Engine{environment: newEnvironment(cfg, l, mem, rng), group: g, index: index, directory: newDirectory(cfg.PortSpace)}
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

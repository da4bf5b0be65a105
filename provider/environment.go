package provider

import (
	"math/rand/v2"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/access"
	"github.com/ndxdp/ndxdp/provider/internal/completion"
	"github.com/ndxdp/ndxdp/provider/internal/congestion"
	"github.com/ndxdp/ndxdp/provider/internal/lifetime"
	"github.com/ndxdp/ndxdp/provider/internal/link"
	"github.com/ndxdp/ndxdp/provider/internal/packet"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/provider/internal/trace"
	"github.com/ndxdp/ndxdp/provider/internal/turn"
	"github.com/ndxdp/ndxdp/wire"
)

// environment is what an engine lends the objects of its connections during a poll: the time, memory, the current packets in both
// directions, and counters. It knows no connection.
type environment struct {
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

// hello is the REQ or REP at hand.
type hello struct {
	wire.Hello
	grease [wire.MaxGrease]byte
}

// newEnvironment has sent and received nothing.
func newEnvironment(cfg Config, l Link, mem *Memory, rng *rand.Rand) environment {
	return environment{
		cfg: cfg, link: l, mem: mem, rng: rng, flight: trace.NewRecorder(lifetime.Names()),
		out: packet.NewOut(l), received: link.NewReceived(l), store: space.NewStore(cfg.HeldBytes), backlog: link.NewBacklog(l), controller: newController(&cfg),
		copies: link.Copies(l),
	}
}

// forget frees a path, once what was built for it has left: a connection may say its last word and be gone in the same turn.
func (v *environment) forget(p Path) {
	v.flush()
	v.link.Forget(p)
}

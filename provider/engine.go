package provider

import (
	"crypto/sha256"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/access"
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
	outbox outbox // for the others, until the batch is done

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

// MaxEngines is the most engines an adapter may have: a completion queue keeps one bit for each.
const MaxEngines = 64

// group is the common state of the engines of one adapter: one engine for each NIC queue. The first engine leads. Only the leader
// makes and frees connections, and knows ports, listeners and packets without a connection (I12). An open connection is on the engine
// whose queue its packets arrive on (move.go), and returns to the leader when it has ended.
type group struct {
	engines  []*Engine
	conns    connTable
	resetKey [sha256.Size]byte

	mu    sync.Mutex // guards what follows
	qps   map[*QP]struct{}
	alive map[uint64]struct{} // connections that have proven themselves alive since a REQ demanded it (proof.go)
}

// leastHeldBytes is what each engine of a group has for packets that wait behind gaps, unless Config.HeldBytes is less.
const leastHeldBytes = 8 << 20

// NewGroup makes the engines of one adapter, one for each link, at most MaxEngines. All randomness comes from rng, which
// must be unpredictable outside tests: connection ids, first packet numbers and, unless cfg has one, the reset key are drawn from it.
func NewGroup(cfg Config, links []Link, mem *Memory, rng *rand.Rand) []*Engine {
	cfg.setDefaults()
	cfg.HeldBytes = max(cfg.HeldBytes/max(len(links), 1), min(cfg.HeldBytes, leastHeldBytes))
	g := &group{conns: connTable{secret: rng.Uint32()}, qps: map[*QP]struct{}{}, alive: map[uint64]struct{}{}}
	for i := range g.resetKey {
		g.resetKey[i] = byte(rng.Uint32())
	}
	if cfg.ResetKey != [sha256.Size]byte{} {
		g.resetKey = cfg.ResetKey
	}
	g.conns.slots.Store(new([]atomic.Pointer[conn]))
	for i, l := range links {
		own := rng
		if i > 0 {
			own = rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64()))
		}
		g.engines = append(g.engines, newEngine(cfg, g, i, l, mem, own))
	}
	return g.engines
}

// at returns the engine at a number that is not none.
func (g *group) at(n link.Number) *Engine { return g.engines[n-1] }

// cutOff disconnects an engine that may be broken from the network, so that ending it only changes its own state.
func (e *Engine) cutOff() {
	e.link = link.Cut{}
	e.out.CutOff(link.Cut{})
	e.received.CutOff(link.Cut{})
}

// Shutdown ends the engine, because the adapter closes. Listeners refuse, pending requests end with DEVICE_REMOVED, and open
// connections are aborted with a notice to their peers. Connections that move to this engine later are aborted, too. With several
// engines, the leader is shut down last.
func (e *Engine) Shutdown() {
	e.inbox.over = true
	e.inbox.runCalls(e)
	for _, l := range e.directory.listeners {
		l.CancelRequests(OutcomeDeviceRemoved)
		l.Close()
	}
	for c := range e.group.conns.all {
		if c.home.Load() == e && c.connector != nil {
			c.connector.remove()
		}
		if c.home.Load() == e {
			endShaking(c)
		}
	}
	e.group.mu.Lock()
	qps := slices.Collect(maps.Keys(e.group.qps))
	e.group.mu.Unlock()
	for _, qp := range qps {
		if qp.home.Load() == e {
			if qp.seeker != nil {
				qp.seeker.remove()
			}
			qp.Release()
		}
	}
	e.report() // no later poll may do it
}

// remove closes a connector because the adapter has ended.
func (k *Connector) remove() {
	k.finish(OutcomeDeviceRemoved)
	k.notifyAll(OutcomeDeviceRemoved)
	k.Close()
}

package provider

import (
	"crypto/sha256"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/ndxdp/ndxdp/provider/internal/link"
)

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

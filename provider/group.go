package provider

import (
	"crypto/sha256"
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

// MaxEngines is the most engines an adapter may have: a completion queue keeps one bit for each.
const MaxEngines = 64

// group is what the engines of one adapter share: one engine for each NIC queue. The first one leads. It alone makes and
// buries connections and knows ports, listeners and strangers (I12); an open connection is at home on the engine whose queue its
// packets land on (move.go), and comes back to the leader when it is over.
type group struct {
	engines    []*Engine
	conns      connTable
	slotSecret uint32
	resetKey   [sha256.Size]byte

	mu    sync.Mutex // guards what follows
	qps   map[*QP]struct{}
	alive map[uint64]struct{} // connections that have proven themselves alive since a REQ demanded it (proof.go)
}

// NewGroup makes the engines of one adapter, one for each link, at most MaxEngines. All randomness comes from rng, which
// must be unpredictable outside tests: connection ids, first PSNs and, unless cfg has one, the reset key are drawn from it.
func NewGroup(cfg Config, links []Link, mem *Memory, rng *rand.Rand) []*Engine {
	cfg.setDefaults()
	g := &group{slotSecret: rng.Uint32(), qps: map[*QP]struct{}{}, alive: map[uint64]struct{}{}}
	for i := range g.resetKey {
		g.resetKey[i] = byte(rng.Uint32())
	}
	if cfg.ResetKey != [sha256.Size]byte{} {
		g.resetKey = cfg.ResetKey
	}
	g.conns.slots.Store(new([]atomic.Pointer[conn]))
	for i, link := range links {
		own := rng
		if i > 0 {
			own = rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64()))
		}
		g.engines = append(g.engines, newEngine(cfg, g, i, link, mem, own))
	}
	return g.engines
}

// at returns the engine at a place that is not none.
func (g *group) at(p place) *Engine { return g.engines[p-1] }

// connTable holds the connections of a group by slot. The leader writes; every engine looks up.
type connTable struct {
	slots atomic.Pointer[[]atomic.Pointer[conn]] // replaced when it grows; never empties a slot that the leader did not
	used  uint32                                 // slots that were ever taken; the leader's
	free  []uint32                               // the leader's
}

// at returns the connection in a slot, or nil.
func (t *connTable) at(slot uint32) *conn {
	slots := *t.slots.Load()
	if slot >= uint32(len(slots)) {
		return nil
	}
	return slots[slot].Load()
}

// all yields every connection of the table.
func (t *connTable) all(yield func(*conn) bool) {
	slots := *t.slots.Load()
	for i := range slots {
		if c := slots[i].Load(); c != nil && !yield(c) {
			return
		}
	}
}

// alloc reserves a slot; ok is false when limit are taken.
func (t *connTable) alloc(limit uint32) (slot uint32, ok bool) {
	if n := len(t.free); n > 0 {
		slot = t.free[n-1]
		t.free = t.free[:n-1]
		return slot, true
	}
	if t.used >= limit {
		return 0, false
	}
	slot = t.used
	t.used++
	if slots := *t.slots.Load(); slot == uint32(len(slots)) {
		// Whoever still reads the old one may find a connection that is over by then, and asks its home, the leader, about it.
		grown := make([]atomic.Pointer[conn], max(64, 2*len(slots)))
		for i := range slots {
			grown[i].Store(slots[i].Load())
		}
		t.slots.Store(&grown)
	}
	return slot, true
}

// full says that only a slot that is given back could be taken.
func (t *connTable) full(limit uint32) bool { return len(t.free) == 0 && t.used >= limit }

func (t *connTable) put(slot uint32, c *conn) { (*t.slots.Load())[slot].Store(c) }

// give frees a slot.
func (t *connTable) give(slot uint32) {
	t.put(slot, nil)
	t.free = append(t.free, slot)
}

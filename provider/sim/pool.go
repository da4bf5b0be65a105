package sim

import (
	"time"

	"github.com/ndxdp/ndxdp/provider"
)

// pool is a shared receive queue of a host, and the application that refills it when it is notified that few receives are left.
type pool struct {
	store
	host   *Host
	queue  *provider.SharedReceiveQueue
	posted map[uint64]receive
	free   []int
	next   uint64
	dry    bool // no slot was free
}

const (
	poolDepth   = 24
	poolSlotLen = 4 << 10
	poolMost    = poolSlotLen - 256 // the longest message
)

// sharedPool returns the host's pool. The first call makes it.
func (h *Host) sharedPool() *pool {
	if h.pool != nil {
		return h.pool
	}
	depth := 1 + h.rng.IntN(poolDepth)
	p := &pool{
		store: h.newStore(h.rng, depth, poolSlotLen), host: h, posted: map[uint64]receive{},
		queue: provider.NewSharedReceiveQueue(depth, 4, 1+h.rng.IntN(depth)),
	}
	for i := range depth {
		p.free = append(p.free, i)
	}
	h.pool = p
	p.refill()
	return p
}

// refill posts some or all free slots, and requests a notification.
func (p *pool) refill() {
	if p.host.pool != p {
		return
	}
	for n := 1 + p.rng.IntN(poolDepth); n > 0 && len(p.free) > 0; n-- {
		last := len(p.free) - 1
		q := receive{context: p.next, slot: p.free[last]}
		p.fill(q.slot)
		q.sges = p.cut(q.slot, poolMost)
		qp, o := p.queue.Post(q.context, q.sges, poolMost)
		if o != provider.OutcomeSuccess {
			p.host.net.Fail("%s: post shared receive: %v", p.host.name, o)
			return
		}
		p.free = p.free[:last]
		p.posted[q.context] = q
		p.next++
		if qp != nil {
			p.host.Poke()
		}
	}
	if p.dry = len(p.free) == 0; p.dry {
		return
	}
	p.queue.Arm(func(o provider.Outcome) {
		if o == provider.OutcomeSuccess {
			p.refillSoon()
		}
	})
}

// refillSoon refills after the application's thinking time.
func (p *pool) refillSoon() {
	pause := between(p.rng, 0, 200*time.Microsecond)
	if p.rng.IntN(100) == 0 {
		pause = between(p.rng, 0, 4*time.Second) // with a shared queue, peers wait for as long as they live
	}
	p.host.net.After(pause, p.refill)
}

// giveBack frees the slot of a receive that has ended.
func (p *pool) giveBack(slot int) {
	p.free = append(p.free, slot)
	if p.dry {
		p.dry = false
		p.refillSoon()
	}
}

// close closes a pool whose queue pairs are gone.
func (p *pool) close() {
	h := p.host
	if !p.mem.guarded() {
		h.net.Fail("%s: something was written in front of or behind shared receives", h.name)
	}
	for _, q := range p.posted {
		if !p.intact(q.slot, nil, 0) {
			h.net.Fail("%s: shared receive %d was not reported and was written to", h.name, q.context)
		}
	}
	if n := p.queue.Posted(); n != len(p.posted) {
		h.net.Fail("%s: %d shared receives are left, %d were not reported", h.name, n, len(p.posted))
	}
	p.queue.CancelWaiters(provider.OutcomeCanceled)
	if o := h.Memory.Deregister(p.mem.region); o != provider.OutcomeSuccess {
		h.net.Fail("%s: deregistering: %v", h.name, o)
	}
	h.pool = nil
}

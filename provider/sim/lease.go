package sim

import (
	"bytes"

	"github.com/ndxdp/ndxdp/provider"
)

// lease is memory that grants the peer nothing by itself: only through a memory window, while that is bound. The owner binds
// it; the peer writes and reads through it, and ends it with a Send that invalidates, or the owner ends it.
type lease struct {
	window *provider.MemoryWindow
	area   area
	state  leaseState
	off, n int // what is granted
	uses   int // the peer's requests that are under way
	ever   []span
}

type leaseState uint8

const (
	leaseFree leaseState = iota
	leaseBinding
	leaseBound
	leaseEnding // nobody may use it any more
)

// noSlot is the slot of a request that needs no memory.
const noSlot = -1

func (a *side) newLease() lease {
	w, err := a.host.Memory.NewWindow()
	if err != nil {
		a.fail("window: %v", err)
	}
	return lease{window: w, area: a.host.newArea(a.shape.book, provider.RightLocalWrite)}
}

// postLocal posts a Bind or an Invalidate, when one is possible now.
func (a *side) postLocal() bool {
	l := &a.lease
	flags := a.drawFlags()
	req := request{context: a.context, slot: noSlot, silent: flags&provider.FlagSilentSuccess != 0, at: a.s.net.now}
	var ring bool
	var o provider.Outcome
	switch {
	case l.state == leaseFree:
		l.n = 1 + a.rng.IntN(a.shape.book)
		l.off = a.rng.IntN(a.shape.book - l.n + 1)
		l.ever = append(l.ever, span{l.off, l.n})
		req.kind, l.state = provider.KindBind, leaseBinding
		ring, o = a.qp.Bind(&provider.BindRequest{
			Window: l.window, Region: l.area.region, Addr: l.area.addr(l.off), Length: uint64(l.n), Context: a.context,
			Flags: flags | provider.FlagAllowRead | provider.FlagAllowWrite,
		})
	case l.state == leaseBound && l.uses == 0:
		req.kind, l.state = provider.KindInvalidate, leaseEnding
		ring, o = a.qp.Invalidate(a.context, l.window, flags)
	default:
		return false
	}
	if o != provider.OutcomeSuccess {
		a.refused(o)
		return false
	}
	a.deferred = false
	a.enter(req, ring)
	return true
}

// advance takes in that a Bind or an invalidation succeeded.
func (l *lease) advance(kind provider.RequestKind) {
	switch kind {
	case provider.KindBind:
		l.state = leaseBound
	case provider.KindInvalidate:
		l.state = leaseFree
	default:
	}
}

// confined says that nothing was written that was never granted.
func (l *lease) confined() bool {
	memory := append([]byte(nil), l.area.bytes()...)
	want := noise[l.area.from+guard:][:len(memory)]
	for _, s := range l.ever {
		copy(memory[s.off:][:s.n], want[s.off:])
	}
	return bytes.Equal(memory, want)
}

package sim

import (
	"bytes"

	"github.com/ndxdp/ndxdp/provider"
)

// lease is memory that the peer may access only while a memory window is bound or a fast registration is valid. The owner posts the
// Bind or registration. After it succeeds, the peer learns the token, and writes and reads with it. The peer ends the lease with a
// Send that invalidates, or the owner ends it.
type lease struct {
	window *provider.MemoryWindow
	fast   bool   // the window is a region for fast registration
	base   uint64 // address of the area's first byte for the peer
	area   area
	state  leaseState
	off, n int // the granted bytes
	uses   int // requests of the peer that use it
	ever   []span
}

type leaseState uint8

const (
	leaseFree leaseState = iota
	leaseBinding
	leaseBound
	leaseEnding // must not be used any more
	leaseEnded  // ended for good
)

// noSlot is the slot of a request without memory.
const noSlot = -1

func (a *side) newLease() lease {
	l := lease{area: a.host.newArea(a.shape.book, provider.RightLocalWrite), fast: a.rng.IntN(2) == 0}
	l.base = l.area.addr(0)
	var err error
	if l.fast {
		l.window, err = a.host.Memory.NewFastRegion()
	} else {
		l.window, err = a.host.Memory.NewWindow()
	}
	if err != nil {
		a.fail("window: %v", err)
	}
	return l
}

// grant posts a Bind, or a fast registration with a base of its own.
func (a *side) grant(flags provider.PostFlags) (ring bool, o provider.Outcome) {
	l := &a.lease
	if !l.area.kept() {
		a.fail("memory was written to behind the end of its grant")
	}
	l.area.sealed = nil
	r := provider.BindRequest{
		Window: l.window, Region: l.area.region, Addr: l.area.addr(l.off), Length: uint64(l.n), Context: a.context,
		Flags: flags | provider.FlagAllowRead | provider.FlagAllowWrite,
	}
	if !l.fast {
		return a.qp.Bind(&r)
	}
	first := uint64(a.shape.book) + a.rng.Uint64()>>2 // any address, from which the peer addresses the granted bytes
	l.base = first - uint64(l.off)
	return a.qp.FastRegister(&r, first)
}

// postLocal posts a Bind or an Invalidate, if possible.
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
		if l.fast {
			req.kind = provider.KindFastRegister
		}
		ring, o = a.grant(flags)
	case l.state == leaseBound && l.uses == 0:
		return a.invalidateLease(flags)
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

// invalidateLease posts an Invalidate of the window. The peer may use the window until the request executes.
func (a *side) invalidateLease(flags provider.PostFlags) bool {
	a.lease.state = leaseEnding
	ring, o := a.qp.Invalidate(a.context, a.lease.window, flags)
	if o != provider.OutcomeSuccess {
		a.refused(o)
		return false
	}
	a.deferred = false
	a.enter(request{context: a.context, kind: provider.KindInvalidate, slot: noSlot, silent: flags&provider.FlagSilentSuccess != 0, at: a.s.net.now}, ring)
	return true
}

// advance records that a Bind or an invalidation succeeded.
func (l *lease) advance(kind provider.RequestKind) {
	switch kind {
	case provider.KindBind, provider.KindFastRegister:
		l.state = leaseBound
	case provider.KindInvalidate:
		l.state = leaseFree
		l.area.seal()
	default:
	}
}

// confined reports whether bytes that were never granted are unchanged.
func (l *lease) confined() bool {
	memory := append([]byte(nil), l.area.bytes()...)
	want := noise[l.area.from+guard:][:len(memory)]
	for _, s := range l.ever {
		copy(memory[s.off:][:s.n], want[s.off:])
	}
	return bytes.Equal(memory, want)
}

package sim

import (
	"bytes"

	"github.com/ndxdp/ndxdp/provider"
)

// poll takes results and checks each: once per request, in order, with the right bytes.
func (a *side) poll() {
	var rs [16]provider.Result
	for {
		n := a.cq.Fetch(rs[:])
		for i := range n {
			if rs[i].Kind == provider.KindReceive {
				a.onReceive(&rs[i])
			} else {
				a.onResult(&rs[i])
			}
		}
		if n < len(rs) {
			return
		}
	}
}

func (a *side) onResult(r *provider.Result) {
	for len(a.posted) > 0 && a.posted[0].silent && a.posted[0].context != r.RequestContext {
		a.endRequest(true) // a silent request succeeded
	}
	if len(a.posted) == 0 || a.posted[0].context != r.RequestContext || a.posted[0].kind != r.Kind {
		a.fail("result %+v, but the oldest request is %+v", *r, a.posted)
		return
	}
	success := r.Outcome == provider.OutcomeSuccess
	switch {
	case success && a.posted[0].silent:
		a.fail("silent request %d reported success", r.RequestContext)
	case !success && !a.mayEndWith(&a.posted[0], r.Outcome):
		a.fail("request %d of kind %d ended with %v", r.RequestContext, r.Kind, r.Outcome)
	}
	a.endRequest(success)
	if !success && !a.s.revoked.noteFailure(a, r.Outcome) {
		a.s.abandon()
	}
}

// mayEndWith reports whether a request may fail with o. Before the end of the session it may not. After the peer disconnected, a
// Send may also wait in vain for a receive until this side disconnects, too. After the peer flushed, its TERM says so. With a
// hostile peer any failure is allowed. q is nil for a receive.
func (a *side) mayEndWith(q *request, o provider.Outcome) bool {
	if !a.trusts() || a.s.revoked.allows(a, q, o) {
		return true
	}
	return a.ended && (o == provider.OutcomeCanceled || o == provider.OutcomeIOTimeout && !a.s.graceful ||
		o == provider.OutcomeRemoteError && a.s.ending == activeFlushes && a == a.s.b)
}

// endRequest checks and removes the oldest request.
func (a *side) endRequest(success bool) {
	q := &a.posted[0]
	written := 0 // bytes written into the slot
	if q.kind == provider.KindRead {
		written = q.length
	}
	if q.slot != noSlot && !a.intact(q.slot, q.sges, written) {
		a.fail("request %d of kind %d: local memory was written to", q.context, q.kind)
	}
	if success && q.expect != nil && a.trusts() && !a.holds(q.sges, q.expect) {
		a.fail("Read %d brought the wrong bytes", q.context)
	}
	if q.slot != noSlot {
		a.free = append(a.free, q.slot)
	}
	if q.uses == grantLease {
		a.peer.lease.uses--
	}
	if success {
		if q.kind == provider.KindFastRegister {
			a.s.net.fastRegistered++
		}
		a.countWritten(q)
		a.lease.advance(q.kind)
	}
	a.posted = a.posted[1:]
	if success {
		a.done.requests++
	}
}

// countWritten counts a successful Write, whose bytes are in the peer's memory.
func (a *side) countWritten(q *request) {
	switch {
	case q.kind != provider.KindWrite:
	case q.model == &a.model:
		a.written++
	default:
		a.leasedWritten++
	}
}

// taken finds the receive of a result and removes it from its list. Receives of a pool complete in any order.
func (a *side) taken(context uint64) (q receive, m *store, ok bool) {
	if a.pool != nil {
		q, ok = a.pool.posted[context]
		delete(a.pool.posted, context)
		return q, &a.pool.store, ok
	}
	if len(a.receives) == 0 || a.receives[0].context != context {
		return receive{}, nil, false
	}
	q = a.receives[0]
	a.receives = a.receives[1:]
	a.rfree = append(a.rfree, q.slot)
	return q, &a.store, true
}

func (a *side) onReceive(r *provider.Result) {
	q, memory, ok := a.taken(r.RequestContext)
	if !ok {
		a.fail("receive %d ended out of order", r.RequestContext)
		return
	}
	if a.pool != nil {
		defer a.pool.giveBack(q.slot)
	}
	success := r.Outcome == provider.OutcomeSuccess
	written := int(r.Bytes)
	if !success {
		written = memory.slotLen
	}
	if !memory.intact(q.slot, q.sges, written) {
		a.fail("receive %d: memory beside its bytes was written to", r.RequestContext)
	}
	switch {
	case !success:
		if !a.mayEndWith(nil, r.Outcome) {
			a.fail("receive %d ended with %v", r.RequestContext, r.Outcome)
		}
		if !a.s.revoked.noteFailure(a, r.Outcome) {
			a.s.abandon()
		}
	case a.trusts():
		a.onMessage(r, &q, memory)
	}
}

// onMessage compares a message with the oldest Send of the peer that has not arrived.
func (a *side) onMessage(r *provider.Result, q *receive, memory *store) {
	a.done.receives++
	if len(a.peer.sent) == 0 {
		a.fail("received a message that was never sent")
		return
	}
	m := a.peer.sent[0]
	a.peer.sent = a.peer.sent[1:]
	if int(r.Bytes) != len(m.body) || !memory.holds(q.sges, m.body) {
		a.fail("receive %d took %d bytes, wrong or not %d", r.RequestContext, r.Bytes, len(m.body))
	}
	if r.HasImmediate != (m.flags&provider.FlagImmediate != 0) || r.Immediate != m.immediate || r.Invalidated != m.token {
		a.fail("receive %d: immediate %v %#x, invalidated %#x, of %+v", r.RequestContext, r.HasImmediate, r.Immediate, r.Invalidated, m)
	}
	if m.token != 0 {
		if a.lease.window.Bound() {
			a.fail("receive %d: the window is still bound", r.RequestContext)
		}
		a.lease.advance(provider.KindInvalidate)
	}
	if !a.peer.model.inPlace(a.in.bytes(), m.writes) {
		a.fail("receive %d came before the Writes in front of it", r.RequestContext)
	}
}

// finalCheck compares memory with the models after everything has ended.
func (a *side) finalCheck(graceful bool) {
	if graceful && a.trusts() && !bytes.Equal(a.in.bytes(), a.peer.model.want) {
		a.fail("memory is not what the peer's Writes make of it")
	}
	if a.trusts() && !a.peer.model.confined(a.in.bytes()) {
		a.fail("something was written where no Write went")
	}
	if graceful && a.trusts() && !bytes.Equal(a.lease.area.bytes(), a.peer.leased.want) {
		a.fail("memory behind a window is not what the peer's Writes make of it")
	}
	a.checkRevoked()
	if !a.lease.confined() {
		a.fail("something was written that no window granted")
	}
	if !a.mem.guarded() || !a.in.guarded() || !a.lease.area.guarded() {
		a.fail("something was written in front of or behind memory")
	}
	if !a.book.untouched() {
		a.fail("memory that grants no writing was written to")
	}
	if !a.allEnded() {
		a.fail("%d receives and %d requests never ended", len(a.receives), len(a.posted))
	}
}

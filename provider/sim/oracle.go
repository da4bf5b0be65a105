package sim

import (
	"bytes"

	"github.com/ndxdp/ndxdp/provider"
)

// poll takes results and checks them: each request once, in order, with the right bytes.
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
		a.endRequest(true) // succeeded in silence
	}
	if len(a.posted) == 0 || a.posted[0].context != r.RequestContext || a.posted[0].kind != r.Kind {
		a.fail("result %+v, but the oldest request is %+v", *r, a.posted)
		return
	}
	success := r.Outcome == provider.OutcomeSuccess
	switch {
	case success && a.posted[0].silent:
		a.fail("silent request %d reported success", r.RequestContext)
	case !success && !a.mayEndWith(r.Outcome):
		a.fail("request %d of kind %d ended with %v", r.RequestContext, r.Kind, r.Outcome)
	}
	a.endRequest(success)
	if !success {
		a.s.abandon()
	}
}

// mayEndWith says whether a request may fail with o: not before the session is over. After the peer disconnected, a Send may
// also wait in vain for a receive, until we disconnect too; after it flushed, the peer says so. A hostile peer may get what
// it asks for.
func (a *side) mayEndWith(o provider.Outcome) bool {
	if !a.trusts() {
		return true
	}
	return a.ended && (o == provider.OutcomeCanceled || o == provider.OutcomeIOTimeout && !a.s.graceful ||
		o == provider.OutcomeRemoteError && a.s.ending == activeFlushes && a == a.s.b)
}

// endRequest checks the oldest request and takes it off the list.
func (a *side) endRequest(success bool) {
	q := &a.posted[0]
	written := 0 // of the slot
	if q.kind == provider.KindRead {
		written = q.length
	}
	if !a.intact(q.slot, q.sges, written) {
		a.fail("request %d of kind %d: local memory was written to", q.context, q.kind)
	}
	if success && q.expect != nil && a.trusts() && !a.holds(q.sges, q.expect) {
		a.fail("Read %d brought the wrong bytes", q.context)
	}
	a.free = append(a.free, q.slot)
	a.posted = a.posted[1:]
	if success {
		a.done.requests++
	}
}

func (a *side) onReceive(r *provider.Result) {
	if len(a.receives) == 0 || a.receives[0].context != r.RequestContext {
		a.fail("receive %d ended out of order", r.RequestContext)
		return
	}
	q := a.receives[0]
	a.receives = a.receives[1:]
	a.rfree = append(a.rfree, q.slot)
	success := r.Outcome == provider.OutcomeSuccess
	written := int(r.Bytes)
	if !success {
		written = a.shape.most
	}
	if !a.intact(q.slot, q.sges, written) {
		a.fail("receive %d: memory beside its bytes was written to", r.RequestContext)
	}
	switch {
	case !success:
		if !a.mayEndWith(r.Outcome) {
			a.fail("receive %d ended with %v", r.RequestContext, r.Outcome)
		}
		a.s.abandon()
		return
	case !a.trusts():
		return
	}
	a.done.receives++
	if len(a.peer.sent) == 0 {
		a.fail("received a message that was never sent")
		return
	}
	m := a.peer.sent[0]
	a.peer.sent = a.peer.sent[1:]
	if int(r.Bytes) != len(m.body) || !a.holds(q.sges, m.body) {
		a.fail("receive %d took %d bytes, wrong or not %d", r.RequestContext, r.Bytes, len(m.body))
	}
	if !a.peer.model.inPlace(a.in.bytes(), m.writes) {
		a.fail("receive %d came before the Writes in front of it", r.RequestContext)
	}
}

// finalCheck compares memory with the models once everything has ended.
func (a *side) finalCheck(graceful bool) {
	if graceful && a.trusts() && !bytes.Equal(a.in.bytes(), a.peer.model.want) {
		a.fail("memory is not what the peer's Writes make of it")
	}
	if a.trusts() && !a.peer.model.confined(a.in.bytes()) {
		a.fail("something was written where no Write went")
	}
	if !a.mem.guarded() || !a.in.guarded() {
		a.fail("something was written in front of or behind memory")
	}
	if !a.book.untouched() {
		a.fail("memory that grants no writing was written to")
	}
	if !a.allEnded() {
		a.fail("%d receives and %d requests never ended", len(a.receives), len(a.posted))
	}
}

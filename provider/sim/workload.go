package sim

import "github.com/ndxdp/ndxdp/provider"

// size draws a length: mostly small, sometimes over several packets, and the corners more often than chance would.
func (a *side) size(limit int) int {
	switch a.rng.IntN(8) {
	case 0:
		return 0
	case 1:
		return 1
	case 2, 3, 4:
		return a.rng.IntN(min(limit, 200))
	case 5:
		return a.rng.IntN(min(limit, 4000))
	case 6: // rather long, to fill packets to the brim
		return limit - a.rng.IntN(limit/4)
	default:
		return a.rng.IntN(limit)
	}
}

// cut divides n bytes of a slot into one to four entries, with gaps between them. Empty entries are legal.
func (a *side) cut(slot, n int) []provider.SGE {
	base := slot*a.shape.slotLen + a.rng.IntN(64)
	var sges []provider.SGE
	parts := 1 + a.rng.IntN(4)
	for i := range parts {
		take := n
		if i < parts-1 {
			take = a.rng.IntN(n + 1)
		}
		sges = append(sges, provider.SGE{Addr: a.mem.addr(base), Len: uint32(take), Token: a.mem.region.Token()})
		base += take + a.rng.IntN(16)
		n -= take
	}
	return sges
}

// mayPost says whether a request could be posted now.
func (a *side) mayPost() bool {
	return a.todo > 0 && !a.ended && len(a.free) > 0 && len(a.posted) < a.depth.initiator
}

// post posts one random request. It reports false when nothing can be posted now.
func (a *side) post() bool {
	if !a.mayPost() {
		return false
	}
	slot := a.free[len(a.free)-1]
	a.fill(slot)
	r := provider.Request{Context: a.context}
	if a.fenced || a.rng.IntN(10) == 0 {
		r.Flags |= provider.FlagReadFence
	}
	if a.rng.IntN(4) == 0 && a.maySilence() {
		r.Flags |= provider.FlagSilentSuccess
	}
	req := request{context: a.context, slot: slot, at: a.s.net.now}
	switch k := a.rng.IntN(10); {
	case k < 4:
		a.makeWrite(&r, slot)
	case k < 7 || a.want[1] == 0 || a.peer.want[0] == 0:
		a.makeSend(&r, slot)
	default:
		a.makeRead(&r, slot, &req)
	}
	req.kind, req.silent, req.sges, req.length = r.Kind, r.Flags&provider.FlagSilentSuccess != 0, r.SGL, int(r.Length)
	a.deferred = a.rng.IntN(6) == 0 && a.todo > 1 && len(a.free) > 1 && len(a.posted)+1 < a.depth.initiator
	if a.deferred {
		r.Flags |= provider.FlagDefer
	}
	ring, o := a.qp.Post(&r)
	if o != provider.OutcomeSuccess {
		a.refused(o)
		return false
	}
	a.fenced = req.expect != nil && r.Addr >= a.peer.in.region.Base() && r.Token == a.peer.in.region.Token()
	a.commit(&r)
	a.free = a.free[:len(a.free)-1]
	a.posted = append(a.posted, req)
	a.context++
	a.todo--
	if ring {
		a.host.Poke()
	}
	return true
}

// refused takes in that Post failed: only a connection that a hostile peer or a restart ended may do that.
func (a *side) refused(o provider.Outcome) {
	a.deferred = false
	if a.s.sound() {
		a.fail("post: %v, with %d of %d posted", o, len(a.posted), a.depth.initiator)
		return
	}
	a.todo = 0
	a.s.abandon()
}

// maySilence says whether a request may succeed silently: an application that hears nothing does not know when its
// queue and its memory are free again, so some requests must speak, the last one among them.
func (a *side) maySilence() bool {
	silent := 0
	for i := range a.posted {
		if a.posted[i].silent {
			silent++
		}
	}
	return a.todo > 1 && silent+1 < a.depth.initiator && len(a.free) > 4
}

func (a *side) makeWrite(r *provider.Request, slot int) {
	r.Kind = provider.KindWrite
	n := a.size(min(a.shape.most, a.peer.shape.inbox))
	a.local(r, slot, n)
	off := a.rng.IntN(a.peer.shape.inbox - n + 1)
	r.Addr, r.Token = a.peer.in.addr(off), a.peer.in.region.Token()
}

func (a *side) makeSend(r *provider.Request, slot int) {
	r.Kind = provider.KindSend
	if a.rng.IntN(3) == 0 {
		r.Flags |= provider.FlagSolicit
	}
	a.local(r, slot, a.size(min(a.shape.most, a.peer.shape.most)))
}

// local sets the local memory of a request: entries, or inline bytes when they fit.
func (a *side) local(r *provider.Request, slot, n int) {
	sges := a.cut(slot, n)
	r.Length = uint32(n)
	if n <= 300 && a.rng.IntN(3) == 0 {
		r.Flags |= provider.FlagInline
		r.Inline = a.gathered(sges)
		return
	}
	r.SGL = sges
}

func (a *side) makeRead(r *provider.Request, slot int, req *request) {
	r.Kind = provider.KindRead
	n := a.size(min(a.shape.most, a.peer.shape.book))
	r.SGL, r.Length = a.cut(slot, n), uint32(n)
	if a.rng.IntN(2) == 0 {
		off := a.rng.IntN(a.peer.shape.book - n + 1)
		r.Addr, r.Token = a.peer.book.addr(off), a.peer.book.region.Token()
		req.expect = a.peer.book.bytes()[off : off+n]
		return
	}
	// What we wrote there before; the next request is fenced, so nothing later can get in between.
	off := a.rng.IntN(a.peer.shape.inbox - n + 1)
	r.Addr, r.Token = a.peer.in.addr(off), a.peer.in.region.Token()
	req.expect = append([]byte{}, a.model.want[off:off+n]...)
}

// commit enters a posted request into the models.
func (a *side) commit(r *provider.Request) {
	if r.Kind == provider.KindRead {
		return
	}
	body := append(a.gathered(r.SGL), r.Inline...)
	if r.Kind == provider.KindWrite {
		a.model.write(a.peer.in.offset(r.Addr), body)
		return
	}
	a.sent = append(a.sent, message{body, len(a.model.writes)})
}

// mayReceive says whether a receive could be posted now.
func (a *side) mayReceive() bool {
	return len(a.rfree) > 0 && len(a.receives) < a.depth.receive && !a.ended
}

// offer posts a receive to the queue pair, or to the shared queue it takes from.
func (a *side) offer(sges []provider.SGE) (ring bool, o provider.Outcome) {
	if a.pool == nil {
		return a.qp.PostReceive(a.context, sges, uint32(a.shape.most))
	}
	qp, o := a.pool.Post(a.context, sges, uint32(a.shape.most))
	return qp != nil, o
}

// postReceive posts one receive that takes any message.
func (a *side) postReceive() bool {
	if !a.mayReceive() {
		return false
	}
	slot := a.rfree[len(a.rfree)-1]
	a.fill(slot)
	sges := a.cut(slot, a.shape.most)
	ring, o := a.offer(sges)
	if o != provider.OutcomeSuccess {
		a.fail("post receive: %v", o)
		return false
	}
	a.rfree = a.rfree[:len(a.rfree)-1]
	a.receives = append(a.receives, receive{a.context, slot, sges})
	a.context++
	if ring {
		a.host.Poke()
	}
	return true
}

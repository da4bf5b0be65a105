package sim

import "github.com/ndxdp/ndxdp/provider"

// size draws a length: mostly small, sometimes several packets, and limits more often than by chance.
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
	case 6: // long enough to fill packets
		return limit - a.rng.IntN(limit/4)
	default:
		return a.rng.IntN(limit)
	}
}

// mayPost reports whether a request could be posted now.
func (a *side) mayPost() bool {
	return a.todo > 0 && !a.ended && len(a.free) > 0 && len(a.posted) < a.depth.initiator
}

// post posts one random request. It returns false if nothing can be posted now.
func (a *side) post() bool {
	if !a.mayPost() {
		return false
	}
	if a.rng.IntN(12) == 0 && !a.fenced && a.postLocal() {
		return true
	}
	slot := a.free[len(a.free)-1]
	a.fill(slot)
	r := provider.Request{Context: a.context, Flags: a.drawFlags()}
	req := request{context: a.context, slot: slot, at: a.s.net.now}
	switch k := a.rng.IntN(10); {
	case k < 4:
		a.makeWrite(&r, slot, &req)
	case k < 7 || a.want[1] == 0 || a.peer.want[0] == 0:
		a.makeSend(&r, slot, &req)
	default:
		a.makeRead(&r, slot, &req)
	}
	req.kind, req.silent, req.length = r.Kind, r.Flags&provider.FlagSilentSuccess != 0, int(r.Length)
	a.deferred = a.rng.IntN(6) == 0 && a.todo > 1 && len(a.free) > 1 && len(a.posted)+1 < a.depth.initiator
	if a.deferred {
		r.Flags |= provider.FlagDefer
	}
	ring, o := a.qp.Post(&r, req.sges)
	if o != provider.OutcomeSuccess {
		a.refused(o)
		return false
	}
	a.fenced = req.expect != nil && r.Token != a.peer.book.region.Token()
	a.commit(&r, &req)
	a.free = a.free[:len(a.free)-1]
	a.enter(req, ring)
	return true
}

// drawFlags draws the flags of a request.
func (a *side) drawFlags() (f provider.PostFlags) {
	if a.fenced || a.rng.IntN(10) == 0 {
		f |= provider.FlagReadFence
	}
	if a.rng.IntN(4) == 0 && a.maySilence() {
		f |= provider.FlagSilentSuccess
	}
	return f
}

// enter records a posted request.
func (a *side) enter(req request, ring bool) {
	a.posted = append(a.posted, req)
	a.context++
	a.todo--
	if ring {
		a.host.Poke()
	}
}

// refused handles a failed Post, which is allowed only if a hostile peer or a restart ended the connection.
func (a *side) refused(o provider.Outcome) {
	a.deferred = false
	if a.s.sound() {
		a.fail("post: %v, with %d of %d posted", o, len(a.posted), a.depth.initiator)
		return
	}
	a.todo = 0
	if a.s.revoked != nil {
		a.s.abandonLater() // pending results will show the reason
		return
	}
	a.s.abandon()
}

// maySilence reports whether a request may succeed silently. An application without results does not know when its queue and its
// memory are free, so some requests must report, including the last one.
func (a *side) maySilence() bool {
	silent := 0
	for i := range a.posted {
		if a.posted[i].silent {
			silent++
		}
	}
	return a.todo > 1 && silent+1 < a.depth.initiator && len(a.free) > 4
}

// target draws up to n bytes of the peer's memory, for a Write or for a Read of earlier Writes. They lie in the peer's inbox, or in
// memory leased through a memory window.
func (a *side) target(r *provider.Request, req *request, n int) (bytes, off int, m *inboxModel) {
	l := &a.peer.lease
	if l.state == leaseBound && a.rng.IntN(2) == 0 {
		n = min(n, l.n)
		off = l.off + a.rng.IntN(l.n-n+1)
		r.Addr, r.Token = l.base+uint64(off), l.window.Token()
		l.uses++
		req.uses = grantLease
		return n, off, &a.leased
	}
	req.uses = grantInbox
	n = min(n, a.peer.shape.inbox)
	off = a.rng.IntN(a.peer.shape.inbox - n + 1)
	r.Addr, r.Token = a.peer.in.addr(off), a.peer.in.region.Token()
	return n, off, &a.model
}

func (a *side) makeWrite(r *provider.Request, slot int, req *request) {
	r.Kind = provider.KindWrite
	n, off, m := a.target(r, req, a.size(a.shape.most))
	a.local(r, slot, n, req)
	req.off, req.model = off, m
}

func (a *side) makeSend(r *provider.Request, slot int, req *request) {
	r.Kind = provider.KindSend
	if a.rng.IntN(3) == 0 {
		r.Flags |= provider.FlagSolicit
	}
	a.local(r, slot, a.size(min(a.shape.most, a.peer.shape.most)), req)
	l := &a.peer.lease
	switch k := a.rng.IntN(4); {
	case k == 0:
		r.Flags |= provider.FlagImmediate
		r.Immediate = a.rng.Uint32()
	case k == 1 && l.state == leaseBound:
		// A READ still in progress through the window would fail, so the fence waits for its end.
		r.Flags |= provider.FlagInvalidate | provider.FlagReadFence
		r.Token = l.window.Token()
		l.state = leaseEnding
	}
}

// local sets the local memory of a request: entries, or inline bytes if they fit.
func (a *side) local(r *provider.Request, slot, n int, req *request) {
	sges := a.cut(slot, n)
	r.Length = uint32(n)
	if n <= 300 && a.rng.IntN(3) == 0 {
		r.Flags |= provider.FlagInline
		r.Inline = a.gathered(sges)
		return
	}
	req.sges = sges
}

func (a *side) makeRead(r *provider.Request, slot int, req *request) {
	r.Kind = provider.KindRead
	n := a.size(min(a.shape.most, a.peer.shape.book))
	req.sges, r.Length = a.cut(slot, n), uint32(n)
	if a.rng.IntN(2) == 0 {
		req.uses = grantBook
		off := a.rng.IntN(a.peer.shape.book - n + 1)
		r.Addr, r.Token = a.peer.book.addr(off), a.peer.book.region.Token()
		req.expect = a.peer.book.bytes()[off : off+n]
		return
	}
	// Earlier bytes of this side. The next request is fenced, so no later request can overwrite them first.
	n, off, m := a.target(r, req, n)
	req.sges, r.Length = a.cut(slot, n), uint32(n)
	req.expect = append([]byte{}, m.want[off:off+n]...)
}

// commit applies a posted request to the models.
func (a *side) commit(r *provider.Request, req *request) {
	if r.Kind == provider.KindRead {
		return
	}
	body := append(a.gathered(req.sges), r.Inline...)
	if r.Kind == provider.KindWrite {
		req.model.write(req.off, body)
		return
	}
	a.sent = append(a.sent, message{
		body: body, writes: len(a.model.writes), immediate: r.Immediate, flags: r.Flags, token: r.Token,
	})
}

// mayReceive reports whether a receive could be posted now.
func (a *side) mayReceive() bool {
	return a.pool == nil && !a.mem.gone && len(a.rfree) > 0 && len(a.receives) < a.depth.receive && !a.ended
}

// postReceive posts one receive that fits any message.
func (a *side) postReceive() bool {
	if !a.mayReceive() {
		return false
	}
	slot := a.rfree[len(a.rfree)-1]
	a.fill(slot)
	sges := a.cut(slot, a.shape.most)
	ring, o := a.qp.PostReceive(a.context, sges, uint32(a.shape.most))
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

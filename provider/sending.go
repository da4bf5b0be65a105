package provider

import (
	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/access"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// This file sends what requester and answers have, as far as windows, the budget and frames allow.

// access is the memory that the connection's queue pair and its peer may use.
func (t *traffic) access() *access.Memory {
	return &access.Memory{Table: t.engine.mem, User: t.conn.qp.user(), Writes: &t.engine.writes}
}

// requesting says that the queue pair's requests may go out at all.
func (t *traffic) requesting() bool { return t.conn.qp != nil && !t.requests.numbers.noRequests }

// sendRequests builds packets of the request space until the window, the budget or the work ends, and reports whether to ask again.
func (t *traffic) sendRequests(budget int, burst *int) (again bool) {
	e, sp := t.engine, &t.sent.spaces[wire.RequestSpace]
	out := &e.out
	for t.requesting() {
		q := &t.conn.qp.sq
		if h := t.requests.hold(q, q.at(), t.sent.cc.Window); h != holdNone {
			t.noteHold(h)
			return false
		}
		local := q.wr(q.next).kind.Local()
		if !local && !t.sent.windowOpen(0) {
			t.sent.noteFull(0)
			return false
		}
		if budget <= 0 || *burst == 0 {
			return true
		}
		*burst--
		if local {
			if !t.runLocal() {
				return false
			}
			continue
		}
		if !t.beginContents(wire.RequestSpace) {
			return true
		}
		from := sp.Next()
		to, ok := t.packSpace(wire.RequestSpace, from, space.At(q.posted.Load(), 0), true)
		if !ok {
			return false
		}
		q.next, q.off = to.Message(), to.Offset()
		budget -= out.Used()
		t.launch(wire.RequestSpace, from, to)
		if t.inRuns() {
			budget = t.sendPieces(wire.RequestSpace, budget, burst)
			q.off = sp.Next().Offset()
		}
	}
	return false
}

// sendResponses builds packets of the response space. It reports whether the connection should be asked again.
func (t *traffic) sendResponses(budget int, burst *int) (again bool) {
	e, sp, a := t.engine, &t.sent.spaces[wire.ResponseSpace], &t.served
	out := &e.out
	for a.Unsent(sp.Next()) {
		if !t.sent.windowOpen(0) {
			t.sent.noteFull(0)
			return false
		}
		if budget <= 0 || *burst == 0 {
			return true
		}
		*burst--
		if !t.beginContents(wire.ResponseSpace) {
			return true
		}
		from := sp.Next()
		to, ok := t.packSpace(wire.ResponseSpace, from, a.End(), true)
		if !ok {
			return false
		}
		budget -= out.Used()
		t.launch(wire.ResponseSpace, from, to)
		if t.inRuns() {
			budget = t.sendPieces(wire.ResponseSpace, budget, burst)
		}
	}
	if a.Left(sp.Next()) {
		if !t.beginOperations() {
			return true
		}
		out.Put(a.SendTerm())
		t.launch(wire.ResponseSpace, sp.Next(), a.End())
	}
	return false
}

// packSpace fills the packet begun with what a space has from at up to stop. When that cannot be sent, the packet is gone and the connection ends, unless the peer
// may have it.
func (t *traffic) packSpace(kind wire.Space, at, stop space.Place, fresh bool) (to space.Place, ok bool) {
	out, mem := &t.engine.out, t.access()
	if kind == wire.ResponseSpace {
		if to, ok = t.served.Pack(out, mem, at, stop); !ok && (fresh || !t.mayHaveArrived(to, stop)) {
			t.refuse(&wire.Op{Opcode: wire.OpReadReq, Message: t.served.Message(to.Message())}, wire.TermReadAccess)
		}
		return to, ok
	}
	if to, ok = t.requests.pack(out, &t.conn.qp.sq, mem, at, stop, fresh, t.sent.cc.Window); !ok {
		t.localFault(to.Message(), OutcomeAccessViolation)
	}
	return to, ok
}

// noteHold notes what the next request waits for.
func (t *traffic) noteHold(h hold) {
	switch h {
	case holdReceive:
		t.blockOnReceive()
	case holdWindow:
		t.sent.cc.Held(t.engine.now)
	case holdNone, holdNothing, holdFence, holdReads, holdEarlier:
	}
}

// windowOpen says whether another packet may be in flight, in addition to a packet of leaving bytes that is about to leave. The congestion
// window must have room for it. So must the peer, which holds peerWindow bytes, for all packets that may have to wait behind gaps of both spaces.
func (s *sentState) windowOpen(leaving int) bool {
	inFlight := s.packets.InFlight() + leaving
	return !s.cc.Full(inFlight, s.engine.now) && inFlight+s.spaces[0].Beyond()+s.spaces[1].Beyond() < int(s.conn.peerWindow)
}

// launch completes the packet just packed, of what is sent for the first time.
func (t *traffic) launch(kind wire.Space, from, to space.Place) {
	e := t.engine
	used := e.out.Used()
	full := e.out.Filled()
	sp := &t.sent.spaces[kind]
	sp.Sent(to)
	t.worked = true
	t.sent.cc.Left(e.now)
	// Ask for an acknowledgement at the end of a burst, and now and then on the way, unless the peer's answer will do.
	answered := t.answered(kind, to) && !t.moreToSend(kind, t.conn.qp.queue())
	ask := !answered && t.sent.packets.Next()&t.sent.cc.Ask == 0
	if !ask && !t.sent.windowOpen(used) {
		t.sent.noteFull(used)
		ask = true
	}
	record := recovery.Packet{From: from, To: to, Path: t.pathOf(kind, to, full)}
	ask = ask || !answered && !t.moreToSend(kind, t.conn.qp.queue())
	t.sent.loss.Unasked(answered && !ask)
	t.sealContents(kind, record, ask)
	if t.sent.loss.Idle() {
		t.sent.loss.Restart(e.now)
		t.sent.cc.Began(e.now)
		t.sent.armTimer()
	}
	if full && e.now >= t.sent.search.At {
		t.searchPath()
	}
	if full && t.conn.bulkPort != 0 {
		t.probeBulk()
	}
}

// sealContents completes a packet with contents of a space.
func (t *traffic) sealContents(kind wire.Space, p recovery.Packet, ackReq bool) {
	f := wire.BaseFields{Operations: true, Piece: t.engine.out.Piece(), Message: p.From.Message(), Offset: p.From.Offset()}
	p.Kind = recovery.Kind(kind)
	if kind == wire.ResponseSpace {
		f.Flags |= wire.FlagSpace
	} else {
		f.Message = t.conn.qp.sq.wr(p.From.Message()).message
	}
	if ackReq {
		f.Flags |= wire.FlagAckReq
	}
	if t.joinsRun() {
		t.engine.out.Join()
	}
	t.received.ack.Left(t.engine.out.Flags()&wire.FlagAck != 0, t.engine.out.Flags()&wire.FlagReport != 0 && t.received.numbers.All(t.engine.out.Told()) && !p.Path.Bulk())
	t.seal(p, f, t.conn.ecn.Field())
	t.conn.ecn.Left(1)
}

// moreToSend says whether another packet of the space follows at once. A request without packets that is next is none, and its result
// waits for the acknowledgement of what was sent before.
func (t *traffic) moreToSend(kind wire.Space, q *initiatorQueue) bool {
	if kind == wire.ResponseSpace {
		return t.served.Unsent(t.sent.spaces[kind].Next())
	}
	return q != nil && t.requests.hold(q, q.at(), t.sent.cc.Window) == holdNone && !q.wr(q.next).kind.Local()
}

// answered says that the peer's answer will do to acknowledge what ends at a place (FlagAnswered), and next to nothing else is on its way.
func (t *traffic) answered(kind wire.Space, to space.Place) bool {
	const flags = FlagAnswered | FlagSolicit
	return kind == wire.RequestSpace && t.conn.qp != nil && to.Offset() == 0 && t.conn.qp.sq.wr(to.Message()-1).flags&flags == flags && t.conn.qp.Outstanding() <= mostAnswered
}

// mostAnswered is how many requests may wait for an answer to acknowledge them: a Write and the SEND that tells of it. With more, their sender may run out of places.
const mostAnswered = 2

// completeRequests reports the requests that are done, in posting order: transmitted whole, acknowledged, and for a READ
// answered whole. A request behind an unfinished one waits (I6).
func (t *traffic) completeRequests() {
	qp := t.conn.qp
	if qp == nil {
		return
	}
	head := qp.reportDone(&t.engine.results, t.sent.spaces[wire.RequestSpace].Una().Message())
	if head == qp.sq.head.Load() {
		return
	}
	if seq, ok := t.sent.sample.Done(head); ok {
		t.endSample(seq) // before its place in the queue belongs to posters again
	}
	qp.sq.head.Store(head)
}

// endSample records that the request at seq, which was watched, is done.
func (t *traffic) endSample(seq uint32) {
	e, q := t.engine, &t.conn.qp.sq
	wr, last := q.wr(seq), clock.Time(0)
	for n, end := t.sent.packets.Floor(), space.At(seq+1, 0); n != t.sent.packets.Next(); n++ {
		if p := t.sent.packets.Packet(n); p.Kind == recovery.Requests && p.From.Before(end) && !p.To.Before(end) {
			last = p.At
		}
	}
	t.engine.stats.Took(t.sent.sample.End(e.now, &q.sample, last))
	if wr.flags&FlagSilentSuccess == 0 {
		t.conn.qp.initCQ.Measure(e.out.Clock, e.now)
	}
}

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
func (s *sender) access() *access.Memory {
	return &access.Memory{Table: s.mem, User: s.qp.user(), Writes: &s.writes}
}

// requesting says that the queue pair's requests may go out at all.
func (s *sender) requesting() bool { return s.qp != nil && !s.requestNumbers.noRequests }

// sendRequests builds packets of the request space until the window, the budget or the work ends, and reports whether to ask again.
func (s *sender) sendRequests(budget int, burst *int) (again bool) {
	e, sp := s.environment, &s.tx[wire.RequestSpace]
	out := &e.out
	for s.requesting() {
		q := &s.qp.sq
		if h := s.hold(q, q.at(), s.cc.Window); h != holdNone {
			s.noteHold(h)
			return false
		}
		local := q.wr(q.next).kind.Local()
		if !local && !s.windowOpen(0, s.peerWindow, e.now) {
			s.noteFull(0)
			return false
		}
		if budget <= 0 || *burst == 0 {
			return true
		}
		*burst--
		if local {
			if !s.runLocal() {
				return false
			}
			continue
		}
		if !s.beginContents(wire.RequestSpace) {
			return true
		}
		from := sp.Next()
		to, ok := s.packSpace(wire.RequestSpace, from, space.At(q.posted.Load(), 0), true)
		if !ok {
			return false
		}
		q.next, q.off = to.Message(), to.Offset()
		budget -= out.Used()
		s.launch(wire.RequestSpace, from, to)
		if s.inRuns() {
			budget = s.sendPieces(wire.RequestSpace, budget, burst)
			q.off = sp.Next().Offset()
		}
	}
	return false
}

// sendResponses builds packets of the response space. It reports whether the connection should be asked again.
func (s *sender) sendResponses(budget int, burst *int) (again bool) {
	e, sp, a := s.environment, &s.tx[wire.ResponseSpace], &s.served
	out := &e.out
	for a.Unsent(sp.Next()) {
		if !s.windowOpen(0, s.peerWindow, e.now) {
			s.noteFull(0)
			return false
		}
		if budget <= 0 || *burst == 0 {
			return true
		}
		*burst--
		if !s.beginContents(wire.ResponseSpace) {
			return true
		}
		from := sp.Next()
		to, ok := s.packSpace(wire.ResponseSpace, from, a.End(), true)
		if !ok {
			return false
		}
		budget -= out.Used()
		s.launch(wire.ResponseSpace, from, to)
		if s.inRuns() {
			budget = s.sendPieces(wire.ResponseSpace, budget, burst)
		}
	}
	if a.Left(sp.Next()) {
		if !s.beginOperations() {
			return true
		}
		out.Put(a.SendTerm())
		s.launch(wire.ResponseSpace, sp.Next(), a.End())
	}
	return false
}

// packSpace fills the packet begun with what a space has from at up to stop. When that cannot be sent, the packet is gone and the connection ends, unless the peer
// may have it.
func (s *sender) packSpace(kind wire.Space, at, stop space.Place, fresh bool) (to space.Place, ok bool) {
	out, mem := &s.out, s.access()
	if kind == wire.ResponseSpace {
		if to, ok = s.served.Pack(out, mem, at, stop); !ok && (fresh || !s.mayHaveArrived(to, stop)) {
			s.refuse(&wire.Op{Opcode: wire.OpReadReq, Message: s.served.Message(to.Message())}, wire.TermReadAccess)
		}
		return to, ok
	}
	if to, ok = s.pack(out, &s.qp.sq, mem, at, stop, fresh, s.cc.Window); !ok {
		s.localFault(to.Message(), OutcomeAccessViolation)
	}
	return to, ok
}

// noteHold notes what the next request waits for.
func (s *sender) noteHold(h hold) {
	switch h {
	case holdReceive:
		s.blockOnReceive()
	case holdWindow:
		s.cc.Held(s.now)
	case holdNone, holdNothing, holdFence, holdReads, holdEarlier:
	}
}

// windowOpen says whether another packet may be in flight, in addition to a packet of leaving bytes that is about to leave. The congestion
// window must have room for it. So must the peer, which holds peer bytes, for all packets that may have to wait behind gaps of both spaces.
func (t *transmitted) windowOpen(leaving int, peer uint32, now clock.Time) bool {
	inFlight := t.sent.InFlight() + leaving
	return !t.cc.Full(inFlight, now) && inFlight+t.tx[0].Beyond()+t.tx[1].Beyond() < int(peer)
}

// launch completes the packet just packed, of what is sent for the first time.
func (s *sender) launch(kind wire.Space, from, to space.Place) {
	e := s.environment
	used := e.out.Used()
	full := e.out.Filled()
	sp := &s.tx[kind]
	sp.Sent(to)
	s.cc.Left(e.now)
	// Ask for an acknowledgement at the end of a burst, and now and then on the way, unless the peer's answer will do.
	answered := s.answered(kind, to) && !s.moreToSend(kind, s.qp.queue())
	ask := !answered && s.sent.Next()&s.cc.Ask == 0
	if !ask && !s.windowOpen(used, s.peerWindow, e.now) {
		s.noteFull(used)
		ask = true
	}
	record := recovery.Packet{From: from, To: to, Bulk: s.bulkPort != 0 && s.takesBulk(kind, to, full)}
	ask = ask || !answered && !s.moreToSend(kind, s.qp.queue())
	s.loss.Unasked(answered && !ask)
	s.sealContents(kind, record, ask)
	if s.loss.Idle() {
		s.loss.Restart(e.now)
		s.cc.Began(e.now)
		s.armTimer()
	}
	if full && e.now >= s.search.At {
		s.searchPath()
	}
	if full && s.bulkPort != 0 {
		s.probeBulk()
	}
}

// sealContents completes a packet with contents of a space.
func (s *sender) sealContents(kind wire.Space, p recovery.Packet, ackReq bool) {
	f := wire.BaseFields{Operations: true, Piece: s.out.Piece(), Message: p.From.Message(), Offset: p.From.Offset()}
	p.Kind = recovery.Kind(kind)
	if kind == wire.ResponseSpace {
		f.Flags |= wire.FlagSpace
	} else {
		f.Message = s.qp.sq.wr(p.From.Message()).message
	}
	if ackReq {
		f.Flags |= wire.FlagAckReq
	}
	if s.joinsRun() {
		s.out.Join()
	}
	s.ack.Left(s.out.Flags()&wire.FlagAck != 0, s.out.Flags()&wire.FlagReport != 0 && s.received.All(s.out.Told()) && !p.Bulk)
	s.seal(p, f, s.ecn.Field())
	s.ecn.Left(1)
}

// moreToSend says whether another packet of the space follows at once. A request without packets that is next is none, and its result
// waits for the acknowledgement of what was sent before.
func (s *sender) moreToSend(kind wire.Space, q *initiatorQueue) bool {
	if kind == wire.ResponseSpace {
		return s.served.Unsent(s.tx[kind].Next())
	}
	return q != nil && s.hold(q, q.at(), s.cc.Window) == holdNone && !q.wr(q.next).kind.Local()
}

// answered says that the peer's answer will do to acknowledge what ends at a place (FlagAnswered), and next to nothing else is on its way.
func (s *sender) answered(kind wire.Space, to space.Place) bool {
	const flags = FlagAnswered | FlagSolicit
	return kind == wire.RequestSpace && s.qp != nil && to.Offset() == 0 && s.qp.sq.wr(to.Message()-1).flags&flags == flags && s.qp.Outstanding() <= mostAnswered
}

// mostAnswered is how many requests may wait for an answer to acknowledge them: a Write and the SEND that tells of it. With more, their sender may run out of places.
const mostAnswered = 2

// completeRequests reports the requests that are done, in posting order: transmitted whole, acknowledged, and for a READ
// answered whole. A request behind an unfinished one waits (I6).
func (s *sender) completeRequests() {
	qp := s.qp
	if qp == nil {
		return
	}
	head := qp.reportDone(&s.results, s.tx[wire.RequestSpace].Una().Message())
	if head == qp.sq.head.Load() {
		return
	}
	if seq, ok := s.sample.Done(head); ok {
		s.endSample(seq) // before its place in the queue belongs to posters again
	}
	qp.sq.head.Store(head)
}

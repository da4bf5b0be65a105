package provider

import (
	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/packet"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// This file sends what requester and answers have, as far as windows, the budget and frames allow.

// access is the memory that the connection's queue pair and its peer may use.
func (c *conn) access() access { return access{c.engine.mem, c.qp.user()} }

// requesting says that the queue pair's requests may go out at all.
func (c *conn) requesting() bool { return c.qp != nil && !c.noRequests }

// sendRequests builds packets of the request space until the window, the budget or the work ends. It reports whether
// the connection should be asked again.
func (c *conn) sendRequests(budget int, burst *int) (again bool) {
	e, sp := c.engine, &c.tx[wire.RequestSpace]
	out := &e.out
	for c.requesting() && c.phase == phaseOpen {
		q := &c.qp.sq
		if h := c.hold(q, q.at(), c.cc.Window); h != holdNone {
			c.noteHold(h)
			return false
		}
		local := q.wr(q.next).kind.Local()
		if !local && !c.windowOpen(sp, 0, c.peerWindow, e.now) {
			c.noteFull(0)
			return false
		}
		if budget <= 0 || *burst == 0 {
			return true
		}
		*burst--
		if local {
			if !c.runLocal() {
				return false
			}
			continue
		}
		if !c.beginOperations(int(c.mtu.Packet)) {
			return true
		}
		from := sp.Next()
		to, ok := c.packSpace(wire.RequestSpace, from, space.At(q.posted.Load(), 0), true)
		if !ok {
			return false
		}
		q.next, q.off = to.Message(), to.Offset()
		budget -= out.Used()
		c.launch(wire.RequestSpace, from, to)
	}
	return false
}

// sendResponses builds packets of the response space. It reports whether the connection should be asked again.
func (c *conn) sendResponses(budget int, burst *int) (again bool) {
	e, sp, s := c.engine, &c.tx[wire.ResponseSpace], &c.served
	out := &e.out
	for s.unsent(sp.Next()) {
		if !c.windowOpen(sp, 0, c.peerWindow, e.now) {
			c.noteFull(0)
			return false
		}
		if budget <= 0 || *burst == 0 {
			return true
		}
		*burst--
		if !c.beginOperations(int(c.mtu.Packet)) {
			return true
		}
		from := sp.Next()
		to, ok := c.packSpace(wire.ResponseSpace, from, s.end(), true)
		if !ok {
			return false
		}
		budget -= out.Used()
		c.launch(wire.ResponseSpace, from, to)
	}
	if s.termQueued && !s.termSent {
		if !c.beginOperations(int(c.mtu.Packet)) {
			return true
		}
		s.termSent = true
		out.Put(&s.term)
		c.launch(wire.ResponseSpace, sp.Next(), s.end())
	}
	return false
}

// packSpace fills the packet begun with what a space has from at up to stop. ok is false when that cannot be sent: the packet is gone then, and the
// connection is about to end.
func (c *conn) packSpace(kind wire.Space, at, stop space.Place, fresh bool) (to space.Place, ok bool) {
	out, mem := &c.engine.out, c.access()
	if kind == wire.ResponseSpace {
		if to, ok = c.served.pack(out, mem, at, stop); !ok {
			c.refuse(&wire.Op{Opcode: wire.OpReadReq, Message: c.served.slot(to.Message()).message}, wire.TermReadAccess)
		}
		return to, ok
	}
	if to, ok = c.pack(out, &c.qp.sq, mem, at, stop, fresh, c.cc.Window); !ok {
		c.localFault(to.Message(), OutcomeAccessViolation)
	}
	return to, ok
}

// noteHold notes what the next request waits for.
func (c *conn) noteHold(h hold) {
	switch h {
	case holdReceive:
		c.blockOnReceive()
	case holdWindow:
		c.cc.Held(c.engine.now)
	case holdNone, holdNothing, holdFence, holdReads, holdEarlier:
	}
}

// windowOpen says whether another packet may be in flight, beside one of leaving bytes that is about to be: the congestion window has room
// for it, and the peer, which holds so many bytes, for what may have to wait behind a gap.
func (t *traffic) windowOpen(sp *space.Send, leaving int, peer uint32, now clock.Time) bool {
	inFlight := t.sent.InFlight() + leaving
	return !t.cc.Full(inFlight, now) && inFlight+sp.Beyond() < int(peer)
}

// launch completes the packet just packed, of what is sent for the first time.
func (c *conn) launch(kind wire.Space, from, to space.Place) {
	e := c.engine
	used := e.out.Used()
	full := used+packet.MinSplit > int(c.mtu.Packet)
	sp := &c.tx[kind]
	sp.Sent(to)
	c.cc.Left(e.now)
	// Ask for an acknowledgement at the end of a burst, and now and then on the way.
	ask := c.sent.Next()&c.cc.Ask == 0
	if !ask && !c.windowOpen(sp, used, c.peerWindow, e.now) {
		c.noteFull(used)
		ask = true
	}
	c.sealContents(kind, recovery.Packet{From: from, To: to}, ask || !c.moreToSend(kind, c.qp.queue()))
	if c.loss.Idle() {
		c.loss.Restart(e.now)
		c.armTimer()
	}
	if full && e.now >= c.search.At {
		c.searchPath()
	}
}

// sealContents completes a packet with contents of a space.
func (c *conn) sealContents(kind wire.Space, p recovery.Packet, ackReq bool) {
	f := wire.BaseFields{Operations: true, Piece: c.engine.out.Piece(), Message: uint16(p.From.Message()), Offset: p.From.Offset()}
	p.Kind = recovery.Kind(kind)
	if kind == wire.ResponseSpace {
		f.Flags |= wire.FlagSpace
	} else {
		f.Message = uint16(c.qp.sq.wr(p.From.Message()).message)
	}
	if ackReq {
		f.Flags |= wire.FlagAckReq
	}
	if c.joins && c.runs.May(c.engine.now) {
		c.engine.out.Join()
	}
	if c.engine.out.Flags()&wire.FlagAck != 0 {
		c.ack.Carried()
	}
	c.seal(p, f, c.ecn)
}

// moreToSend says whether another packet of the space follows at once. A request without packets that is next is none, and its result
// waits for the acknowledgement of what was sent before.
func (t *traffic) moreToSend(kind wire.Space, q *initiatorQueue) bool {
	if kind == wire.ResponseSpace {
		return t.served.unsent(t.tx[kind].Next())
	}
	return q != nil && t.hold(q, q.at(), t.cc.Window) == holdNone && !q.wr(q.next).kind.Local()
}

// completeRequests reports the requests that are done, in posting order: transmitted whole, acknowledged, and for a READ
// answered whole. A request behind an unfinished one waits (I6).
func (c *conn) completeRequests() {
	qp := c.qp
	if qp == nil {
		return
	}
	head := qp.reportDone(&c.engine.results, c.tx[wire.RequestSpace].Una().Message())
	if head == qp.sq.head.Load() {
		return
	}
	if seq, ok := c.sample.Done(head); ok {
		c.endSample(seq) // before its place in the queue belongs to posters again
	}
	qp.sq.head.Store(head)
}

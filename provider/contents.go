package provider

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/credit"
	"github.com/ndxdp/ndxdp/provider/internal/packet"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// This file processes the contents of packets in the order of their stream offsets (PROTOCOL §9.1). Each is executed once, after all
// contents before it. Contents that arrive too early are stored.

// recvSpace is the receiving side of a space.
type recvSpace struct {
	next    space.Place // what comes before was carried out
	message wire.Op     // first piece of the message that next is inside of
	gaps    space.Gaps
	since   clock.Time  // from when on what lies before until waits behind gaps; zero when nothing waits
	moved   clock.Time  // when next moved last, while something waits
	until   space.Place // what lies behind it has its time once next is here
}

// place returns the place of a packet's first byte of contents.
func (rs *recvSpace) place(h wire.BaseHeader) space.Place {
	return space.At(wire.ExpandMessage(h.Message(), rs.next.Message()), h.Offset())
}

// extent returns the place behind a packet's contents, or why they cannot be.
func (rs *recvSpace) extent(w *packet.Walk, p *RxPacket, h wire.BaseHeader) (to space.Place, d wire.DropReason) {
	for w.Start(p, h, rs.place(h)); w.More(); {
		if d := w.Step(); d != wire.DropNone {
			return 0, d
		}
		w.Skip(int(w.Op.Length))
	}
	return w.To, wire.DropNone
}

// receiveContents puts a packet where its place says: next, behind a gap, or nowhere (I4).
func (t *traffic) receiveContents(p *RxPacket, h wire.BaseHeader) (d wire.DropReason, keeps kept) {
	rs := &t.received.spaces[h.Space()]
	t.worked = true
	from := rs.place(h)
	if from != rs.next {
		to, d := rs.extent(&t.engine.walk, p, h)
		switch {
		case d != wire.DropNone:
			t.malformed(&wire.Op{Message: from.Message()}, d)
			return wire.DropNone, keptNothing
		case !rs.next.Before(to):
			t.received.keep()
			t.received.ackNow()
			return wire.DropDuplicate, keptNothing
		case rs.next.Before(from):
			return t.receiveAhead(p, h, from, to)
		}
	}
	t.received.noteMark(p.CE)
	filled := !rs.gaps.Empty()
	if t.execute(p, h) {
		t.received.keep()
		for t.executeHeld(rs) {
		}
	}
	if t.conn.faulted == faultNone || t.conn.faulted == faultTerminated {
		t.received.noteAccepted(h.Flags()&wire.FlagAckReq != 0, filled)
	}
	return wire.DropNone, keptNothing
}

// receiveAhead stores a packet that arrived before an earlier one. Memory is written in order, so that a program that polls the last byte
// of a message finds all other bytes written.
func (t *traffic) receiveAhead(p *RxPacket, h wire.BaseHeader, from, to space.Place) (d wire.DropReason, keeps kept) {
	e := t.engine
	rs := &t.received.spaces[h.Space()]
	if rs.gaps.Has(from, to) {
		t.received.keep()
		t.received.ackNow()
		return wire.DropDuplicate, keptNothing
	}
	if t.conn.receives.Wait.State() == credit.Starved && h.Space() == wire.RequestSpace {
		t.received.ackNow()
		return wire.DropNoReceive, keptNothing
	}
	held := rs.gaps.Hold(&e.store, from, to, wire.BaseHeaderLen+p.Len-p.At, t.received.spaces[1-h.Space()].gaps.Bytes())
	if held == nil {
		return wire.DropHoldFull, keptNothing
	}
	if rs.since == 0 {
		rs.since, rs.moved, rs.until = e.now, e.now, to
		t.conn.want(wantLook)
	}
	held.CE = p.CE
	copy(held.Data, h)
	held.Data[1] &^= byte(wire.FlagAck | wire.FlagReport)
	r := &e.walk
	r.Reset(p)
	r.Place(held.Data[wire.BaseHeaderLen:])
	t.received.noteMark(p.CE)
	t.received.keep()
	t.received.ackNow()
	return wire.DropNone, keptCopy
}

// executeHeld carries out the packet with the lowest place that waits, if its turn has come. It reports whether there may be another: not
// behind one that failed, because a second one for its place must not be carried out in its stead.
func (t *traffic) executeHeld(rs *recvSpace) bool {
	rs.noteGaps(t.engine.now)
	if rs.gaps.Empty() || rs.next.Before(rs.gaps.First().From) {
		return false
	}
	e := t.engine
	held, ok := rs.gaps.Take(), true
	if rs.next.Before(held.To) {
		p := &e.heldPacket
		*p = RxPacket{N: 1, Len: len(held.Data), At: wire.BaseHeaderLen, CE: held.CE}
		p.Frags[0].Data = held.Data
		ok = t.execute(p, held.Data[:wire.BaseHeaderLen])
	} else {
		e.stats.Drop(wire.DropDuplicate) // others brought all of it meanwhile
	}
	e.store.Release(&held)
	return ok
}

// noteGaps notes that next has moved, or that packets were dropped. The time of packets that wait now starts once all packets that waited
// before have been executed.
func (rs *recvSpace) noteGaps(now clock.Time) {
	rs.moved = now
	switch {
	case rs.gaps.Empty():
		rs.since = 0
	case !rs.next.Before(rs.until):
		rs.since, rs.until = now, rs.gaps.End()
	}
}

// gapMoves is how many times as long packets may wait behind gaps that move as behind a gap that stays. Without this bound, a peer could
// keep memory here by filling one gap now and then. An honest peer on a busy machine may need several seconds for a window of lost packets.
const gapMoves = 6

// gapDeadline is when a gap has stayed as it is for dead, or packets have waited for too long though it moves: a peer that lives fills gaps sooner. Zero is never.
func (r *receivedState) gapDeadline(dead time.Duration) clock.Time {
	at := clock.Never
	for sp := range r.spaces {
		if rs := &r.spaces[sp]; rs.since != 0 {
			at = min(at, rs.moved.Add(dead), rs.since.Add(gapMoves*dead))
		}
	}
	if at == clock.Never {
		return 0
	}
	return at
}

// gapsOpen says whether packets wait behind a gap.
func (r *receivedState) gapsOpen() bool {
	return !r.spaces[wire.RequestSpace].gaps.Empty() || !r.spaces[wire.ResponseSpace].gaps.Empty()
}

// dropHeld gives up every packet that waits behind a gap.
func (r *receivedState) dropHeld(store *space.Store) {
	for sp := range r.spaces {
		r.engine.stats.Drops[wire.DropState] += uint64(r.spaces[sp].gaps.Drop(store))
		r.spaces[sp].since = 0
	}
}

package provider

import (
	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/access"
	"github.com/ndxdp/ndxdp/provider/internal/answers"
	"github.com/ndxdp/ndxdp/provider/internal/credit"
	"github.com/ndxdp/ndxdp/provider/internal/packet"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// requester turns the requests of an initiator queue into operations: which requests may start, with which numbers, and in which packets.
// It knows neither the connection nor when packets may leave.
type requester struct {
	numbers   *requestNumbers
	reads     answers.Asked
	ask       credit.Ask // while the head SEND waits for a receive
	hasPaused bool       // it was paused before
}

// requestNumbers are what a requester keeps while its connection is idle.
type requestNumbers struct {
	nextMessage uint32
	nextSend    uint32
	nextRead    uint32
	sendLimit   uint32 // first SEND number the peer does not allow yet
	ord         uint32 // READs that may be outstanding
	noRequests  bool   // flushed: no new requests go out
}

// hold is why a request may not start now.
type hold uint8

const (
	holdNone    hold = iota
	holdNothing      // none is posted
	holdFence        // it is fenced, and a READ before it is not done
	holdReads        // as many READs are outstanding as the peer allows
	holdWindow       // answers to READs under way fill the window
	holdReceive      // it is a SEND, and the peer has no receive for it
	holdEarlier      // the requests before it have to be done
)

// hold says what keeps the request at a place of the queue from being (further) transmitted now. window is that of answers to READs.
func (r *requester) hold(q *initiatorQueue, at space.Place, window int) hold {
	seq := at.Message()
	if seq == q.posted.Load() {
		return holdNothing
	}
	if at.Offset() != 0 {
		return holdNone
	}
	wr := q.wr(seq)
	if wr.flags&FlagReadFence != 0 && r.reads.Waiting() > 0 {
		return holdFence
	}
	switch wr.kind {
	case KindRead:
		if r.reads.Waiting() >= r.numbers.ord {
			return holdReads
		}
		if r.reads.Fill(window) {
			return holdWindow
		}
	case KindSend:
		if int32(r.numbers.sendLimit-r.numbers.nextSend) <= 0 {
			return holdReceive
		}
	case KindInvalidate:
		if !q.earlierDone(seq) {
			return holdEarlier
		}
	case KindReceive, KindWrite, KindBind, KindFastRegister:
	}
	return holdNone
}

// mayUse says whether the request at seq names memory of this side that it may use. An inline request has none.
func (q *initiatorQueue) mayUse(mem *access.Memory, seq uint32) bool {
	need := Rights(0)
	if q.wr(seq).kind == KindRead {
		need = RightLocalWrite
	}
	return mem.MayUse(q.sgl(seq), need)
}

// faultAhead lets the next look at a SEND that waits come at once, when it waits in vain, because it names memory that it may not use.
func (r *requester) faultAhead(q *initiatorQueue, mem *access.Memory, now clock.Time) {
	if !q.mayUse(mem, q.next) {
		r.ask.Soon(now)
	}
}

// start gives the request at seq its number. False means that it names memory that it may not use.
func (r *requester) start(q *initiatorQueue, mem *access.Memory, seq uint32) bool {
	if !q.mayUse(mem, seq) {
		return false
	}
	wr := q.wr(seq)
	wr.message = r.numbers.nextMessage
	r.numbers.nextMessage++
	switch wr.kind {
	case KindSend:
		wr.number = r.numbers.nextSend
		r.numbers.nextSend++
		r.ask.End()
	case KindRead:
		wr.number = r.numbers.nextRead
		r.numbers.nextRead++
		r.reads.Add(seq, wr.length)
	case KindWrite, KindReceive, KindBind, KindInvalidate, KindFastRegister:
	}
	return true
}

// pack fills the packet begun with operations from at up to stop, or up to what has to wait. fresh says that they are sent for
// the first time. When the request at to names memory that it may not use, ok is false and the packet is gone.
func (r *requester) pack(out *packet.Out, q *initiatorQueue, mem *access.Memory, at, stop space.Place, fresh bool, window int) (to space.Place, ok bool) {
	for at != stop {
		seq, off := at.Message(), at.Offset()
		wr := q.wr(seq)
		if fresh && r.hold(q, at, window) != holdNone || !fresh && r.mustWait(wr, off) {
			break
		}
		if wr.kind.Local() {
			break // the packet ends here: what it carries is before it, and what follows may only start after it
		}
		if off == 0 && wr.kind == KindWrite && wr.nsge == 1 && seq != stop.Message() && mem.PutWrite(out, &q.sgl(seq)[0], wr.length, wr.addr, wr.token) {
			if fresh {
				wr.message = r.numbers.nextMessage
				r.numbers.nextMessage++
			}
			at = at.NextMessage()
			continue
		}
		var op wire.Op
		if !wr.describe(out, &op, at, stop) {
			break
		}
		if fresh && off == 0 {
			if !r.start(q, mem, seq) {
				out.Abandon()
				return at, false
			}
			op.Number = wr.number
		}
		out.Put(&op)
		if wr.kind != KindRead && !q.gather(out, mem, seq, off, uint32(op.Length)) {
			out.Abandon()
			return at, false
		}
		last := op.Flags&wire.OpLast != 0
		at = at.After(uint32(op.Length), last)
		if !last || out.Piece() {
			break
		}
	}
	return at, true
}

// mustWait says that the request at off of wr must not go again yet: it is a SEND beyond the limit, which RNR may have lowered since.
func (r *requester) mustWait(wr *workRequest, off uint32) bool {
	return r.hasPaused && off == 0 && wr.kind == KindSend && int32(r.numbers.sendLimit-wr.number) <= 0
}

// describe fills in the operation for a request from at on, up to stop if that is inside of it. It reports false when the packet has no room for it.
func (wr *workRequest) describe(out *packet.Out, op *wire.Op, at, stop space.Place) bool {
	off := at.Offset()
	length, ends := wr.length-off, true
	if at.Message() == stop.Message() {
		length, ends = stop.Offset()-off, stop.Offset() == wr.length
	}
	*op = wire.Op{Number: wr.number, Total: wr.length}
	switch {
	case wr.kind == KindRead:
		op.Opcode, op.Flags, op.Address, op.Token = wire.OpReadReq, wire.OpLast, wr.addr, uint32(wr.token)
		return out.Fits(op)
	case off > 0:
		op.Opcode = wire.OpMore
	case wr.kind == KindWrite:
		op.Opcode, op.Address, op.Token = wire.OpWrite, wr.addr, uint32(wr.token)
	default:
		op.Opcode = wire.OpSend
		if wr.flags&FlagInvalidate != 0 {
			op.Opcode, op.Imm = wire.OpSendInv, uint32(wr.token)
		} else if wr.flags&FlagImmediate != 0 {
			op.Opcode, op.Imm = wire.OpSendImm, uint32(wr.token)
		}
		if wr.flags&FlagSolicit != 0 {
			op.Flags |= wire.OpSolicit
		}
	}
	return out.Fit(op, length, ends)
}

// gather appends n bytes of a request's local memory, from byte off. False means that memory was deregistered meanwhile.
func (q *initiatorQueue) gather(out *packet.Out, mem *access.Memory, seq, off, n uint32) bool {
	if q.wr(seq).flags&FlagInline != 0 {
		out.Payload(q.inline[(seq&q.mask)*q.inlineSize:][:q.wr(seq).length][off : off+n])
		return true
	}
	return mem.Gather(out, q.sgl(seq), off, n)
}

// place is the place in the queue of a place in the request space as the peer names it, of which sp was sent. It reports false when
// that never was. Without a queue nothing is sent again.
func (r *requester) place(q *initiatorQueue, sp *space.Send, message uint16, offset uint32) (at space.Place, ok bool) {
	number := wire.ExpandMessage(message, r.numbers.nextMessage)
	switch {
	case number == r.numbers.nextMessage:
		return sp.Next(), offset == 0 && (r.numbers.noRequests || sp.Next().Offset() == 0)
	case int32(number-r.numbers.nextMessage) > 0:
		return 0, false
	case r.numbers.noRequests || q == nil:
		return sp.Next(), true // given up
	}
	for seq := q.head.Load(); space.At(seq, 0).Before(sp.Next()); seq++ {
		if wr := q.wr(seq); !wr.kind.Local() && wr.message == number {
			at = space.At(seq, offset)
			return at, !sp.Next().Before(at) && (offset == 0 || wr.kind != KindRead && offset < wr.length)
		}
	}
	return sp.Una(), true // done long ago
}

// keepLocals notes that the requests without packets between two places stay done, whatever the peer takes back.
func (q *initiatorQueue) keepLocals(sp *space.Send, from, to space.Place) {
	for at := from; at.Before(to); at = at.NextMessage() {
		if q.wr(at.Message()).kind.Local() {
			sp.Arrived(at, at.NextMessage(), 0)
		}
	}
}

// stop gives up what is outstanding. Nothing new goes out any more.
func (r *requester) stop() {
	r.numbers.noRequests = true
	r.reads.GiveUp()
	r.ask.End()
}

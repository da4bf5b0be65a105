package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/access"
	"github.com/ndxdp/ndxdp/provider/internal/packet"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// answers are what goes out in the response space: answers to the peer's READs, and TERM behind them, or in their place. A READ costs one
// slot whatever its length: responses are made when the window has room for them, from memory that is looked up and checked anew for every
// packet. Where they have come to is the response space's next place.
type answers struct {
	slots [maxReadLimit]readSlot
	head  uint32  // read id of the oldest not fully acknowledged
	tail  uint32  // read id the peer uses next
	term  wire.Op // the TERM to send, when termQueued

	termQueued, termSent bool
}

type readSlot struct {
	addr    uint64
	length  uint32
	token   Token
	message uint32 // of the READ_REQ
}

// piece is how many bytes of a READ's answer are from a place on, up to stop if that is inside of it, and whether these end it.
func (s *readSlot) piece(at, stop space.Place) (length uint32, ends bool) {
	if at.Message() == stop.Message() {
		return stop.Offset() - at.Offset(), stop.Offset() == s.length
	}
	return s.length - at.Offset(), true
}

// slot is that of the READ with an id.
func (a *answers) slot(id uint32) *readSlot { return &a.slots[id%maxReadLimit] }

// full says that as many READs as the peer may ask for are not fully answered.
func (a *answers) full(limit uint32) bool { return a.tail-a.head >= limit }

// add takes a READ that is to be answered.
func (a *answers) add(op *wire.Op) {
	*a.slot(a.tail) = readSlot{addr: op.Address, token: Token(op.Token), length: op.Total, message: op.Message}
	a.tail++
}

// acknowledge takes in that all answers before a place arrived.
func (a *answers) acknowledge(una space.Place) {
	for int32(una.Message()-a.head) > 0 && a.head != a.tail {
		a.head++
	}
}

// unsent says whether something of the answers was never sent, and still may be. next is where they have come to.
func (a *answers) unsent(next space.Place) bool { return next.Message() != a.tail && !a.termQueued }

// waiting says whether anything was never sent.
func (a *answers) waiting(next space.Place) bool {
	return a.unsent(next) || a.termQueued && !a.termSent
}

// terminate lets TERM follow what was sent. Nothing comes behind it.
func (a *answers) terminate(term wire.Op) { a.term, a.termQueued = term, true }

// end is the place behind all answers, and behind TERM once that was sent.
func (a *answers) end() space.Place {
	if a.termSent {
		return space.At(a.tail+1, 0)
	}
	return space.At(a.tail, 0)
}

// gone says that the memory behind a piece of the answers may not be read any more.
func (a *answers) gone(mem *access.Memory, p space.Piece) bool {
	for at := p.From; at.Before(p.To); at = at.NextMessage() {
		s := a.slot(at.Message())
		if n, _ := s.piece(at, p.To); !mem.Readable(s.token, s.addr+uint64(at.Offset()), n) {
			return true
		}
	}
	return false
}

// pack fills the packet begun with answers from at up to stop, until the connection is terminated: then the memory of a
// lost answer may be gone, so whatever is sent again is the TERM, and the first gap the peer has gets it. When the peer may not read what it asked for at to any
// more, because that was deregistered, or the window invalidated, while the answer was under way, ok is false and the packet is gone.
func (a *answers) pack(out *packet.Out, mem *access.Memory, at, stop space.Place) (to space.Place, ok bool) {
	if a.termQueued {
		out.Put(&a.term)
		return stop, true
	}
	for at != stop {
		s := a.slot(at.Message())
		off := at.Offset()
		op := wire.Op{Opcode: wire.OpReadResp, Total: s.length}
		if off > 0 {
			op.Opcode = wire.OpMore
		}
		if length, ends := s.piece(at, stop); !out.Fit(&op, length, ends) {
			break
		}
		var src []byte
		if op.Length > 0 {
			b, grant := mem.Read(s.token, s.addr+uint64(off), uint32(op.Length))
			if b == nil {
				out.Abandon()
				return at, false
			}
			grant.CountRead()
			src = b
		}
		out.Put(&op)
		out.Payload(src) // copied: programs may change it meanwhile
		last := op.Flags&wire.OpLast != 0
		at = at.After(uint32(op.Length), last)
		if !last || out.Piece() {
			break
		}
	}
	return at, true
}

package answers

import (
	"github.com/ndxdp/ndxdp/provider/internal/access"
	"github.com/ndxdp/ndxdp/provider/internal/memory"
	"github.com/ndxdp/ndxdp/provider/internal/packet"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// MaxReads is the largest number of READs that are not fully answered.
const MaxReads = 32

// Queue is what goes out in the response space: answers to the peer's READs, and TERM behind them, or in their place. A READ costs one
// slot whatever its length: responses are made when the window has room for them, from memory that is looked up and checked anew for every
// packet. Where they have come to is the response space's next place. Zero has nothing to answer.
type Queue struct {
	slots [MaxReads]slot
	head  uint32  // read id of the oldest not fully acknowledged
	tail  uint32  // read id the peer uses next
	term  wire.Op // the TERM to send, when terminated

	terminated, termSent bool
}

type slot struct {
	addr    uint64
	length  uint32
	token   memory.Token
	message uint32 // of the READ_REQ
}

// Start begins anew, with the READ with an id as the next one.
func (q *Queue) Start(id uint32) { q.head, q.tail = id, id }

// Next is the id that the peer uses for its next READ.
func (q *Queue) Next() uint32 { return q.tail }

// Oldest is the id of the oldest READ that is not fully acknowledged; Next when there is none.
func (q *Queue) Oldest() uint32 { return q.head }

// Waiting is how many READs are not fully acknowledged.
func (q *Queue) Waiting() uint32 { return q.tail - q.head }

// piece is how many bytes of a READ's answer are from a place on, up to stop if that is inside of it, and whether these end it.
func (s *slot) piece(at, stop space.Place) (length uint32, ends bool) {
	if at.Message() == stop.Message() {
		return stop.Offset() - at.Offset(), stop.Offset() == s.length
	}
	return s.length - at.Offset(), true
}

// of is the slot of the READ with an id.
func (q *Queue) of(id uint32) *slot { return &q.slots[id%MaxReads] }

// Full says that as many READs as the peer may ask for are not fully answered.
func (q *Queue) Full(limit uint32) bool { return q.Waiting() >= limit }

// Add takes a READ that is to be answered.
func (q *Queue) Add(op *wire.Op) {
	*q.of(q.tail) = slot{addr: op.Address, token: memory.Token(op.Token), length: op.Total, message: op.Message}
	q.tail++
}

// Acknowledge takes in that all answers before a place arrived.
func (q *Queue) Acknowledge(una space.Place) {
	for int32(una.Message()-q.head) > 0 && q.head != q.tail {
		q.head++
	}
}

// Unsent says whether something of the answers was never sent, and still may be. next is where they have come to.
func (q *Queue) Unsent(next space.Place) bool { return next.Message() != q.tail && !q.terminated }

// Left says whether anything was never sent.
func (q *Queue) Left(next space.Place) bool {
	return q.Unsent(next) || q.terminated && !q.termSent
}

// Terminate lets TERM follow what was sent. Nothing comes behind it.
func (q *Queue) Terminate(term wire.Op) { q.term, q.terminated = term, true }

// End is the place behind all answers, and behind TERM once that was sent.
func (q *Queue) End() space.Place {
	if q.termSent {
		return space.At(q.tail+1, 0)
	}
	return space.At(q.tail, 0)
}

// Terminated says that TERM ends the answers.
func (q *Queue) Terminated() bool { return q.terminated }

// Term is the TERM that is to leave, or left.
func (q *Queue) Term() wire.Op { return q.term }

// SendTerm returns the TERM, which leaves now.
func (q *Queue) SendTerm() *wire.Op {
	q.termSent = true
	return &q.term
}

// TermSent says that TERM left.
func (q *Queue) TermSent() bool { return q.termSent }

// Message is the number of the READ_REQ with an id.
func (q *Queue) Message(id uint32) uint32 { return q.of(id).message }

// Rest is how many bytes of an answer are left from a place on.
func (q *Queue) Rest(at space.Place) uint32 { return q.of(at.Message()).length - at.Offset() }

// Body returns the rest of an answer from a stream offset on, and the object that grants it to the peer. It returns nil if the memory must
// not be read any more, or if the process may lose it, so that Pack copies it. Programs may change the bytes.
func (q *Queue) Body(mem *access.Memory, at space.Place) ([]byte, *memory.Grant) {
	s := q.of(at.Message())
	body, grant := mem.Read(s.token, s.addr+uint64(at.Offset()), s.length-at.Offset())
	if body == nil || grant.Foreign() {
		return nil, nil
	}
	return body, grant
}

// Pack fills the packet with answers from at up to stop. After the connection was terminated, the memory of a lost answer may be gone, so
// it sends the TERM in place of any answer, and the peer's first gap receives it. If the peer must not read the memory at at any more,
// because it was deregistered or the window invalidated, ok is false and the packet is gone.
func (q *Queue) Pack(out *packet.Out, mem *access.Memory, at, stop space.Place) (to space.Place, ok bool) {
	if q.terminated {
		out.Put(&q.term)
		return stop, true
	}
	for at != stop {
		s := q.of(at.Message())
		off := at.Offset()
		op := wire.Op{Opcode: wire.OpReadResp, Total: s.length}
		if off > 0 {
			op.Opcode = wire.OpMore
		}
		if length, ends := s.piece(at, stop); !out.Fit(&op, length, ends) {
			break
		}
		var src []byte
		var grant *memory.Grant
		if op.Length > 0 {
			if src, grant = mem.Read(s.token, s.addr+uint64(off), uint32(op.Length)); src == nil {
				out.Abandon()
				return at, false
			}
			grant.CountReads(1)
		}
		out.Put(&op)
		if !access.Put(out, src, grant) { // copied: programs may change it meanwhile
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

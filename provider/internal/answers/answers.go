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

// Queue holds what this side owes in the response space: answers to the peer's READs, and then TERM. TERM may also replace answers.
// A READ takes one slot, whatever its length, because its responses are built from application memory only when the window has
// room. Memory is looked up and checked again for each packet. The next stream offset of the response space says how far the
// answers were sent. The zero Queue owes nothing.
type Queue struct {
	slots [MaxReads]slot
	head  uint32  // read id of the oldest READ that is not fully acknowledged
	tail  uint32  // read id of the peer's next READ
	term  wire.Op // the TERM to send, if terminated

	terminated, termSent bool
}

type slot struct {
	addr    uint64
	length  uint32
	token   memory.Token
	message uint32 // message number of the READ_REQ
}

// Start empties the queue. id is the id of the next READ.
func (q *Queue) Start(id uint32) { q.head, q.tail = id, id }

// Next returns the id of the peer's next READ.
func (q *Queue) Next() uint32 { return q.tail }

// Oldest returns the id of the oldest READ that is not fully acknowledged, or Next if there is none.
func (q *Queue) Oldest() uint32 { return q.head }

// Waiting returns the number of READs that are not fully acknowledged.
func (q *Queue) Waiting() uint32 { return q.tail - q.head }

// piece returns how many bytes of an answer lie between stream offsets at and stop, and whether the answer ends with them.
func (s *slot) piece(at, stop space.Place) (length uint32, ends bool) {
	if at.Message() == stop.Message() {
		return stop.Offset() - at.Offset(), stop.Offset() == s.length
	}
	return s.length - at.Offset(), true
}

// of returns the slot of the READ with an id.
func (q *Queue) of(id uint32) *slot { return &q.slots[id%MaxReads] }

// Full reports whether limit READs are not fully acknowledged.
func (q *Queue) Full(limit uint32) bool { return q.Waiting() >= limit }

// Add queues a READ to answer.
func (q *Queue) Add(op *wire.Op) {
	*q.of(q.tail) = slot{addr: op.Address, token: memory.Token(op.Token), length: op.Total, message: op.Message}
	q.tail++
}

// Acknowledge records that the peer has all answers before una.
func (q *Queue) Acknowledge(una space.Place) {
	for int32(una.Message()-q.head) > 0 && q.head != q.tail {
		q.head++
	}
}

// Unsent reports whether part of an answer was never sent and may still be sent. next is the next stream offset to send.
func (q *Queue) Unsent(next space.Place) bool { return next.Message() != q.tail && !q.terminated }

// Left reports whether part of an answer, or TERM, was never sent.
func (q *Queue) Left(next space.Place) bool {
	return q.Unsent(next) || q.terminated && !q.termSent
}

// Terminate queues TERM behind the answers that were sent. Nothing is sent after TERM.
func (q *Queue) Terminate(term wire.Op) { q.term, q.terminated = term, true }

// End returns the stream offset behind all answers, and behind TERM if TERM was sent.
func (q *Queue) End() space.Place {
	if q.termSent {
		return space.At(q.tail+1, 0)
	}
	return space.At(q.tail, 0)
}

// Terminated reports whether Terminate was called.
func (q *Queue) Terminated() bool { return q.terminated }

// Term returns the TERM of Terminate.
func (q *Queue) Term() wire.Op { return q.term }

// SendTerm returns TERM and marks it as sent.
func (q *Queue) SendTerm() *wire.Op {
	q.termSent = true
	return &q.term
}

// TermSent reports whether TERM was sent.
func (q *Queue) TermSent() bool { return q.termSent }

// Message returns the message number of the READ_REQ with an id.
func (q *Queue) Message(id uint32) uint32 { return q.of(id).message }

// Rest returns how many bytes of an answer follow stream offset at.
func (q *Queue) Rest(at space.Place) uint32 { return q.of(at.Message()).length - at.Offset() }

// Body returns the rest of an answer from stream offset at, and its grant. It returns nil if the peer may not read the memory any
// more. It also returns nil if the process may lose the memory, because Pack copies this memory. Applications may change the bytes
// meanwhile.
func (q *Queue) Body(mem *access.Memory, at space.Place) ([]byte, *memory.Grant) {
	s := q.of(at.Message())
	body, grant := mem.Read(s.token, s.addr+uint64(at.Offset()), s.length-at.Offset())
	if body == nil || grant.Foreign() {
		return nil, nil
	}
	return body, grant
}

// Pack fills the packet with answers from stream offset at up to stop. After Terminate, it sends TERM instead of any answer,
// because the memory of a lost answer may be deregistered; the peer receives TERM in its first gap. If the peer may not read the
// memory any more, because it was deregistered or its window invalidated, Pack abandons the packet and returns ok = false.
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
		if !access.Put(out, src, grant) { // copied, because applications may change it meanwhile
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

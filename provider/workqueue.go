package provider

import (
	"math/bits"

	"github.com/ndxdp/ndxdp/provider/internal/access"
	"github.com/ndxdp/ndxdp/provider/internal/interleave"
	"github.com/ndxdp/ndxdp/provider/internal/memory"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/provider/internal/trace"
)

// SGE is a scatter/gather entry: Len bytes at Addr of the region that Token names.
type SGE = access.SGE

// PostFlags change how a request is carried out. Flags of ND_OP_FLAG have the same numbers.
type PostFlags uint16

// The flags of a posted request.
const (
	FlagSilentSuccess PostFlags = 0x1
	FlagReadFence     PostFlags = 0x2
	FlagSolicit       PostFlags = 0x4
	FlagAllowRead     PostFlags = 0x8  // Bind, FastRegister: the peer may read
	FlagAllowWrite    PostFlags = 0x10 // Bind, FastRegister: the peer may write
	FlagInline        PostFlags = 0x20
	FlagDefer         PostFlags = 0x200
	FlagInvalidate    PostFlags = 0x1000 // Send: the peer invalidates Request.Token before it reports the message; no number of ND's
	FlagLocalWrite    PostFlags = 0x4000 // FastRegister: requests of this side may write; no number of ND's
	FlagAnswered      PostFlags = 0x8000 // Send with FlagSolicit: the peer's answer will do to acknowledge it; no number of ND's
	FlagImmediate     PostFlags = 0x2000 // Send, Write: a result of the peer has Request.Immediate; not with FlagInvalidate; no number of ND's

	// A Write with FlagImmediate is queued as two halves: a silent Write, and an empty solicited Send that carries the immediate.
	flagFirstHalf  PostFlags = 0x400
	flagSecondHalf PostFlags = 0x800
)

// Request is an initiator request to post.
type Request struct {
	Kind      RequestKind // but Bind, Invalidate and FastRegister, which have calls of their own
	Flags     PostFlags
	Context   uint64
	Inline    []byte // with FlagInline: the bytes themselves, copied during the call
	Length    uint32 // bytes over all entries
	Addr      uint64 // remote address of a Read or Write
	Token     Token  // remote token of a Read or Write, or of a Send with FlagInvalidate
	Immediate uint32 // with FlagImmediate
}

// workRequest is a posted request. The poster fills it before it publishes the index; afterwards it is the engine's.
type workRequest struct {
	context uint64
	addr    uint64
	length  uint32
	token   Token  // of a Send: what FlagInvalidate or FlagImmediate sends along
	number  uint32 // SEND number or read id, given when the request starts
	message uint32 // number of its message in the request space, given with it
	flags   PostFlags
	kind    RequestKind
	nsge    uint8
	done    bool    // a Read: all bytes arrived
	first   Outcome // of a second half: how the first half failed
}

// reported returns the kind that results of the request have.
func (wr *workRequest) reported() RequestKind {
	if wr.flags&flagSecondHalf != 0 {
		return KindWrite
	}
	return wr.kind
}

// initiatorQueue is a ring of initiator requests: posted by applications, executed by the engine in order.
type initiatorQueue struct {
	// Fixed at creation.
	depth      uint32
	mask       uint32
	maxSGE     uint32
	inlineSize uint32
	wrs        []workRequest
	sges       []SGE
	inline     []byte
	locals     []memory.Binding // made for the first request without packets

	mu     interleave.Mutex // held by a poster while it fills one slot
	posted interleave.Uint32
	sample trace.PostSample
	_      [24]byte          // with sample a cache line
	head   interleave.Uint32 // oldest request not completed; written by the engine

	// The engine's. next/off is the next byte to transmit; requests in [head, next) are sent and unacknowledged.
	next uint32
	off  uint32
}

func ringSize(depth int) uint32 { return 1 << bits.Len(uint(max(depth, 1)-1)) }

func newInitiatorQueue(depth, maxSGE, inlineSize int) initiatorQueue {
	size := ringSize(depth)
	return initiatorQueue{
		depth: uint32(depth), mask: size - 1, maxSGE: uint32(maxSGE), inlineSize: uint32(inlineSize),
		wrs: make([]workRequest, size), sges: make([]SGE, int(size)*maxSGE), inline: make([]byte, int(size)*inlineSize),
	}
}

// at returns the next byte to transmit.
func (q *initiatorQueue) at() space.Place { return space.At(q.next, q.off) }

func (q *initiatorQueue) wr(seq uint32) *workRequest { return &q.wrs[seq&q.mask] }

func (q *initiatorQueue) sgl(seq uint32) []SGE {
	i := seq & q.mask
	return q.sges[i*q.maxSGE:][:q.wrs[i].nsge]
}

// slots returns how many slots of the initiator queue the request takes.
func (r *Request) slots() uint32 {
	if r.Kind == KindWrite && r.Flags&FlagImmediate != 0 {
		return 2
	}
	return 1
}

// post copies r into the next slot, or into the next two. The limits were checked by the caller, except space.
func (q *initiatorQueue) post(r *Request, sgl []SGE) Outcome {
	q.mu.Lock()
	seq, slots := q.posted.Load(), r.slots()
	if seq-q.head.Load()+slots > q.depth {
		q.mu.Unlock()
		return OutcomeNoMoreEntries
	}
	q.fill(seq, r, sgl)
	if slots == 2 {
		wr := q.wr(seq)
		wr.flags = wr.flags&^(FlagImmediate|FlagSolicit) | FlagSilentSuccess | flagFirstHalf
		wr.token = r.Token
		q.fill(seq+1, &Request{
			Kind: KindSend, Context: r.Context, Immediate: r.Immediate,
			Flags: r.Flags&FlagSilentSuccess | FlagImmediate | FlagSolicit | flagSecondHalf,
		}, nil)
	}
	q.sample.Record(seq + slots - 1)
	q.posted.Store(seq + slots)
	q.mu.Unlock()
	return OutcomeSuccess
}

// fill copies r into the slot of seq. The caller holds mu.
func (q *initiatorQueue) fill(seq uint32, r *Request, sgl []SGE) {
	i := seq & q.mask
	wr := &q.wrs[i] // field by field: a copy of a struct just written would wait for its words (access.Copy)
	wr.context, wr.addr, wr.length, wr.token = r.Context, r.Addr, r.Length, r.Token
	if r.Flags&FlagInline != 0 {
		sgl = nil
		copy(q.inline[i*q.inlineSize:], r.Inline)
	}
	wr.number, wr.message, wr.flags, wr.kind, wr.nsge, wr.done, wr.first = 0, 0, r.Flags, r.Kind, uint8(len(sgl)), false, OutcomeSuccess
	access.Copy(q.sges[i*q.maxSGE:], sgl)
	if r.Flags&FlagImmediate != 0 {
		wr.token = Token(r.Immediate)
	}
}

// receiveRequest is a posted receive.
type receiveRequest struct {
	context  uint64
	capacity uint32
	nsge     uint8
}

// receiveQueue is a ring of receives, indexed by SEND number: the receive with index n takes the peer's SEND number
// n - base.
type receiveQueue struct {
	// Fixed at creation.
	depth  uint32
	mask   uint32
	maxSGE uint32
	wrs    []receiveRequest
	sges   []SGE

	mu     interleave.Mutex // held by a poster while it fills one slot
	posted interleave.Uint32
	_      [64]byte
	head   interleave.Uint32 // oldest receive not completed; written by the engine
	// starved is set by the engine when the peer has used up what was advertised; a poster then rings the doorbell.
	starved interleave.Bool
}

func newReceiveQueue(depth, maxSGE int) receiveQueue {
	size := ringSize(depth)
	return receiveQueue{
		depth: uint32(depth), mask: size - 1, maxSGE: uint32(maxSGE),
		wrs: make([]receiveRequest, size), sges: make([]SGE, int(size)*maxSGE),
	}
}

func (q *receiveQueue) wr(seq uint32) *receiveRequest { return &q.wrs[seq&q.mask] }

func (q *receiveQueue) sgl(seq uint32) []SGE {
	i := seq & q.mask
	return q.sges[i*q.maxSGE:][:q.wrs[i].nsge]
}

func (q *receiveQueue) post(context uint64, sgl []SGE, capacity uint32) Outcome {
	q.mu.Lock()
	seq := q.posted.Load()
	if seq-q.head.Load() >= q.depth {
		q.mu.Unlock()
		return OutcomeNoMoreEntries
	}
	i := seq & q.mask
	q.wrs[i] = receiveRequest{context: context, capacity: capacity, nsge: uint8(len(sgl))}
	copy(q.sges[i*q.maxSGE:], sgl)
	q.posted.Store(seq + 1)
	q.mu.Unlock()
	return OutcomeSuccess
}

// waiting returns the number of receives a SEND could still take.
func (q *receiveQueue) waiting() uint32 { return q.posted.Load() - q.head.Load() }

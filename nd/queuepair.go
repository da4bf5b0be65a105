package nd

import (
	"errors"
	"sync"

	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// QueuePairConfig describes a queue pair. Depths are outstanding requests, SGE counts entries per request, InlineSize is
// bytes. The same completion queue may serve both directions.
type QueuePairConfig struct {
	ReceiveCQ, InitiatorCQ         *CompletionQueue
	Context                        uint64 // comes back in every result
	ReceiveDepth, InitiatorDepth   int
	MaxReceiveSGE, MaxInitiatorSGE int
	InlineSize                     int
}

// QueuePair is one end of a connection: applications post requests, results come from its completion queues. All
// methods may be called from any goroutine.
type QueuePair struct {
	adapter *Adapter
	qp      *provider.QP
	once    sync.Once
}

// CreateQueuePair makes a queue pair. It may be given fewer entries per request than it then accepts: every queue pair takes
// at least four.
//
// Errors, by the SPI's argument positions: ErrInvalidParameterN(2) and (3) for the completion queues, (5) receive depth, (6)
// initiator depth, (7) receive entries, (8) initiator entries, (9) inline size; ErrDeviceRemoved.
func (a *Adapter) CreateQueuePair(cfg QueuePairConfig) (*QueuePair, error) {
	refuse := func(s Status) (*QueuePair, error) {
		if a.closed() {
			s = ErrDeviceRemoved
		}
		return nil, &Error{Op: "create queue pair", Status: s}
	}
	outside := func(v, limit int) bool { return v < 0 || v > limit }
	switch {
	case cfg.ReceiveCQ == nil || cfg.ReceiveCQ.adapter != a:
		return refuse(ErrInvalidParameterN(2))
	case cfg.InitiatorCQ == nil || cfg.InitiatorCQ.adapter != a:
		return refuse(ErrInvalidParameterN(3))
	case outside(cfg.ReceiveDepth, maxQueueDepth):
		return refuse(ErrInvalidParameterN(5))
	case outside(cfg.InitiatorDepth, maxQueueDepth):
		return refuse(ErrInvalidParameterN(6))
	case outside(cfg.MaxReceiveSGE, provider.MaxSGE):
		return refuse(ErrInvalidParameterN(7))
	case outside(cfg.MaxInitiatorSGE, provider.MaxSGE):
		return refuse(ErrInvalidParameterN(8))
	case outside(cfg.InlineSize, maxInline):
		return refuse(ErrInvalidParameterN(9))
	}
	if err := a.create("create queue pair", verbs.ObjectQP); err != nil {
		return nil, err
	}
	return a.newQueuePair(cfg, nil), nil
}

// newQueuePair makes a queue pair whose arguments were checked, with a receive queue of its own or a shared one.
func (a *Adapter) newQueuePair(cfg QueuePairConfig, shared *provider.SharedReceiveQueue) *QueuePair {
	q := &QueuePair{adapter: a}
	a.do(func(e *provider.Engine) {
		q.qp = e.NewQP(provider.QPConfig{
			Context: cfg.Context, ReceiveCQ: cfg.ReceiveCQ.cq, InitiatorCQ: cfg.InitiatorCQ.cq, Shared: shared,
			ReceiveDepth: cfg.ReceiveDepth, InitiatorDepth: cfg.InitiatorDepth,
			MaxReceiveSGE: max(cfg.MaxReceiveSGE, sgeFloor), MaxInitiatorSGE: max(cfg.MaxInitiatorSGE, sgeFloor), InlineSize: cfg.InlineSize,
		})
	})
	return q
}

// Send posts a message to the peer's next Receive.
//
// Errors: ErrConnectionInvalid, ErrBufferOverflow (longer than MaxTransferLength or the inline size), ErrDataOverrun (too many
// entries), ErrNoMoreEntries (queue full), ErrInvalidParameterN(4) (flags). A call that fails gives no result.
func (q *QueuePair) Send(context uint64, sgl []SGE, flags OpFlags) error {
	if flags&^(OpSilentSuccess|OpReadFence|OpSolicit|OpInline|OpDefer) != 0 {
		return q.refuse("send", ErrInvalidParameterN(4), nil)
	}
	return q.post("send", provider.Request{Kind: provider.KindSend, Context: context, Flags: provider.PostFlags(flags)}, sgl)
}

// Write posts an RDMA Write of the entries to the peer's memory at addr, as MemoryRegion.Address and RemoteToken of the
// peer named it. Errors are as for Send, flags being argument 6.
func (q *QueuePair) Write(context uint64, sgl []SGE, addr uint64, token Token, flags OpFlags) error {
	if flags&^(OpSilentSuccess|OpReadFence|OpInline|OpDefer) != 0 {
		return q.refuse("write", ErrInvalidParameterN(6), nil)
	}
	return q.post("write", provider.Request{
		Kind: provider.KindWrite, Context: context, Flags: provider.PostFlags(flags), Addr: addr, Token: provider.Token(token),
	}, sgl)
}

// Read posts an RDMA Read of the peer's memory into the entries. More Reads than the outbound read limit may be posted: the ones
// beyond it wait. Errors are as for Send, flags being argument 6, and ErrInvalidDeviceRequest when the outbound read limit is 0, which the error's text
// says.
func (q *QueuePair) Read(context uint64, sgl []SGE, addr uint64, token Token, flags OpFlags) error {
	if flags&^(OpSilentSuccess|OpReadFence|OpDefer) != 0 {
		return q.refuse("read", ErrInvalidParameterN(6), nil)
	}
	return q.post("read", provider.Request{
		Kind: provider.KindRead, Context: context, Flags: provider.PostFlags(flags), Addr: addr, Token: provider.Token(token),
	}, sgl)
}

// post translates the entries and queues the request.
func (q *QueuePair) post(op string, r provider.Request, sgl []SGE) error {
	total, s := lengthOf(sgl)
	r.Length = total
	switch {
	case r.Flags&provider.FlagInline != 0:
		return q.postInline(op, r, sgl)
	case s != StatusSuccess:
		return q.refusePost(op, s)
	}
	var list [provider.MaxSGE]provider.SGE
	q.adapter.translate(list[:], sgl)
	r.SGL = list[:len(sgl)]
	ring, o := q.qp.Post(&r)
	return q.posted(op, ring, o)
}

// refusePost refuses a request for its arguments, unless the connection does not allow any: that is checked first.
func (q *QueuePair) refusePost(op string, s Status) error {
	if o := q.qp.CheckPost(); o != provider.OutcomeSuccess {
		s = statusTable[o]
	}
	return q.refuse(op, s, nil)
}

// refuse ends a post that failed: requests that were deferred before it go out, as they do behind one that is taken.
func (q *QueuePair) refuse(op string, s Status, cause error) error {
	if q.adapter.closed() { // nobody runs the engine any more
		return q.adapter.removed(op)
	}
	q.qp.Push()
	q.qp.Ring()
	return &Error{Op: op, Status: s, Err: cause}
}

// errNoReads is why a Read cannot be posted.
var errNoReads = errors.New("the outbound read limit of the connection is 0: " +
	"ConnectParams.OutboundReadLimit of this side and InboundReadLimit of the peer must both be above 0")

// lengthOf adds up the bytes of a list that a request may have. A list of inline bytes may have any number of entries.
func lengthOf(sgl []SGE) (uint32, Status) {
	total := uint64(0)
	for i := range sgl {
		total += uint64(len(sgl[i].Buffer))
	}
	n, o := verbs.TransferLength(total, len(sgl))
	return n, statusTable[o]
}

// postInline queues a request whose bytes are copied now.
func (q *QueuePair) postInline(op string, r provider.Request, sgl []SGE) error {
	var data [maxInline]byte
	if r.Length > maxInline {
		return q.refusePost(op, ErrBufferOverflow)
	}
	at := data[:]
	for i := range sgl {
		at = at[copy(at, sgl[i].Buffer):]
	}
	r.Inline = data[:r.Length]
	ring, o := q.qp.Post(&r)
	return q.posted(op, ring, o)
}

// posted ends every posting call.
func (q *QueuePair) posted(op string, ring bool, o provider.Outcome) error {
	switch {
	case o == provider.OutcomeInvalidRequest: // of a Read alone
		return q.refuse(op, statusTable[o], errNoReads)
	case o != provider.OutcomeSuccess:
		return q.refuse(op, statusTable[o], nil)
	}
	if ring {
		if q.adapter.closed() { // nobody runs the engine any more
			return q.adapter.removed(op)
		}
		q.qp.Ring()
	}
	return nil
}

// translate turns slices into region addresses.
func (a *Adapter) translate(dst []provider.SGE, sgl []SGE) {
	for i := range sgl {
		dst[i] = a.verbs.Entry(sgl[i].Buffer, provider.Token(sgl[i].Token))
	}
}

// Receive posts the entries for one message of the peer. It may be called before the queue pair is connected.
//
// Errors: ErrBufferOverflow, ErrDataOverrun, ErrNoMoreEntries.
func (q *QueuePair) Receive(context uint64, sgl []SGE) error {
	total, s := lengthOf(sgl)
	if s != StatusSuccess {
		return &Error{Op: "receive", Status: s}
	}
	var list [provider.MaxSGE]provider.SGE
	q.adapter.translate(list[:], sgl)
	ring, o := q.qp.PostReceive(context, list[:len(sgl)], total)
	return q.posted("receive", ring, o)
}

// Flush ends every outstanding request with ErrCanceled; the results are in the completion queues when it returns. A
// connected queue pair then accepts no work any more, and can still be disconnected gracefully.
func (q *QueuePair) Flush() {
	q.qp.Own(func(e *provider.Engine) { e.Flush(q.qp) })
}

// Close ends every outstanding request with ErrCanceled, and the connection. Results stay in the completion queues.
// Closing twice is harmless.
func (q *QueuePair) Close() error {
	q.once.Do(func() {
		q.adapter.verbs.Objects.Give(verbs.ObjectQP)
		q.qp.Own(func(e *provider.Engine) { e.ReleaseQP(q.qp) })
	})
	return nil
}

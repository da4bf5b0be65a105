package nd

import (
	"errors"
	"sync"

	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// QueuePairConfig describes a queue pair. Depths count outstanding requests, SGE counts entries per request, and InlineSize is in bytes.
// One completion queue may serve both directions.
type QueuePairConfig struct {
	ReceiveCQ, InitiatorCQ         *CompletionQueue
	ID                             uint64 // comes back in every result
	ReceiveDepth, InitiatorDepth   int
	MaxReceiveSGE, MaxInitiatorSGE int
	InlineSize                     int
}

// description converts the configuration for package verbs.
func (c *QueuePairConfig) description() verbs.QPConfig {
	return verbs.QPConfig{
		ReceiveCQ: c.ReceiveCQ.inner(), InitiatorCQ: c.InitiatorCQ.inner(), Context: c.ID,
		ReceiveDepth: c.ReceiveDepth, InitiatorDepth: c.InitiatorDepth,
		MaxReceiveSGE: c.MaxReceiveSGE, MaxInitiatorSGE: c.MaxInitiatorSGE, InlineSize: c.InlineSize,
	}
}

// QueuePair is one end of a connection. Applications post requests to it, and results arrive in its completion queues. All methods may be
// called from any goroutine.
type QueuePair struct {
	adapter *Adapter
	qp      verbs.QP
	once    sync.Once
}

// inner returns the adapter's own object for the queue pair, or nil for a nil queue pair.
func (q *QueuePair) inner() *verbs.QP {
	if q == nil {
		return nil
	}
	return &q.qp
}

// CreateQueuePair makes a queue pair. Every queue pair accepts at least four entries per request, even if cfg asks for fewer.
//
// Errors, by the SPI's argument positions: ErrInvalidParameterN(2) and (3) for the completion queues, (5) receive depth, (6) initiator
// depth, (7) receive entries, (8) initiator entries, (9) inline size; ErrInsufficientResources, ErrDeviceRemoved.
func (a *Adapter) CreateQueuePair(cfg QueuePairConfig) (*QueuePair, error) {
	return a.createQueuePair("create queue pair", cfg.description(), [verbs.NumArguments]int{
		verbs.ArgumentReceiveCQ: 2, verbs.ArgumentInitiatorCQ: 3, verbs.ArgumentReceiveDepth: 5, verbs.ArgumentInitiatorDepth: 6,
		verbs.ArgumentReceiveSGE: 7, verbs.ArgumentInitiatorSGE: 8, verbs.ArgumentInline: 9,
	})
}

// CreateQueuePairWithSRQ makes a queue pair that takes its receives from srq. srq may be closed before the queue pair. The receive depth
// and entries of cfg are not used: Receive on the queue pair itself returns ErrNoMoreEntries.
//
// Errors, by the SPI's argument positions: ErrInvalidParameterN(2) and (3) for the completion queues, (4) srq, (6) initiator depth, (7)
// initiator entries, (8) inline size; ErrInsufficientResources, ErrDeviceRemoved.
func (a *Adapter) CreateQueuePairWithSRQ(srq *SharedReceiveQueue, cfg QueuePairConfig) (*QueuePair, error) {
	c := cfg.description()
	if c.FromShared = true; srq != nil {
		c.Shared = &srq.srq
	}
	return a.createQueuePair("create queue pair with shared receive queue", c, [verbs.NumArguments]int{
		verbs.ArgumentReceiveCQ: 2, verbs.ArgumentInitiatorCQ: 3, verbs.ArgumentSharedQueue: 4, verbs.ArgumentInitiatorDepth: 6,
		verbs.ArgumentInitiatorSGE: 7, verbs.ArgumentInline: 8,
	})
}

// createQueuePair makes a queue pair. positions maps arguments to their positions in the SPI's list.
func (a *Adapter) createQueuePair(op string, c verbs.QPConfig, positions [verbs.NumArguments]int) (*QueuePair, error) {
	if wrong := a.verbs.CheckQP(&c); wrong != verbs.ArgumentNone {
		return nil, a.wrong(op, positions[wrong])
	}
	if err := a.create(op, verbs.ObjectQP); err != nil {
		return nil, err
	}
	return &QueuePair{adapter: a, qp: a.verbs.NewQP(&c)}, nil
}

// Send posts a message to the peer's next Receive. Its result has id as RequestID, as the results of all posting calls have.
//
// Errors: ErrConnectionInvalid, ErrBufferOverflow (longer than MaxTransferLength or the inline size), ErrDataOverrun (too many
// entries), ErrNoMoreEntries (queue full), ErrInvalidParameterN(4) (flags), ErrDeviceRemoved. A call that fails gives no result.
func (q *QueuePair) Send(id uint64, sgl []SGE, flags OpFlags) error {
	if flags&^(OpSilentSuccess|OpReadFence|OpSolicit|OpInline|OpDefer|OpAnswered) != 0 {
		return q.wrong("send", 4)
	}
	return q.posted("send", verbs.Post(&q.qp, &provider.Request{
		Kind: provider.KindSend, Context: id, Flags: provider.PostFlags(flags),
	}, sgl))
}

// Write posts an RDMA Write of the entries to the peer's memory. addr and token are MemoryRegion.Address and RemoteToken at the peer.
// Errors are as for Send, with flags as argument 6.
func (q *QueuePair) Write(id uint64, sgl []SGE, addr uint64, token Token, flags OpFlags) error {
	if flags&^(OpSilentSuccess|OpReadFence|OpInline|OpDefer) != 0 {
		return q.wrong("write", 6)
	}
	return q.posted("write", verbs.Post(&q.qp, &provider.Request{
		Kind: provider.KindWrite, Context: id, Flags: provider.PostFlags(flags), Addr: addr, Token: provider.Token(token),
	}, sgl))
}

// Read posts an RDMA Read of the peer's memory into the entries. Reads beyond the outbound read limit may be posted; they wait. Errors are
// as for Send, with flags as argument 6. If the outbound read limit is 0, the error is ErrInvalidDeviceRequest, and its text says so.
func (q *QueuePair) Read(id uint64, sgl []SGE, addr uint64, token Token, flags OpFlags) error {
	if flags&^(OpSilentSuccess|OpReadFence|OpDefer) != 0 {
		return q.wrong("read", 6)
	}
	return q.posted("read", verbs.Post(&q.qp, &provider.Request{
		Kind: provider.KindRead, Context: id, Flags: provider.PostFlags(flags), Addr: addr, Token: provider.Token(token),
	}, sgl))
}

// posted makes the error of every posting call.
func (q *QueuePair) posted(op string, o provider.Outcome) error {
	if o == provider.OutcomeSuccess {
		return nil
	}
	return q.refused(op, o)
}

func (q *QueuePair) refused(op string, o provider.Outcome) error {
	var cause error
	if o == provider.OutcomeInvalidRequest { // only a Read has this outcome
		cause = errNoReads
	}
	return q.adapter.fail(op, noAddr, noAddr, o, cause)
}

// wrong returns the error of a post with a wrong argument. Arguments are checked before the state of the queue pair.
func (q *QueuePair) wrong(op string, argument int) error {
	q.qp.Fail(verbs.OutcomeWrongArgument)
	return q.adapter.wrong(op, argument)
}

// errNoReads is the cause if a Read cannot be posted.
var errNoReads = errors.New("the outbound read limit of the connection is 0: " +
	"set OutboundReadLimit in ConnectParams of this side, and InboundReadLimit in ConnectParams of the peer")

// Receive posts the entries for one message of the peer. It may be called before the queue pair is connected.
//
// Errors: ErrBufferOverflow, ErrDataOverrun, ErrNoMoreEntries, ErrDeviceRemoved.
func (q *QueuePair) Receive(id uint64, sgl []SGE) error {
	return q.posted("receive", verbs.Receive(&q.qp, id, sgl))
}

// Flush ends every outstanding request with ErrCanceled. The results are in the completion queues when it returns. A connected queue pair
// then accepts no more requests, but can still be disconnected gracefully.
func (q *QueuePair) Flush() { q.qp.Flush() }

// Close ends every outstanding request with ErrCanceled, and ends the connection. Results stay in the completion queues. Closing twice is
// harmless.
func (q *QueuePair) Close() error {
	q.once.Do(func() { q.adapter.verbs.Objects.Give(verbs.ObjectQP) })
	q.qp.Close()
	return nil
}

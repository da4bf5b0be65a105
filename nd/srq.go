package nd

import (
	"context"
	"sync/atomic"

	"github.com/ndxdp/ndxdp/internal/datapath"
	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// SharedReceiveQueue is a pool of receives for any number of queue pairs: each message takes the oldest one when it
// arrives, whoever sent it. The result shows the queue pair that took it, and goes to that queue pair's receive completion
// queue. A message that finds the pool empty waits at its sender, for as long as that lives.
//
// All methods may be called from any goroutine.
type SharedReceiveQueue struct {
	adapter *Adapter
	srq     *provider.SharedReceiveQueue
	closed  atomic.Bool
}

// CreateSharedReceiveQueue makes a pool of depth receives with up to maxSGE entries each, and in any case four. Notify
// returns when fewer than threshold receives are posted; never when that is 0.
//
// Errors, by the SPI's argument positions: ErrInvalidParameterN(3) for a depth outside 1..MaxSharedReceiveQueueDepth, (4)
// entries, (5) a negative threshold; ErrInsufficientResources, ErrDeviceRemoved.
func (a *Adapter) CreateSharedReceiveQueue(depth, maxSGE, threshold int) (*SharedReceiveQueue, error) {
	const op = "create shared receive queue"
	refuse := func(s Status) (*SharedReceiveQueue, error) {
		if a.closed() {
			s = ErrDeviceRemoved
		}
		return nil, &Error{Op: op, Status: s}
	}
	switch {
	case depth < 1 || depth > maxSharedDepth:
		return refuse(ErrInvalidParameterN(3))
	case maxSGE < 0 || maxSGE > provider.MaxSGE:
		return refuse(ErrInvalidParameterN(4))
	case threshold < 0:
		return refuse(ErrInvalidParameterN(5))
	}
	if err := a.create(op, verbs.ObjectSRQ); err != nil {
		return nil, err
	}
	s := &SharedReceiveQueue{adapter: a, srq: provider.NewSharedReceiveQueue(depth, max(maxSGE, sgeFloor), threshold)}
	a.verbs.Watch(s.srq)
	return s, nil
}

// CreateQueuePairWithSRQ makes a queue pair that takes its receives from srq, which may be closed before it. The receive
// depth and entries of cfg are not used: Receive on the queue pair itself gives ErrNoMoreEntries.
//
// Errors, by the SPI's argument positions: ErrInvalidParameterN(2) and (3) for the completion queues, (4) srq, (6) initiator
// depth, (7) initiator entries, (8) inline size; ErrInsufficientResources, ErrDeviceRemoved.
func (a *Adapter) CreateQueuePairWithSRQ(srq *SharedReceiveQueue, cfg QueuePairConfig) (*QueuePair, error) {
	const op = "create queue pair with shared receive queue"
	outside := func(v, limit int) bool { return v < 0 || v > limit }
	argument := 0
	switch {
	case cfg.ReceiveCQ == nil || cfg.ReceiveCQ.adapter != a:
		argument = 2
	case cfg.InitiatorCQ == nil || cfg.InitiatorCQ.adapter != a:
		argument = 3
	case srq == nil || srq.adapter != a || srq.closed.Load():
		argument = 4
	case outside(cfg.InitiatorDepth, maxQueueDepth):
		argument = 6
	case outside(cfg.MaxInitiatorSGE, provider.MaxSGE):
		argument = 7
	case outside(cfg.InlineSize, maxInline):
		argument = 8
	}
	if argument != 0 && !a.closed() {
		return nil, &Error{Op: op, Status: ErrInvalidParameterN(argument)}
	}
	if err := a.create(op, verbs.ObjectQP); err != nil {
		return nil, err
	}
	return a.newQueuePair(cfg, srq.srq), nil
}

// Receive posts the entries for one message of any peer.
//
// Errors: ErrBufferOverflow (longer than MaxTransferLength), ErrDataOverrun (too many entries), ErrNoMoreEntries (queue
// full), ErrInvalidDeviceState (closed), ErrDeviceRemoved. A call that fails gives no result.
func (s *SharedReceiveQueue) Receive(context uint64, sgl []SGE) error {
	const op = "receive"
	if err := s.check(op); err != nil {
		return err
	}
	total, status := lengthOf(sgl)
	if status != StatusSuccess {
		return &Error{Op: op, Status: status}
	}
	var list [provider.MaxSGE]provider.SGE
	s.adapter.translate(list[:], sgl)
	ring, o := s.srq.Post(context, list[:len(sgl)], total)
	if o != provider.OutcomeSuccess {
		return &Error{Op: op, Status: statusTable[o]}
	}
	if ring != nil {
		if shard := ring.Shard(); shard != nil {
			shard.Ring()
		}
	}
	return nil
}

// check refuses calls on what is over.
func (s *SharedReceiveQueue) check(op string) error {
	switch {
	case s.adapter.closed():
		return s.adapter.removed(op)
	case s.closed.Load():
		return &Error{Op: op, Status: ErrInvalidDeviceState}
	}
	return nil
}

// Modify changes depth and threshold while traffic runs; 0 leaves that value as it is. A higher threshold may finish
// waiting Notify calls.
//
// Errors: ErrInvalidParameter for values that CreateSharedReceiveQueue refuses, ErrBufferOverflow for a depth below the
// receives that are posted, ErrInvalidDeviceState (closed), ErrDeviceRemoved. The queue is unchanged then.
func (s *SharedReceiveQueue) Modify(depth, threshold int) error {
	const op = "modify"
	if err := s.check(op); err != nil {
		return err
	}
	if depth < 0 || depth > maxSharedDepth || threshold < 0 {
		return &Error{Op: op, Status: ErrInvalidParameter}
	}
	return fail(op, noAddr, noAddr, s.srq.Modify(depth, threshold))
}

// Notify waits until fewer receives are posted than the threshold says, or ctx ends. It returns at once when that is so
// already. Several may wait: all return together.
//
// Errors: ErrCanceled (with the context's error) when ctx ended or the queue was closed, ErrDeviceRemoved.
func (s *SharedReceiveQueue) Notify(ctx context.Context) error {
	const op = "notify"
	if err := checkContext(op, ctx); err != nil {
		return err
	}
	switch {
	case s.adapter.closed():
		return s.adapter.removed(op)
	case s.closed.Load():
		return &Error{Op: op, Status: ErrCanceled}
	}
	w := notifications.Get().(*notification)
	id := s.srq.Arm(w.fin)
	// As in CompletionQueue.Notify: whoever closes marks first and cancels then.
	switch {
	case s.adapter.closed():
		s.srq.CancelWaiter(id, provider.OutcomeDeviceRemoved)
	case s.closed.Load():
		s.srq.CancelWaiter(id, provider.OutcomeCanceled)
	default:
		s.adapter.verbs.ReleaseAll() // messages are to arrive while the poller sleeps
	}
	o, cause := wait(ctx, w.done, func() { s.srq.CancelWaiter(id, provider.OutcomeCanceled) })
	notifications.Put(w)
	return finished(op, noAddr, noAddr, o, cause)
}

// NotifyAffinity returns the processors on which Notify may be served, ascending: those that this process may use.
//
// Errors: ErrDeviceRemoved.
func (s *SharedReceiveQueue) NotifyAffinity() ([]int, error) {
	if s.adapter.closed() {
		return nil, s.adapter.removed("notify affinity")
	}
	return datapath.Processors(), nil
}

// CancelOverlappedRequests ends every waiting Notify with ErrCanceled, oldest first.
func (s *SharedReceiveQueue) CancelOverlappedRequests() {
	s.srq.CancelWaiters(provider.OutcomeCanceled)
}

// Close ends every waiting Notify, and later ones at once. Queue pairs that use the queue keep taking what was posted; no
// more can be posted. Receives that nobody takes leave no result. Closing twice is harmless.
func (s *SharedReceiveQueue) Close() error {
	if s.closed.CompareAndSwap(false, true) {
		s.adapter.verbs.Objects.Give(verbs.ObjectSRQ)
		s.adapter.verbs.Unwatch(s.srq)
	}
	s.CancelOverlappedRequests()
	return nil
}

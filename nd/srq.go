package nd

import (
	"context"

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
	srq     verbs.SRQ
}

// CreateSharedReceiveQueue makes a pool of depth receives with up to maxSGE entries each, and in any case four. Notify
// returns when fewer than threshold receives are posted; never when that is 0.
//
// Errors, by the SPI's argument positions: ErrInvalidParameterN(3) for a depth outside 1..MaxSharedReceiveQueueDepth, (4)
// entries, (5) a negative threshold; ErrInsufficientResources, ErrDeviceRemoved.
func (a *Adapter) CreateSharedReceiveQueue(depth, maxSGE, threshold int) (*SharedReceiveQueue, error) {
	const op = "create shared receive queue"
	c := verbs.SRQConfig{Depth: depth, MaxSGE: maxSGE, Threshold: threshold}
	if wrong := c.Check(); wrong != verbs.ArgumentNone {
		positions := [verbs.NumArguments]int{verbs.ArgumentReceiveDepth: 3, verbs.ArgumentReceiveSGE: 4, verbs.ArgumentThreshold: 5}
		return nil, a.wrong(op, positions[wrong])
	}
	if err := a.create(op, verbs.ObjectSRQ); err != nil {
		return nil, err
	}
	s := &SharedReceiveQueue{adapter: a}
	s.srq.Init(a.verbs, c)
	return s, nil
}

// Receive posts the entries for one message of any peer.
//
// Errors: ErrBufferOverflow (longer than MaxTransferLength), ErrDataOverrun (too many entries), ErrNoMoreEntries (queue
// full), ErrInvalidDeviceState (closed), ErrDeviceRemoved. A call that fails gives no result.
func (s *SharedReceiveQueue) Receive(context uint64, sgl []SGE) error {
	return s.adapter.fail("receive", noAddr, noAddr, verbs.ReceiveShared(&s.srq, context, sgl), nil)
}

// Modify changes depth and threshold while traffic runs; 0 leaves that value as it is. A higher threshold may finish
// waiting Notify calls.
//
// Errors: ErrInvalidParameter for values that CreateSharedReceiveQueue refuses, ErrBufferOverflow for a depth below the
// receives that are posted, ErrInvalidDeviceState (closed), ErrDeviceRemoved. The queue is unchanged then.
func (s *SharedReceiveQueue) Modify(depth, threshold int) error {
	return s.adapter.fail("modify", noAddr, noAddr, s.srq.Modify(depth, threshold), nil)
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
	w := newCall()
	defer calls.Put(w)
	id := s.srq.Arm(w.fin)
	o, cause := s.adapter.sleep(ctx, w, func() { s.srq.CancelWaiter(id, provider.OutcomeCanceled) })
	return s.adapter.fail(op, noAddr, noAddr, o, cause)
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
	if s.srq.Close() {
		s.adapter.verbs.Objects.Give(verbs.ObjectSRQ)
	}
	return nil
}

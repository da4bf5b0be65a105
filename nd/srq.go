package nd

import (
	"context"

	"github.com/ndxdp/ndxdp/internal/host"
	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// SharedReceiveQueue is a pool of receives for any number of queue pairs. Each arriving message takes the oldest receive,
// whichever peer sent it. The result names the queue pair that took the receive, and goes to the receive completion queue
// of this queue pair. If the pool is empty, a message waits at its sender as long as the pool exists.
//
// All methods may be called from any goroutine.
type SharedReceiveQueue struct {
	adapter *Adapter
	srq     verbs.SRQ
}

// CreateSharedReceiveQueue makes a pool of depth receives with up to maxSGE entries each; at least four entries are always
// accepted. Notify returns when fewer than threshold receives are posted, and never if threshold is 0.
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
func (s *SharedReceiveQueue) Receive(id uint64, sgl []SGE) error {
	return s.adapter.fail("receive", noAddr, noAddr, verbs.ReceiveShared(&s.srq, id, sgl), nil)
}

// Modify changes depth and threshold while traffic runs. A value of 0 leaves the old value unchanged. A higher threshold
// may wake waiting Notify calls.
//
// Errors: ErrInvalidParameter for values that CreateSharedReceiveQueue refuses, ErrBufferOverflow for a depth below the
// number of posted receives, ErrInvalidDeviceState (closed), ErrDeviceRemoved. After an error the queue is unchanged.
func (s *SharedReceiveQueue) Modify(depth, threshold int) error {
	return s.adapter.fail("modify", noAddr, noAddr, s.srq.Modify(depth, threshold), nil)
}

// Notify waits until fewer receives are posted than the threshold, or until ctx ends. It returns at once if this is
// already so. Several goroutines may wait: all return together.
//
// Errors: ErrCanceled (with the context's error) if ctx ended or the queue was closed, ErrDeviceRemoved.
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

// NotifyAffinity returns the processors on which Notify may run, in ascending order: all processors that this process may
// use.
//
// Errors: ErrDeviceRemoved.
func (s *SharedReceiveQueue) NotifyAffinity() ([]int, error) {
	if s.adapter.closed() {
		return nil, s.adapter.removed("notify affinity")
	}
	return host.Processors(), nil
}

// CancelOverlappedRequests ends every waiting Notify with ErrCanceled, oldest first.
func (s *SharedReceiveQueue) CancelOverlappedRequests() {
	s.srq.CancelWaiters(provider.OutcomeCanceled)
}

// Close ends every waiting Notify; later Notify calls end at once. Queue pairs of the queue still take posted receives; no
// more can be posted. Receives that no message takes leave no result. Closing twice is harmless.
func (s *SharedReceiveQueue) Close() error {
	if s.srq.Close() {
		s.adapter.verbs.Objects.Give(verbs.ObjectSRQ)
	}
	return nil
}

package verbs

import (
	"sync/atomic"

	"github.com/ndxdp/ndxdp/provider"
)

// SRQ is a shared receive queue. All methods may be called from any goroutine.
type SRQ struct {
	*provider.SharedReceiveQueue
	adapter *Adapter
	closed  atomic.Bool
}

// SRQConfig describes a shared receive queue: its receives, the entries of each, and the threshold of Arm.
type SRQConfig struct{ Depth, MaxSGE, Threshold int }

// Check returns the first wrong argument; ArgumentReceiveDepth is the depth of the queue itself.
func (c SRQConfig) Check() Argument {
	switch {
	case c.Depth < 1 || c.Depth > MaxSharedDepth:
		return ArgumentReceiveDepth
	case c.MaxSGE < 0 || c.MaxSGE > provider.MaxSGE:
		return ArgumentReceiveSGE
	case c.Threshold < 0:
		return ArgumentThreshold
	}
	return ArgumentNone
}

// Init makes q a queue of an adapter. Check has checked c.
func (q *SRQ) Init(a *Adapter, c SRQConfig) {
	q.adapter, q.SharedReceiveQueue = a, provider.NewSharedReceiveQueue(c.Depth, max(c.MaxSGE, SGEFloor), c.Threshold)
	a.Watch(q.SharedReceiveQueue)
}

// over returns why the queue cannot be used any more, or OutcomeSuccess.
func (q *SRQ) over() provider.Outcome {
	switch {
	case q.adapter.Closed():
		return provider.OutcomeDeviceRemoved
	case q.closed.Load():
		return provider.OutcomeInvalidState
	}
	return provider.OutcomeSuccess
}

// ReceiveShared queues a receive into the entries of sgl for one message of any peer.
//
// Outcomes: OutcomeSuccess, OutcomeDataOverrun, OutcomeBufferOverflow, OutcomeNoMoreEntries, OutcomeInvalidState (closed),
// OutcomeDeviceRemoved.
func ReceiveShared[S entries[T], T ~uint32](q *SRQ, context uint64, sgl []S) provider.Outcome {
	if o := q.over(); o != provider.OutcomeSuccess {
		return o
	}
	total, o := lengthOf(sgl)
	if o != provider.OutcomeSuccess {
		return o
	}
	var list [provider.MaxSGE]provider.SGE
	translate(q.adapter, list[:], sgl)
	waiting, o := q.Post(context, list[:len(sgl)], total)
	if waiting != nil {
		if shard := waiting.Shard(); shard != nil {
			shard.Ring()
		}
	}
	return o
}

// ValidModify reports whether Modify accepts these values.
func (q *SRQ) ValidModify(depth, threshold int) bool {
	return depth >= 0 && depth <= MaxSharedDepth && threshold >= 0
}

// Modify changes depth and threshold; 0 leaves a value unchanged.
//
// Outcomes: OutcomeSuccess, OutcomeWrongArgument, OutcomeBufferOverflow (more receives are posted), OutcomeInvalidState (closed),
// OutcomeDeviceRemoved.
func (q *SRQ) Modify(depth, threshold int) provider.Outcome {
	if o := q.over(); o != provider.OutcomeSuccess {
		return o
	}
	if !q.ValidModify(depth, threshold) {
		return OutcomeWrongArgument
	}
	return q.SharedReceiveQueue.Modify(depth, threshold)
}

// Arm adds a waiting notification. fin is called once: when fewer receives are posted than the threshold, when CancelWaiter is called
// with the id, or when the queue or the adapter ends.
func (q *SRQ) Arm(fin provider.Finish) (id uint64) {
	if !q.ended(fin) {
		id = q.SharedReceiveQueue.Arm(fin)
		if q.ended(q.CancelWaiters) { // Close sets the mark before it cancels, so either Arm sees the mark, or Close sees the notification
			return id
		}
		q.adapter.ReleaseAll() // messages have to arrive while the poller sleeps
	}
	return id
}

// ended calls tell with the outcome of waiting if the queue has ended, and reports whether it has.
func (q *SRQ) ended(tell func(provider.Outcome)) bool {
	switch q.over() {
	case provider.OutcomeSuccess:
		return false
	case provider.OutcomeDeviceRemoved:
		tell(provider.OutcomeDeviceRemoved)
	default:
		tell(provider.OutcomeCanceled)
	}
	return true
}

// Close ends every waiting notification; later ones end at once. No more receives can be posted, but messages may still take posted
// receives. It reports whether this call was the first.
func (q *SRQ) Close() (first bool) {
	if first = !q.closed.Swap(true); first {
		q.adapter.Unwatch(q.SharedReceiveQueue)
	}
	q.CancelWaiters(provider.OutcomeCanceled)
	return first
}

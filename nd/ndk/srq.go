package ndk

import (
	"sync"

	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// SRQ is a pool of receives for any number of queue pairs of its domain. Each arriving message takes the oldest receive. If the pool is
// empty, a message waits at its sender until a receive is posted or the connection ends.
type SRQ struct {
	object
	pd     *PD
	srq    verbs.SRQ
	notify Notification
	about  any // context of the notification

	arming sync.Mutex
	armed  uint64 // id of the newest notification, 0 before the first; guarded by arming
}

// CreateSRQ makes a pool of depth receives with up to maxSGE entries each; at least four entries are always accepted. notify, which may
// be nil, is called with notifyContext once when the number of posted receives falls below threshold after having reached it, and then
// once for each Modify with a threshold.
//
// Statuses: StatusSuccess; StatusPending with a done; StatusInvalidParameter for a depth outside 1..MaxSRQDepth, more entries than
// MaxReceiveRequestSGE and a negative threshold; StatusInsufficientResources, StatusDeviceRemoved.
func (p *PD) CreateSRQ(
	depth, maxSGE, threshold int, notify Notification, notifyContext any, done CreateCompletion[*SRQ], context any,
) (*SRQ, Status) {
	c := verbs.SRQConfig{Depth: depth, MaxSGE: maxSGE, Threshold: threshold}
	if c.Check() != verbs.ArgumentNone {
		return nil, p.adapter.unless(StatusInvalidParameter)
	}
	return create(&p.object, verbs.ObjectSRQ, done, context, func() (*SRQ, Status) {
		s := &SRQ{pd: p, notify: notify, about: notifyContext}
		s.srq.Init(p.adapter.verbs, c)
		s.init(p.adapter, verbs.ObjectSRQ, &p.object)
		if threshold > 0 {
			s.srq.NotifyOnceFilled()
			s.arm()
		}
		return s, StatusSuccess
	})
}

// Receive posts the entries for one message of any peer.
//
// Statuses: StatusSuccess; StatusBufferOverflow (longer than MaxTransferLength), StatusDataOverrun (too many entries),
// StatusNoMoreEntries (queue full), StatusInvalidDeviceState (closed), StatusDeviceRemoved. A call that fails gives no result.
func (s *SRQ) Receive(id uint64, sgl []SGE) Status {
	return statusTable[verbs.ReceiveShared(&s.srq, id, sgl)]
}

// arm adds one waiting notification. The caller holds arming, or is creating the queue.
func (s *SRQ) arm() {
	s.armed = s.srq.Arm(func(o provider.Outcome) {
		if o == provider.OutcomeCanceled || o == provider.OutcomeDeviceRemoved {
			return
		}
		s.later(func() {
			if s.notify != nil && !s.ending() {
				s.notify(s.about, statusTable[o])
			}
		})
	})
}

// Modify changes depth and threshold while traffic runs. A value of 0 leaves the old value unchanged. A threshold also arms one
// notification, which is due at once if fewer receives are posted.
//
// Statuses: StatusSuccess; StatusPending with a done; StatusInvalidParameter for values that CreateSRQ refuses, StatusBufferOverflow for
// a depth below the number of posted receives, StatusDeviceRemoved. After an error the queue is unchanged.
func (s *SRQ) Modify(depth, threshold int, done Completion, context any) Status {
	if !s.srq.ValidModify(depth, threshold) {
		return s.adapter.unless(StatusInvalidParameter)
	}
	return s.perform(done, context, func() Status {
		s.arming.Lock()
		defer s.arming.Unlock()
		if o := s.srq.Modify(depth, 0); o != provider.OutcomeSuccess || threshold == 0 {
			return statusTable[o]
		}
		s.srq.CancelWaiter(s.armed, provider.OutcomeCanceled) // the new notification replaces it
		_ = s.srq.Modify(0, threshold)                        // only the depth can fail
		s.arm()
		return StatusSuccess
	})
}

// Close ends the pool when its queue pairs are closed. It never fails. done, which may be nil, is called if and only if Close returns
// StatusPending.
func (s *SRQ) Close(done CloseCompletion, context any) Status {
	return s.close(func() { s.srq.Close() }, done, context)
}

package nd

import (
	"testing"

	"github.com/ndxdp/ndxdp/internal/verbs"
)

// pooled makes a call on a shared receive queue of four receives. Two are posted, and its threshold is two.
func pooled(call func(t *testing.T, s *SharedReceiveQueue) error) provoke {
	return func(t *testing.T, r *rig) error {
		s, err := r.a.CreateSharedReceiveQueue(4, 2, 2)
		must(t, err)
		defer s.Close()
		must(t, s.Receive(1, nil))
		must(t, s.Receive(2, nil))
		return call(t, s)
	}
}

// poolOfRemoved makes a call on a shared receive queue whose adapter is gone.
func poolOfRemoved(call func(t *testing.T, s *SharedReceiveQueue) error) provoke {
	return func(t *testing.T, _ *rig) error {
		r := newRig(t, 1500, DatapathAuto)
		s, err := r.a.CreateSharedReceiveQueue(2, 1, 1)
		must(t, err)
		t.Cleanup(func() { must(t, s.Close()) })
		r.removeInterface(t)
		wantStatus(t, "receive", s.Receive(1, nil), ErrDeviceRemoved)
		return call(t, s)
	}
}

// makePool makes a shared receive queue.
func makePool(depth, sge, threshold int) provoke {
	return func(t *testing.T, r *rig) error {
		s, err := r.a.CreateSharedReceiveQueue(depth, sge, threshold)
		if err == nil {
			must(t, s.Close())
		}
		return err
	}
}

func onePool(_ *testing.T, a *Adapter) error {
	_, err := a.CreateSharedReceiveQueue(1, 1, 0)
	return err
}

// withPool makes a queue pair on a shared receive queue with one invalid argument.
func withPool(spoil func(s **SharedReceiveQueue, cfg *QueuePairConfig, r *rig)) provoke {
	return func(t *testing.T, r *rig) error {
		s, err := r.a.CreateSharedReceiveQueue(1, 1, 0)
		must(t, err)
		defer s.Close()
		return makeQPWith(t, r.a, func(cfg *QueuePairConfig) *SharedReceiveQueue {
			with := s
			spoil(&with, cfg, r)
			return with
		})
	}
}

func makeQPWith(t *testing.T, a *Adapter, spoil func(cfg *QueuePairConfig) *SharedReceiveQueue) error {
	cq, err := a.CreateCompletionQueue(1)
	must(t, err)
	defer cq.Close()
	cfg := QueuePairConfig{ReceiveCQ: cq, InitiatorCQ: cq, InitiatorDepth: 4, ReceiveDepth: -1} // ReceiveDepth and the other receive limits are ignored
	qp, err := a.CreateQueuePairWithSRQ(spoil(&cfg), cfg)
	if err == nil {
		wantStatus(t, "a receive of its own", qp.Receive(1, nil), ErrNoMoreEntries)
		must(t, qp.Close())
	}
	return err
}

func oneQPWith(t *testing.T, a *Adapter) error {
	s, err := a.CreateSharedReceiveQueue(1, 1, 0)
	must(t, err)
	cq, err := a.CreateCompletionQueue(1)
	must(t, err)
	_, err = a.CreateQueuePairWithSRQ(s, QueuePairConfig{ReceiveCQ: cq, InitiatorCQ: cq})
	return err
}

// notifyPool ends a pending Notify.
func notifyPool(end func(t *testing.T, s *SharedReceiveQueue)) provoke {
	return pooled(func(t *testing.T, s *SharedReceiveQueue) error {
		return endings(t, func() error { return s.Notify(t.Context()) }, func() bool { return s.srq.Waiting() > 0 }, func() { end(t, s) })
	})
}

var poolRows = map[string]provoke{
	"IND2Adapter/CreateSharedReceiveQueue/ND_SUCCESS":                makePool(maxSharedDepth, 16, 1<<30),
	"IND2Adapter/CreateSharedReceiveQueue/ND_INSUFFICIENT_RESOURCES": exhausted(verbs.ObjectSRQ, onePool),
	"IND2Adapter/CreateSharedReceiveQueue/ND_INVALID_PARAMETER_3": func(t *testing.T, r *rig) error {
		wantStatus(t, "too deep", makePool(maxSharedDepth+1, 1, 0)(t, r), ErrInvalidParameterN(3))
		wantStatus(t, "a threshold below zero", makePool(1, 1, -1)(t, r), ErrInvalidParameterN(5))
		return makePool(0, 1, 0)(t, r)
	},
	"IND2Adapter/CreateSharedReceiveQueue/ND_INVALID_PARAMETER_4": makePool(1, 17, 0),
	"IND2Adapter/CreateSharedReceiveQueue/ND_DEVICE_REMOVED":      poolOfRemoved(func(t *testing.T, s *SharedReceiveQueue) error { return onePool(t, s.adapter) }),

	"IND2Adapter/CreateQueuePairWithSrq/ND_SUCCESS": withPool(func(**SharedReceiveQueue, *QueuePairConfig, *rig) {}),
	"IND2Adapter/CreateQueuePairWithSrq/ND_INVALID_PARAMETER_2": withPool(func(_ **SharedReceiveQueue, c *QueuePairConfig, r *rig) {
		c.ReceiveCQ, _ = r.b.CreateCompletionQueue(1)
	}),
	"IND2Adapter/CreateQueuePairWithSrq/ND_INVALID_PARAMETER_3": withPool(func(_ **SharedReceiveQueue, c *QueuePairConfig, _ *rig) { c.InitiatorCQ = nil }),
	"IND2Adapter/CreateQueuePairWithSrq/ND_INVALID_PARAMETER_4": func(t *testing.T, r *rig) error {
		wantStatus(t, "of another adapter", withPool(func(s **SharedReceiveQueue, _ *QueuePairConfig, r *rig) {
			*s, _ = r.b.CreateSharedReceiveQueue(1, 1, 0)
		})(t, r), ErrInvalidParameterN(4))
		wantStatus(t, "closed", withPool(func(s **SharedReceiveQueue, _ *QueuePairConfig, _ *rig) { _ = (*s).Close() })(t, r), ErrInvalidParameterN(4))
		return withPool(func(s **SharedReceiveQueue, _ *QueuePairConfig, _ *rig) { *s = nil })(t, r)
	},
	"IND2Adapter/CreateQueuePairWithSrq/ND_INVALID_PARAMETER_6": withPool(func(_ **SharedReceiveQueue, c *QueuePairConfig, _ *rig) {
		c.InitiatorDepth = maxQueueDepth + 1
	}),
	"IND2Adapter/CreateQueuePairWithSrq/ND_INVALID_PARAMETER_7":    withPool(func(_ **SharedReceiveQueue, c *QueuePairConfig, _ *rig) { c.MaxInitiatorSGE = 17 }),
	"IND2Adapter/CreateQueuePairWithSrq/ND_INVALID_PARAMETER_8":    withPool(func(_ **SharedReceiveQueue, c *QueuePairConfig, _ *rig) { c.InlineSize = maxInline + 1 }),
	"IND2Adapter/CreateQueuePairWithSrq/ND_INSUFFICIENT_RESOURCES": exhausted(verbs.ObjectQP, oneQPWith),
	"IND2Adapter/CreateQueuePairWithSrq/ND_DEVICE_REMOVED": poolOfRemoved(func(_ *testing.T, s *SharedReceiveQueue) error {
		_, err := s.adapter.CreateQueuePairWithSRQ(s, QueuePairConfig{})
		return err
	}),

	"IND2SharedReceiveQueue/GetNotifyAffinity/ND_SUCCESS": pooled(func(t *testing.T, s *SharedReceiveQueue) error {
		list, err := s.NotifyAffinity()
		if len(list) == 0 {
			t.Error("no processor")
		}
		return err
	}),
	"IND2SharedReceiveQueue/GetNotifyAffinity/ND_DEVICE_REMOVED": poolOfRemoved(func(_ *testing.T, s *SharedReceiveQueue) error {
		_, err := s.NotifyAffinity()
		return err
	}),
	"IND2SharedReceiveQueue/Modify/ND_SUCCESS": pooled(func(t *testing.T, s *SharedReceiveQueue) error {
		must(t, s.Modify(2, 0)) // full now
		wantStatus(t, "receive", s.Receive(3, nil), ErrNoMoreEntries)
		must(t, s.Modify(0, 3))
		must(t, s.Notify(t.Context())) // two receives are fewer than three
		must(t, s.Modify(3, 1))
		return s.Receive(3, nil)
	}),
	"IND2SharedReceiveQueue/Modify/ND_INVALID_PARAMETER": pooled(func(t *testing.T, s *SharedReceiveQueue) error {
		wantStatus(t, "a threshold below zero", s.Modify(0, -1), ErrInvalidParameter)
		return s.Modify(maxSharedDepth+1, 0)
	}),
	"IND2SharedReceiveQueue/Modify/ND_BUFFER_OVERFLOW": pooled(func(_ *testing.T, s *SharedReceiveQueue) error { return s.Modify(1, 0) }),
	"IND2SharedReceiveQueue/Modify/ND_DEVICE_REMOVED":  poolOfRemoved(func(_ *testing.T, s *SharedReceiveQueue) error { return s.Modify(1, 1) }),
	"IND2SharedReceiveQueue/Notify/ND_SUCCESS": notifyPool(func(t *testing.T, s *SharedReceiveQueue) {
		must(t, s.Modify(0, 3))
	}),
	"IND2SharedReceiveQueue/Notify/ND_PENDING": pooled(func(t *testing.T, s *SharedReceiveQueue) error {
		return waits(t, func() error { return s.Notify(t.Context()) }, func() bool { return s.srq.Waiting() > 0 }, s.CancelOverlappedRequests)
	}),
	"IND2SharedReceiveQueue/Notify/ND_CANCELED": notifyPool(func(t *testing.T, s *SharedReceiveQueue) { must(t, s.Close()) }),
	"IND2SharedReceiveQueue/Notify/ND_DEVICE_REMOVED": poolOfRemoved(func(t *testing.T, s *SharedReceiveQueue) error {
		return s.Notify(t.Context())
	}),
	"IND2SharedReceiveQueue/Receive/ND_SUCCESS": pooled(func(_ *testing.T, s *SharedReceiveQueue) error { return s.Receive(3, make([]SGE, 4)) }),
	"IND2SharedReceiveQueue/Receive/ND_BUFFER_OVERFLOW": func(t *testing.T, r *rig) error {
		s, err := r.a.CreateSharedReceiveQueue(1, 16, 0)
		must(t, err)
		defer s.Close()
		const part = 64<<20 + 1
		m, err := r.a.RegisterMemory(make([]byte, part), 0)
		must(t, err)
		return s.Receive(1, repeat(m.SGE(0, part), 16))
	},
	"IND2SharedReceiveQueue/Receive/ND_NO_MORE_ENTRIES": pooled(func(t *testing.T, s *SharedReceiveQueue) error {
		must(t, s.Receive(3, nil))
		must(t, s.Receive(4, nil))
		return s.Receive(5, nil)
	}),
	"IND2SharedReceiveQueue/Receive/ND_DATA_OVERRUN": pooled(func(t *testing.T, s *SharedReceiveQueue) error {
		wantStatus(t, "more entries than any", s.Receive(1, make([]SGE, 100)), ErrDataOverrun)
		return s.Receive(1, make([]SGE, 5))
	}),
}

package nd

import (
	"bytes"
	"context"
	"testing"

	"golang.org/x/sys/unix"
)

// watched makes a call on a completion queue of a connection.
func watched(call func(t *testing.T, n *notifyRig) error) provoke {
	return func(t *testing.T, r *rig) error { return call(t, newNotifyRig(t, r)) }
}

// notifyEnds ends a pending Notify.
func notifyEnds(end func(n *notifyRig)) provoke {
	return watched(func(t *testing.T, n *notifyRig) error {
		done := n.notify(NotifyAny)
		n.pending("notify", done)
		end(n)
		return finish(t, "notify", done)
	})
}

// notifyWaits leaves a Notify pending until the end of the test.
func notifyWaits(t *testing.T, n *notifyRig) error {
	q := n.client.cq
	return waits(t, func() error { return q.Notify(t.Context(), NotifyAny) }, func() bool { return q.cq.Waiting() > 0 },
		q.CancelOverlappedRequests)
}

// overrun makes more results than the completion queue of a new end holds.
func overrun(t *testing.T, r *rig) *CompletionQueue {
	client, server := r.ends(t)
	cq, err := r.a.CreateCompletionQueue(1)
	must(t, err)
	client.qp, err = r.a.CreateQueuePair(QueuePairConfig{ReceiveCQ: cq, InitiatorCQ: cq, InitiatorDepth: 8})
	must(t, err)
	r.join(t, client, server)
	done := start(func() error { return cq.Notify(t.Context(), NotifyErrors) })
	eventually(t, "notify", func() bool { return cq.cq.Waiting() > 0 })
	for i := range uint64(4) {
		must(t, client.qp.Write(i, nil, 0, 0, 0))
	}
	wantStatus(t, "waiting", finish(t, "notify", done), ErrBufferOverflow)
	return cq
}

// oneResult leaves one result in a queue.
func oneResult(n *notifyRig) *CompletionQueue {
	n.plain(0)
	return n.client.cq
}

var queueRows = map[string]provoke{
	"IND2Overlapped/CancelOverlappedRequests/ND_SUCCESS": watched(func(t *testing.T, n *notifyRig) error {
		n.client.cq.CancelOverlappedRequests() // no notification is pending
		first, second := n.notify(NotifyAny), n.notify(NotifySolicited)
		n.client.cq.CancelOverlappedRequests()
		wantStatus(t, "first", finish(t, "notify", first), ErrCanceled)
		wantStatus(t, "second", finish(t, "notify", second), ErrCanceled)
		return nil
	}),
	// The call returns the result of the overlapped request.
	"IND2Overlapped/GetOverlappedResult/ND_SUCCESS":        notifyEnds(func(n *notifyRig) { n.plain(0) }),
	"IND2Overlapped/GetOverlappedResult/ND_PENDING":        watched(notifyWaits),
	"IND2Overlapped/GetOverlappedResult/ND_CANCELED":       notifyEnds(func(n *notifyRig) { n.client.cq.CancelOverlappedRequests() }),
	"IND2Overlapped/GetOverlappedResult/ND_DEVICE_REMOVED": removedWhilePending,
	"IND2Overlapped/GetOverlappedResult/OTHER": func(t *testing.T, r *rig) error {
		wantStatus(t, "notify", overrun(t, r).Notify(t.Context(), NotifyAny), ErrBufferOverflow)
		return nil
	},

	"IND2CompletionQueue/GetNotifyAffinity/ND_SUCCESS": watched(func(t *testing.T, n *notifyRig) error {
		list, err := n.client.cq.NotifyAffinity()
		if len(list) == 0 {
			t.Error("no processor")
		}
		return err
	}),
	"IND2CompletionQueue/Resize/ND_SUCCESS": watched(func(t *testing.T, n *notifyRig) error {
		err := oneResult(n).Resize(1)
		n.fetch(1)
		return err
	}),
	"IND2CompletionQueue/Resize/ND_INVALID_PARAMETER": watched(func(t *testing.T, n *notifyRig) error {
		wantStatus(t, "too deep", n.client.cq.Resize(maxCQDepth+1), ErrInvalidParameter)
		return n.client.cq.Resize(0)
	}),
	"IND2CompletionQueue/Resize/ND_BUFFER_OVERFLOW": watched(func(t *testing.T, n *notifyRig) error {
		oneResult(n)
		err := oneResult(n).Resize(1)
		n.fetch(2)
		return err
	}),
	"IND2CompletionQueue/Notify/ND_SUCCESS": notifyEnds(func(n *notifyRig) { n.plain(0) }),
	"IND2CompletionQueue/Notify/ND_PENDING": watched(notifyWaits),
	"IND2CompletionQueue/Notify/ND_BUFFER_OVERFLOW": func(t *testing.T, r *rig) error {
		return overrun(t, r).Notify(t.Context(), NotifyAny)
	},
	"IND2CompletionQueue/Notify/ND_CANCELED": notifyEnds(func(n *notifyRig) { must(n.t, n.client.cq.Close()) }),
	"IND2CompletionQueue/Notify/ND_INVALID_PARAMETER_1": watched(func(t *testing.T, n *notifyRig) error {
		return n.client.cq.Notify(t.Context(), 77)
	}),
	"IND2CompletionQueue/GetResults/(count)": watched(func(t *testing.T, n *notifyRig) error {
		n.fetch(0)
		oneResult(n)
		if got := n.client.cq.GetResults(nil); got != 0 {
			t.Errorf("%d results into an empty slice", got)
		}
		oneResult(n)
		var one [1]Result
		if got := n.client.cq.GetResults(one[:]); got != 1 {
			t.Errorf("%d results into a slice of one", got)
		}
		n.fetch(1)
		return nil
	}),
}

// register makes a region and registers a slice.
func register(buf []byte, flags MRFlags) provoke {
	return func(t *testing.T, r *rig) error {
		m, err := r.a.CreateMemoryRegion()
		must(t, err)
		err = m.Register(buf, flags)
		must(t, m.Close())
		return err
	}
}

var some = make([]byte, 4096)

// readOnly is a page that cannot be written.
func readOnly(t testing.TB) []byte {
	t.Helper()
	b, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON)
	must(t, err)
	t.Cleanup(func() { must(t, unix.Munmap(b)) })
	return b
}

var memoryRows = map[string]provoke{
	"IND2MemoryRegion/Register/ND_SUCCESS":             register(some, knownMRFlags),
	"IND2MemoryRegion/Register/ND_INVALID_BUFFER_SIZE": register(some[:0], 0),
	"IND2MemoryRegion/Register/ND_ACCESS_VIOLATION": func(t *testing.T, r *rig) error {
		return register(readOnly(t), MRAllowRemoteWrite)(t, r)
	},
	"IND2MemoryRegion/Register/ND_INVALID_PARAMETER_3": register(some, 16),
	"IND2MemoryRegion/Register/ND_INVALID_PARAMETER": func(t *testing.T, r *rig) error {
		_, err := r.a.AllocateMemory(maxRegistration+1, 0)
		wantStatus(t, "too long", err, ErrInvalidParameter)
		return register(nil, 0)(t, r)
	},
	"IND2MemoryRegion/Register/ND_INSUFFICIENT_RESOURCES": func(t *testing.T, _ *rig) error {
		r, _ := newLoopRig(t, DatapathUDP)
		m, err := r.a.CreateMemoryRegion()
		must(t, err)
		for range 1 << 17 { // windows and registrations share a table
			if oneWindow(t, r.a) != nil {
				break
			}
		}
		return m.Register(some, 0)
	},
	"IND2MemoryRegion/Register/ND_INVALID_DEVICE_STATE": func(t *testing.T, r *rig) error {
		m, err := r.a.RegisterMemory(some, 0)
		must(t, err)
		err = m.Register(some, 0)
		must(t, m.Close())
		wantStatus(t, "closed", m.Register(some, 0), ErrInvalidDeviceState)
		return err
	},
	"IND2MemoryRegion/Deregister/ND_SUCCESS": func(t *testing.T, r *rig) error {
		m, err := r.a.RegisterMemory(some, 0)
		must(t, err)
		before := m.LocalToken()
		must(t, m.Deregister())
		must(t, m.Register(some, 0))
		if m.LocalToken() == before {
			t.Error("the second registration has the token of the first")
		}
		return m.Deregister()
	},
	"IND2MemoryRegion/Deregister/ND_PENDING": func(t *testing.T, _ *rig) error {
		r, _ := newLoopRig(t, DatapathUDP)
		m, err := r.a.RegisterMemory(some, 0)
		must(t, err)
		var done <-chan error
		r.a.Stall(func() { // packets may be in flight to the memory
			done = start(m.Deregister)
			eventually(t, "it is under way", func() bool {
				free := m.mr.Changing.TryLock()
				if free {
					m.mr.Changing.Unlock()
				}
				return !free
			})
			if len(done) > 0 {
				t.Error("it returned without a call of the engine")
			}
		})
		must(t, finish(t, "deregister", done))
		return pending103
	},
	"IND2MemoryRegion/Deregister/ND_INVALID_DEVICE_STATE": func(t *testing.T, r *rig) error {
		m, err := r.a.CreateMemoryRegion()
		must(t, err)
		return m.Deregister()
	},
	"IND2MemoryRegion/GetLocalToken/(value)": func(t *testing.T, r *rig) error {
		client, server := r.connect(t, 4096)
		other := []SGE{{Buffer: client.mr.Bytes()[:8], Token: client.mr.LocalToken() + 1}}
		must(t, client.qp.Write(1, other, server.mr.Address(), server.mr.RemoteToken(), 0))
		client.wantResult(t, 1, RequestWrite, ErrAccessViolation)
		return nil
	},
	"IND2MemoryRegion/GetRemoteToken/(value)": func(t *testing.T, r *rig) error {
		client, server := r.connect(t, 4096)
		copy(client.mr.Bytes(), "by token")
		must(t, client.qp.Write(1, []SGE{client.mr.SGE(0, 8)}, server.mr.Address(), server.mr.RemoteToken(), 0))
		client.wantResult(t, 1, RequestWrite, StatusSuccess)
		r.b.sync()
		if !bytes.HasPrefix(server.mr.Bytes(), []byte("by token")) {
			t.Errorf("%q", server.mr.Bytes()[:8])
		}
		return nil
	},
}

// removedWhilePending removes the interface during a pending call.
func removedWhilePending(t *testing.T, _ *rig) error {
	r := newRig(t, 1500, DatapathAuto)
	client, _ := r.connect(t, 4096)
	return endings(t, func() error { return client.ctr.NotifyDisconnect(t.Context()) },
		func() bool { return client.ctr.notifications() > 0 }, func() { r.removeInterface(t) })
}

var removedRows = map[string]provoke{
	"IND2Adapter/Query/ND_DEVICE_REMOVED": afterRemoval(func(_ context.Context, e, _ *end, _ *Listener) error {
		_, err := e.cq.adapter.Query()
		return err
	}),
	"IND2Adapter/CreateCompletionQueue/ND_DEVICE_REMOVED": afterRemoval(func(_ context.Context, e, _ *end, _ *Listener) error { return oneCQ(nil, e.cq.adapter) }),
	"IND2Adapter/CreateMemoryRegion/ND_DEVICE_REMOVED": afterRemoval(func(_ context.Context, e, _ *end, _ *Listener) error {
		_, err := e.cq.adapter.CreateMemoryRegion()
		return err
	}),
	"IND2Adapter/CreateQueuePair/ND_DEVICE_REMOVED": afterRemoval(func(_ context.Context, e, _ *end, _ *Listener) error {
		_, err := e.cq.adapter.CreateQueuePair(QueuePairConfig{ReceiveCQ: e.cq, InitiatorCQ: e.cq})
		return err
	}),
	"IND2Adapter/CreateConnector/ND_DEVICE_REMOVED": afterRemoval(func(_ context.Context, e, _ *end, _ *Listener) error { return oneConnector(nil, e.cq.adapter) }),
	"IND2Adapter/CreateListener/ND_DEVICE_REMOVED":  afterRemoval(func(_ context.Context, e, _ *end, _ *Listener) error { return oneListener(nil, e.cq.adapter) }),
	"IND2CompletionQueue/GetNotifyAffinity/ND_DEVICE_REMOVED": afterRemoval(func(_ context.Context, e, _ *end, _ *Listener) error {
		_, err := e.cq.NotifyAffinity()
		return err
	}),
	"IND2CompletionQueue/Resize/ND_DEVICE_REMOVED": afterRemoval(func(_ context.Context, e, _ *end, _ *Listener) error { return e.cq.Resize(10) }),
	"IND2MemoryRegion/Register/ND_DEVICE_REMOVED": afterRemoval(func(_ context.Context, e, _ *end, _ *Listener) error {
		_, err := e.cq.adapter.RegisterMemory(some, 0)
		return err
	}),
	"IND2Connector/Bind/ND_DEVICE_REMOVED":   afterRemoval(func(_ context.Context, _, idle *end, _ *Listener) error { return idle.ctr.Bind(idle.anyPort()) }),
	"IND2Connector/Reject/ND_DEVICE_REMOVED": afterRemoval(func(_ context.Context, e, _ *end, _ *Listener) error { return e.ctr.Reject(nil) }),
	"IND2CompletionQueue/Notify/ND_DEVICE_REMOVED": afterRemoval(func(ctx context.Context, e, _ *end, _ *Listener) error {
		return e.cq.Notify(ctx, NotifyAny)
	}),
	"IND2Connector/Connect/ND_DEVICE_REMOVED": afterRemoval(func(ctx context.Context, _, idle *end, _ *Listener) error {
		return idle.ctr.Connect(ctx, idle.qp, unreachable, ConnectParams{})
	}),
	"IND2Connector/CompleteConnect/ND_DEVICE_REMOVED": afterRemoval(func(ctx context.Context, e, _ *end, _ *Listener) error {
		return e.ctr.CompleteConnect(ctx)
	}),
	"IND2Connector/Accept/ND_DEVICE_REMOVED": afterRemoval(func(ctx context.Context, e, idle *end, _ *Listener) error {
		return e.ctr.Accept(ctx, idle.qp, ConnectParams{})
	}),
	"IND2Connector/Disconnect/ND_DEVICE_REMOVED": afterRemoval(func(ctx context.Context, e, _ *end, _ *Listener) error {
		return e.ctr.Disconnect(ctx)
	}),
	"IND2Listener/GetConnectionRequest/ND_DEVICE_REMOVED": afterRemoval(func(ctx context.Context, _, idle *end, l *Listener) error {
		return l.GetConnectionRequest(ctx, idle.ctr)
	}),
	"IND2Connector/NotifyDisconnect/ND_DEVICE_REMOVED": removedWhilePending,
}

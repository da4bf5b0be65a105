package nd

import (
	"context"
	"testing"

	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// If an object is closed twice, it frees its place among the adapter's objects once.
func TestClosingTwiceGivesOnePlaceBack(t *testing.T) {
	t.Parallel()
	r, _ := newLoopRig(t, DatapathUDP)
	a := r.a
	cq, err := a.CreateCompletionQueue(16)
	must(t, err)
	closers := map[string]struct {
		kind   verbs.ObjectKind
		create func() (interface{ Close() error }, error)
	}{
		"completion queue": {verbs.ObjectCQ, func() (interface{ Close() error }, error) { return a.CreateCompletionQueue(16) }},
		"queue pair": {verbs.ObjectQP, func() (interface{ Close() error }, error) {
			return a.CreateQueuePair(QueuePairConfig{ReceiveCQ: cq, InitiatorCQ: cq, ReceiveDepth: 1, InitiatorDepth: 1})
		}},
		"shared receive queue": {verbs.ObjectSRQ, func() (interface{ Close() error }, error) {
			return a.CreateSharedReceiveQueue(16, 1, 0)
		}},
		"connector":         {verbs.ObjectConnector, func() (interface{ Close() error }, error) { return a.CreateConnector() }},
		"listener":          {verbs.ObjectListener, func() (interface{ Close() error }, error) { return a.CreateListener() }},
		"empty region":      {verbs.ObjectMR, func() (interface{ Close() error }, error) { return a.CreateMemoryRegion() }},
		"registered region": {verbs.ObjectMR, func() (interface{ Close() error }, error) { return a.RegisterMemory(make([]byte, 8), 0) }},
		"memory window":     {verbs.ObjectMW, func() (interface{ Close() error }, error) { return a.CreateMemoryWindow() }},
		"allocated region":  {verbs.ObjectMR, func() (interface{ Close() error }, error) { return a.AllocateMemory(8, 0) }},
	}
	for name, c := range closers {
		before := a.verbs.Objects.Used(c.kind)
		o, err := c.create()
		must(t, err)
		if n := a.verbs.Objects.Used(c.kind); n != before+1 {
			t.Errorf("%s: %d are counted, want %d", name, n, before+1)
		}
		for range 2 {
			if err := o.Close(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if n := a.verbs.Objects.Used(c.kind); n != before {
				t.Errorf("%s: %d are counted after Close, want %d", name, n, before)
			}
		}
	}
}

// Several calls wait for requests. The end of one call's context ends only that call.
func TestContextEndsOneOfSeveralAccepters(t *testing.T) {
	t.Parallel()
	r, _ := newLoopRig(t, DatapathUDP)
	client, one, other := newEnd(t, r.a, 64), newEnd(t, r.b, 64), newEnd(t, r.b, 64)
	l, at := listen(t, r.b, 0)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := start(func() error { return l.GetConnectionRequest(ctx, one.ctr) })
	waitState(t, one.ctr, provider.CtrWaitReq)
	second := start(func() error { return l.GetConnectionRequest(t.Context(), other.ctr) })
	waitState(t, other.ctr, provider.CtrWaitReq)
	cancel()
	wantStatus(t, "the one that was canceled", finish(t, "the one that was canceled", first), ErrCanceled)
	if s := other.ctr.state(); s != provider.CtrWaitReq {
		t.Errorf("the other is %v", s)
	}
	connected := start(func() error { return client.ctr.Connect(t.Context(), client.qp, at, helloParams) })
	must(t, finish(t, "the other", second))
	must(t, other.ctr.Reject(nil))
	wantStatus(t, "connect", finish(t, "connect", connected), ErrConnectionRefused)
}

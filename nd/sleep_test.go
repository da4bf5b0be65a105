package nd

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// If an adapter is closed, every sleeping call returns at once, however many there are.
func TestCloseBesideManySleepers(t *testing.T) {
	t.Parallel()
	const sleepers = 1000
	for _, datapath := range []Datapath{DatapathGeneric, DatapathUDP} {
		r := newRig(t, 1500, datapath)
		_, server := r.connect(t, 4096)
		ends := make([]<-chan error, 0, sleepers+1)
		queues := make([]*CompletionQueue, sleepers)
		for i := range queues {
			var err error
			queues[i], err = r.b.CreateCompletionQueue(1)
			must(t, err)
			ends = append(ends, start(func() error { return queues[i].Notify(t.Context(), NotifyAny) }))
		}
		ends = append(ends, start(func() error { return server.ctr.NotifyDisconnect(t.Context()) }))
		for _, q := range queues {
			eventually(t, "sleeps", func() bool { return q.cq.Waiting() == 1 })
		}
		eventually(t, "sleeps", func() bool { return server.ctr.notifications() == 1 })
		must(t, r.b.Close())
		for _, end := range ends {
			wantStatus(t, "sleeper", finish(t, "sleeper", end), ErrDeviceRemoved)
		}
	}
}

// The end of a context wakes the sleeper that waits for packets, and others that wait beside it. The object can be used again, with
// the same or another context.
func TestContextsOfSleepers(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1500, DatapathAuto)
	client, _ := r.connect(t, 4096)
	ctx, cancel := context.WithCancel(t.Context())
	one := start(func() error { return client.cq.Notify(ctx, NotifyAny) })
	eventually(t, "one sleeps", func() bool { return client.cq.cq.Waiting() == 1 })
	two := start(func() error { return client.cq.Notify(ctx, NotifyAny) })
	other := start(func() error { return client.cq.Notify(t.Context(), NotifyAny) })
	eventually(t, "all sleep", func() bool { return client.cq.cq.Waiting() == 3 })
	cancel()
	wantStatus(t, "one", finish(t, "one", one), ErrCanceled)
	wantStatus(t, "two", finish(t, "two", two), ErrCanceled)
	wantStatus(t, "again", client.cq.Notify(ctx, NotifyAny), ErrCanceled)
	must(t, client.qp.Write(1, nil, 0, 0, 0))
	wantStatus(t, "other", finish(t, "other", other), StatusSuccess)
	short, done := context.WithTimeout(t.Context(), time.Millisecond)
	defer done()
	wantStatus(t, "short", client.cq.Notify(short, NotifyAny), ErrCanceled)
}

// Sleep allocates nothing, also with a context that can end.
func TestSleepAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	r := newRig(t, 1500, DatapathAuto)
	client, _ := r.connect(t, 4096)
	var res [4]Result
	round := func() {
		must(t, client.qp.Write(1, nil, 0, 0, 0))
		for client.cq.GetResults(res[:]) == 0 {
			must(t, client.cq.Notify(t.Context(), NotifyAny))
		}
	}
	for range 100 {
		round()
	}
	least := math.Inf(1)
	for range 5 { // an adapter that receives an interface event meanwhile reads all addresses, once
		least = min(least, testing.AllocsPerRun(200, round))
	}
	if least >= 1 {
		t.Errorf("%v allocations for each sleep", least)
	}
}

// registering is a context that counts the functions registered for its end.
type registering struct {
	context.Context
	done   chan struct{}
	active atomic.Int32
}

func (c *registering) Done() <-chan struct{} { return c.done }

func (c *registering) AfterFunc(func()) func() bool {
	c.active.Add(1)
	var once sync.Once
	return func() (stopped bool) {
		once.Do(func() {
			c.active.Add(-1)
			stopped = true
		})
		return stopped
	}
}

// A program may use one context for its whole life, so finished calls leave nothing registered with it.
func TestCallsLeaveNothingWithTheirContext(t *testing.T) {
	r := newRig(t, 1500, DatapathAuto)
	ctx := &registering{Context: t.Context(), done: make(chan struct{})}
	l, at := listen(t, r.b, 0)
	client := newEnd(t, r.a, 4096)
	connected := start(func() error { return client.ctr.Connect(ctx, client.qp, at, ConnectParams{}) })
	server := newEnd(t, r.b, 4096)
	must(t, l.GetConnectionRequest(ctx, server.ctr))
	accepted := start(func() error { return server.ctr.Accept(ctx, server.qp, ConnectParams{}) })
	must(t, finish(t, "connect", connected))
	must(t, client.ctr.CompleteConnect(ctx))
	must(t, finish(t, "accept", accepted))
	if n := ctx.active.Load(); n != 0 {
		t.Errorf("%d calls are registered with their context after they ended", n)
	}
}

// calling is a context that calls its registered functions itself.
type calling struct {
	registering
	heard chan func()
	err   atomic.Pointer[error]
}

func (c *calling) AfterFunc(f func()) func() bool {
	c.heard <- f
	return c.registering.AfterFunc(f)
}

func (c *calling) Err() error {
	if err := c.err.Load(); err != nil {
		return *err
	}
	return nil
}

// Such a context ends a sleep without a goroutine. The next sleep can use it again.
func TestContextsThatCallThemselves(t *testing.T) {
	r := newRig(t, 1500, DatapathAuto)
	client, _ := r.connect(t, 4096)
	ctx := &calling{registering: registering{Context: t.Context(), done: make(chan struct{})}, heard: make(chan func(), 1)}
	for range 3 {
		ctx.err.Store(nil)
		waits := start(func() error { return client.cq.Notify(ctx, NotifyAny) })
		interrupt := <-ctx.heard
		ctx.err.Store(&context.Canceled)
		interrupt()
		wantStatus(t, "notify", finish(t, "notify", waits), ErrCanceled)
	}
	if n := ctx.active.Load(); n != 0 {
		t.Errorf("%d sleeps are registered with their context after they ended", n)
	}
}

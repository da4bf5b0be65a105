package nd

import (
	"context"
	"sync"
	"testing"

	"github.com/ndxdp/ndxdp/provider"
)

// lateContext is a context whose Err method waits for another event, so that the event happens while the context ends.
type lateContext struct {
	context.Context
	once      sync.Once
	meanwhile func()
}

func (c *lateContext) Err() error {
	err := c.Context.Err()
	if err != nil {
		c.once.Do(c.meanwhile)
	}
	return err
}

// newLateContext returns a context and the function that ends it.
func newLateContext(t *testing.T, meanwhile func()) (context.Context, func()) {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return &lateContext{Context: ctx, meanwhile: meanwhile}, cancel
}

// If a context ends after its call has ended, it does not affect the connector's next call: here a Disconnect that has begun
// meanwhile.
func TestContextThatEndsLateLeavesTheNextCallAlone(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	client, server, _ := r.requested(t)
	var ended <-chan error
	ctx, end := newLateContext(t, func() {
		waitState(t, client.ctr, provider.CtrAccepted)
		must(t, client.ctr.CompleteConnect(t.Context()))
		waitState(t, server.ctr, provider.CtrEstablished)
		ended = start(func() error { return server.ctr.Disconnect(t.Context()) })
		waitState(t, server.ctr, provider.CtrDisconnecting)
	})
	accepted := start(func() error { return server.ctr.Accept(ctx, server.qp, ConnectParams{}) })
	waitState(t, server.ctr, provider.CtrAccepting)
	end()
	wantStatus(t, "accept", finish(t, "accept", accepted), StatusSuccess)
	wantStatus(t, "disconnect of the peer", client.ctr.Disconnect(t.Context()), StatusSuccess)
	wantStatus(t, "disconnect", finish(t, "disconnect", ended), StatusSuccess)
}

// If the context of a GetConnectionRequest ends after its call has ended, the connector can wait for a request again.
func TestContextThatEndsLateLeavesTheNextRequestAlone(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	client, server := r.ends(t)
	l, at := listen(t, r.b, 0)
	var next <-chan error
	ctx, end := newLateContext(t, func() {
		l.CancelOverlappedRequests()
		next = start(func() error { return l.GetConnectionRequest(t.Context(), server.ctr) })
		waitState(t, server.ctr, provider.CtrWaitReq)
	})
	first := start(func() error { return l.GetConnectionRequest(ctx, server.ctr) })
	waitState(t, server.ctr, provider.CtrWaitReq)
	end()
	wantStatus(t, "the request before", finish(t, "the request before", first), ErrCanceled)
	_ = start(func() error { return client.ctr.Connect(t.Context(), client.qp, at, ConnectParams{}) })
	wantStatus(t, "the next request", finish(t, "the next request", next), StatusSuccess)
}

package nd

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider"
)

// While the neighbour is being resolved, which takes 3 s here, Connect is pending as usual (state table, Connecting).

// resolves makes an end connect to an address that no host has, and returns when the resolution has begun.
func resolves(t *testing.T, e *end) <-chan error {
	t.Helper()
	done := start(func() error { return e.ctr.Connect(t.Context(), e.qp, unreachable, helloParams) })
	waitResolving(t, e.ctr)
	return done
}

func TestQueuePairClosedWhileResolving(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	e, other := newEnd(t, r.a, 64), newEnd(t, r.a, 64)
	began := time.Now()
	connected := resolves(t, e)
	must(t, e.qp.Close())
	wantStatus(t, "connect", finish(t, "connect", connected), ErrCanceled)
	if took := time.Since(began); took > 2500*time.Millisecond {
		t.Errorf("it took %v: it waited for the search", took)
	}
	wantStatus(t, "connect again", e.ctr.Connect(t.Context(), other.qp, unreachable, helloParams), ErrConnectionInvalid) // C16: Done
}

func TestQueuePairIsTakenWhileResolving(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	e, other := newEnd(t, r.a, 64), newEnd(t, r.a, 64)
	connected := resolves(t, e)
	wantStatus(t, "second connect", other.ctr.Connect(t.Context(), e.qp, unreachable, helloParams), ErrConnectionActive)
	if s := e.qp.qp.State(); s != provider.QPAttached {
		t.Errorf("queue pair %v, want attached", s)
	}
	e.ctr.CancelOverlappedRequests()
	wantStatus(t, "connect", finish(t, "connect", connected), ErrCanceled)
	if s := e.qp.qp.State(); s != provider.QPIdle {
		t.Errorf("queue pair %v after the attempt, want idle", s)
	}
}

func TestLocalAddressWhileResolving(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	e := newEnd(t, r.a, 64)
	must(t, e.ctr.Bind(netip.AddrPortFrom(r.addr[0], 7411)))
	connected := resolves(t, e)
	if at, err := e.ctr.LocalAddress(); err != nil || at != netip.AddrPortFrom(r.addr[0], 7411) {
		t.Errorf("local address %v, %v", at, err)
	}
	_, err := e.ctr.PeerAddress()
	wantStatus(t, "peer address", err, ErrConnectionInvalid) // C18
	must(t, e.ctr.Close())
	wantStatus(t, "connect", finish(t, "connect", connected), ErrCanceled)
	_, err = e.ctr.LocalAddress()
	wantStatus(t, "local address", err, ErrConnectionInvalid)
}

// A connector that never had a peer reports none.
func TestNeverConnectedKnowsNothing(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	for name, end := range map[string]func(t *testing.T, e *end){
		"idle": func(*testing.T, *end) {},
		"closed idle": func(t *testing.T, e *end) {
			must(t, e.ctr.Close())
		},
		"canceled while resolving": func(t *testing.T, e *end) {
			connected := resolves(t, e)
			e.ctr.CancelOverlappedRequests()
			wantStatus(t, "connect", finish(t, "connect", connected), ErrCanceled)
		},
		"given up while resolving": func(t *testing.T, e *end) {
			ctx, cancel := context.WithCancel(t.Context())
			connected := start(func() error { return e.ctr.Connect(ctx, e.qp, unreachable, helloParams) })
			waitResolving(t, e.ctr)
			cancel()
			wantStatus(t, "connect", finish(t, "connect", connected), ErrCanceled)
		},
		"canceled while the peer thinks": func(t *testing.T, e *end) {
			_, at := listen(t, r.b, 0)
			connected := start(func() error { return e.ctr.Connect(t.Context(), e.qp, at, helloParams) })
			eventually(t, "answered", func() (yes bool) {
				e.ctr.do(func(*provider.Engine) { yes = e.ctr.k.Answered() })
				return yes
			})
			e.ctr.CancelOverlappedRequests()
			wantStatus(t, "connect", finish(t, "connect", connected), ErrCanceled)
		},
		"no route": func(t *testing.T, e *end) {
			err := e.ctr.Connect(t.Context(), e.qp, netip.MustParseAddrPort("192.0.2.1:7000"), helloParams)
			wantStatus(t, "connect", err, ErrNetworkUnreachable)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnd(t, r.a, 64)
			end(t, e)
			_, _, err := e.ctr.ReadLimits()
			wantStatus(t, "read limits", err, ErrConnectionInvalid)
			_, err = e.ctr.PrivateData()
			wantStatus(t, "private data", err, ErrConnectionInvalid)
			_, err = e.ctr.GetPrivateData(make([]byte, 64))
			wantStatus(t, "get private data", err, ErrConnectionInvalid)
		})
	}
}

// The private data of a rejection are forgotten with the next attempt, also if that attempt reaches no peer.
func TestRejectionIsForgottenByTheNextAttempt(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	client, server := newEnd(t, r.a, 64), newEnd(t, r.b, 64)
	connected := r.pendingConnect(t, client, server)
	must(t, server.ctr.Reject([]byte("not today")))
	wantStatus(t, "connect", finish(t, "connect", connected), ErrConnectionRefused)
	wantPrivate(t, client.ctr, []byte("not today"))
	err := client.ctr.Connect(t.Context(), client.qp, netip.MustParseAddrPort("192.0.2.1:7000"), helloParams)
	wantStatus(t, "connect again", err, ErrNetworkUnreachable)
	_, err = client.ctr.PrivateData()
	wantStatus(t, "private data", err, ErrConnectionInvalid)
}

// When a Connect has returned, its resolution is over: the next Connect on the same connector starts its own.
func TestConnectAgainAfterNoNeighbour(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	client, server := newEnd(t, r.a, 64), newEnd(t, r.b, 64)
	wantStatus(t, "connect", client.ctr.Connect(t.Context(), client.qp, unreachable, helloParams), ErrHostUnreachable)
	if s := client.ctr.state(); s != provider.CtrBound {
		t.Errorf("connector %v, want bound (C12)", s)
	}
	r.join(t, client, server)
}

package nd

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/ndxdp/ndxdp/provider"
)

// pending is a call that waits for an event that does not come by itself.
type pending struct {
	name string
	// begin brings the ends to the state in which the call waits. It returns the call, and the functions that cancel it and close
	// its object.
	begin func(t *testing.T, r *rig, client, server *end) waiting
}

type waiting struct {
	call    func(ctx context.Context) error
	pends   func() bool // reports whether the call waits already
	adapter *Adapter
	cancel  func()
	closeIt func() error
}

// unreachable is an address on the rig's network that no host has.
var unreachable = netip.MustParseAddrPort("10.99.0.77:7000")

var pendings = []pending{
	{name: "Connect resolving", begin: func(t *testing.T, r *rig, client, _ *end) waiting {
		return waiting{
			call: func(ctx context.Context) error {
				return client.ctr.Connect(ctx, client.qp, unreachable, ConnectParams{})
			},
			pends:   func() bool { return client.ctr.state() == provider.CtrConnecting },
			adapter: r.a, cancel: client.ctr.CancelOverlappedRequests, closeIt: client.ctr.Close,
		}
	}},
	{name: "Connect", begin: func(t *testing.T, r *rig, client, server *end) waiting {
		_, at := listen(t, r.b, 0)
		return waiting{
			call:    func(ctx context.Context) error { return client.ctr.Connect(ctx, client.qp, at, ConnectParams{}) },
			pends:   func() bool { return client.ctr.state() == provider.CtrConnecting },
			adapter: r.a, cancel: client.ctr.CancelOverlappedRequests, closeIt: client.ctr.Close,
		}
	}},
	{name: "Accept", begin: func(t *testing.T, r *rig, client, server *end) waiting {
		r.pendingConnect(t, client, server)
		return waiting{
			call:    func(ctx context.Context) error { return server.ctr.Accept(ctx, server.qp, ConnectParams{}) },
			pends:   func() bool { return server.ctr.state() == provider.CtrAccepting },
			adapter: r.b, cancel: server.ctr.CancelOverlappedRequests, closeIt: server.ctr.Close,
		}
	}},
	{name: "CompleteConnect", begin: beginCompleteConnect},
	{name: "GetConnectionRequest", begin: func(t *testing.T, r *rig, _, server *end) waiting {
		l, _ := listen(t, r.b, 0)
		return waiting{
			call:    func(ctx context.Context) error { return l.GetConnectionRequest(ctx, server.ctr) },
			pends:   func() bool { return server.ctr.state() == provider.CtrWaitReq },
			adapter: r.b, cancel: l.CancelOverlappedRequests, closeIt: l.Close,
		}
	}},
	{name: "GetConnectionRequest, connector closed", begin: func(t *testing.T, r *rig, _, server *end) waiting {
		l, _ := listen(t, r.b, 0)
		return waiting{
			call:    func(ctx context.Context) error { return l.GetConnectionRequest(ctx, server.ctr) },
			pends:   func() bool { return server.ctr.state() == provider.CtrWaitReq },
			adapter: r.b, cancel: l.CancelOverlappedRequests, closeIt: server.ctr.Close,
		}
	}},
	{name: "Notify", begin: func(t *testing.T, r *rig, client, _ *end) waiting {
		return waiting{
			call:    func(ctx context.Context) error { return client.cq.Notify(ctx, NotifyAny) },
			pends:   func() bool { return client.cq.cq.Waiting() > 0 },
			adapter: r.a, cancel: client.cq.CancelOverlappedRequests, closeIt: client.cq.Close,
		}
	}},
	{name: "NotifyDisconnect", begin: func(t *testing.T, r *rig, client, server *end) waiting {
		r.join(t, client, server)
		return waiting{
			call:    client.ctr.NotifyDisconnect,
			pends:   func() bool { return client.ctr.notifications() > 0 },
			adapter: r.a, cancel: client.ctr.CancelOverlappedRequests, closeIt: client.ctr.Close,
		}
	}},
	{name: "Disconnect", begin: func(t *testing.T, r *rig, client, server *end) waiting {
		r.join(t, client, server)
		return waiting{
			call:    client.ctr.Disconnect,
			pends:   func() bool { return client.ctr.state() == provider.CtrDisconnecting },
			adapter: r.a, cancel: client.ctr.CancelOverlappedRequests, closeIt: client.ctr.Close,
		}
	}},
}

// beginCompleteConnect makes CompleteConnect wait: the peer's link is down when the last message of the handshake leaves.
func beginCompleteConnect(t *testing.T, r *rig, client, server *end) waiting {
	connected := r.pendingConnect(t, client, server)
	start(func() error { return server.ctr.Accept(t.Context(), server.qp, ConnectParams{}) })
	must(t, finish(t, "connect", connected))
	r.setLink(t, r.pair.B, false)
	t.Cleanup(func() { r.setLink(t, r.pair.B, true) })
	return waiting{
		call:    client.ctr.CompleteConnect,
		pends:   func() bool { return client.ctr.state() == provider.CtrCompleting },
		adapter: r.a, cancel: client.ctr.CancelOverlappedRequests, closeIt: client.ctr.Close,
	}
}

func (c *Connector) notifications() (n int) {
	c.do(func(*provider.Engine) { n = c.k.Notifications() })
	return n
}

// run starts the call in the background and returns when it waits.
func (p *pending) run(t *testing.T, r *rig, ctx context.Context) (waiting, <-chan error) {
	t.Helper()
	client, server := newEnd(t, r.a, 4096), newEnd(t, r.b, 4096)
	w := p.begin(t, r, client, server)
	done := start(func() error { return w.call(ctx) })
	eventually(t, p.name+" pending", w.pends)
	return w, done
}

func TestContextEndsPendingCall(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1500, DatapathAuto)
	for _, p := range pendings {
		t.Run(p.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			_, done := p.run(t, r, ctx)
			why := errors.New("the reason")
			cancel(why)
			err := finish(t, p.name, done)
			wantStatus(t, p.name, err, ErrCanceled)
			if !errors.Is(err, why) {
				t.Errorf("%v does not wrap the context's cause", err)
			}
			wantOneLine(t, err)
		})
	}
}

func TestCancelOverlappedRequestsEndsPendingCall(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1500, DatapathAuto)
	for _, p := range pendings {
		t.Run(p.name, func(t *testing.T) {
			w, done := p.run(t, r, t.Context())
			w.cancel()
			wantStatus(t, p.name, finish(t, p.name, done), ErrCanceled)
			w.cancel() // without a pending call cancel has no effect
		})
	}
}

func TestCloseEndsPendingCall(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1500, DatapathAuto)
	for _, p := range pendings {
		t.Run(p.name, func(t *testing.T) {
			w, done := p.run(t, r, t.Context())
			must(t, w.closeIt())
			wantStatus(t, p.name, finish(t, p.name, done), ErrCanceled)
			must(t, w.closeIt())
		})
	}
}

// The close of an adapter ends all its pending calls at once.
func TestAdapterCloseEndsPendingCalls(t *testing.T) {
	t.Parallel()
	endPending(t, func(a *Adapter) { must(t, a.Close()) })
}

// If an engine panics and the panic is recovered, pending calls end. They do not hang on an engine that does not run.
func TestEnginePanicEndsPendingCalls(t *testing.T) {
	t.Parallel()
	endPending(t, func(a *Adapter) {
		defer func() {
			if why := recover(); why != "boom" {
				t.Errorf("the goroutine that ran the engine got %v, want its panic", why)
			}
			_, err := a.CreateConnector()
			wantStatus(t, "create a connector", err, ErrDeviceRemoved)
		}()
		a.Stall(func() { panic("boom") })
	})
}

// endPending makes all calls wait, and ends one of the adapters.
func endPending(t *testing.T, end func(*Adapter)) {
	for _, side := range []string{"a", "b"} {
		r := newRig(t, 1500, DatapathAuto)
		adapter := map[string]*Adapter{"a": r.a, "b": r.b}[side]
		var names []string
		var calls []<-chan error
		for _, p := range pendings {
			if p.name == "CompleteConnect" {
				continue // this call would take the link down for all calls
			}
			w, done := p.run(t, r, t.Context())
			if w.adapter == adapter {
				names, calls = append(names, p.name), append(calls, done)
			}
		}
		end(adapter)
		for i, done := range calls {
			wantStatus(t, names[i], finish(t, names[i], done), ErrDeviceRemoved)
		}
		must(t, adapter.Close())
	}
}

func TestAdapterCloseEndsCompleteConnect(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1500, DatapathAuto)
	p := pending{name: "CompleteConnect", begin: beginCompleteConnect}
	w, done := p.run(t, r, t.Context())
	must(t, w.adapter.Close())
	wantStatus(t, p.name, finish(t, p.name, done), ErrDeviceRemoved)
}

// The end of one caller's context ends only that call, and not another caller's wait for the end of the connection.
func TestContextOfDisconnectLeavesNotifyDisconnectAlone(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	client, _ := r.connect(t, 4096)
	notified := start(func() error { return client.ctr.NotifyDisconnect(t.Context()) })
	eventually(t, "notification", func() bool { return client.ctr.notifications() == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	ended := start(func() error { return client.ctr.Disconnect(ctx) })
	waitState(t, client.ctr, provider.CtrDisconnecting)
	cancel()
	wantStatus(t, "disconnect", finish(t, "disconnect", ended), ErrCanceled)
	wantStatus(t, "notify disconnect", finish(t, "notify disconnect", notified), StatusSuccess)
}

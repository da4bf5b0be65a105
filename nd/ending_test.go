package nd

import (
	"testing"

	"github.com/ndxdp/ndxdp/provider"
)

// disconnectBoth ends a connection gracefully, the first end first.
func disconnectBoth(t testing.TB, first, second *end) {
	t.Helper()
	ended := start(func() error { return first.ctr.Disconnect(t.Context()) })
	waitState(t, second.ctr, provider.CtrPeerGone)
	must(t, second.ctr.Disconnect(t.Context()))
	must(t, finish(t, "disconnect", ended))
}

func TestDisconnectEitherSideFirst(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	for _, name := range []string{"active first", "passive first"} {
		t.Run(name, func(t *testing.T) {
			client, server := r.connect(t, 4096)
			first, second := client, server
			if name == "passive first" {
				first, second = server, client
			}
			must(t, first.qp.Receive(1, []SGE{first.mr.SGE(0, 8)}))
			must(t, second.qp.Receive(2, []SGE{second.mr.SGE(0, 8)}))
			notified := start(func() error { return second.ctr.NotifyDisconnect(t.Context()) })
			ended := start(func() error { return first.ctr.Disconnect(t.Context()) })
			wantStatus(t, "notify disconnect", finish(t, "notify disconnect", notified), StatusSuccess)
			first.wantResult(t, 1, RequestReceive, ErrCanceled)
			second.wantNoResult(t) // the peer's DREQ flushes nothing (8.2)
			if first.ctr.state() != provider.CtrDisconnecting {
				t.Errorf("the first to disconnect is %v before the other did", first.ctr.state())
			}
			wantStatus(t, "notify disconnect later", second.ctr.NotifyDisconnect(t.Context()), StatusSuccess)
			must(t, second.ctr.Disconnect(t.Context()))
			must(t, finish(t, "disconnect", ended))
			second.wantResult(t, 2, RequestReceive, ErrCanceled)
			for _, e := range []*end{first, second} {
				wantStatus(t, "disconnect again", e.ctr.Disconnect(t.Context()), ErrConnectionInvalid)
				wantStatus(t, "write", e.qp.Write(3, nil, 0, 0, 0), ErrConnectionInvalid)
				_, err := e.ctr.PeerAddress()
				wantStatus(t, "peer address", err, ErrConnectionInvalid)
				// Q13, Q14: a receive completes at once, and the queue pair cannot be used again.
				must(t, e.qp.Receive(4, nil))
				e.wantResult(t, 4, RequestReceive, ErrCanceled)
				other := newEnd(t, e.ctr.adapter, 4096)
				err = other.ctr.Connect(t.Context(), e.qp, unreachable, ConnectParams{})
				wantStatus(t, "connect with a spent queue pair", err, ErrInvalidDeviceState)
			}
		})
	}
}

func TestDisconnectBothAtOnce(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	for range 20 {
		client, server := r.connect(t, 4096)
		one := start(func() error { return client.ctr.Disconnect(t.Context()) })
		two := start(func() error { return server.ctr.Disconnect(t.Context()) })
		must(t, finish(t, "disconnect", one))
		must(t, finish(t, "disconnect", two))
	}
}

func TestCallsBeforeConnected(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	client, server := newEnd(t, r.a, 4096), newEnd(t, r.b, 4096)
	invalid := func(when string, c *Connector, but ...string) {
		t.Helper()
		calls := map[string]func() error{
			"complete connect":  func() error { return c.CompleteConnect(t.Context()) },
			"accept":            func() error { return c.Accept(t.Context(), newEnd(t, c.adapter, 64).qp, ConnectParams{}) },
			"reject":            func() error { return c.Reject(nil) },
			"disconnect":        func() error { return c.Disconnect(t.Context()) },
			"notify disconnect": func() error { return c.NotifyDisconnect(t.Context()) },
			"private data":      func() error { _, err := c.PrivateData(); return err },
			"read limits":       func() error { _, _, err := c.ReadLimits(); return err },
			"local address":     func() error { _, err := c.LocalAddress(); return err },
			"peer address":      func() error { _, err := c.PeerAddress(); return err },
		}
		for _, name := range but {
			delete(calls, name)
		}
		for name, call := range calls {
			wantStatus(t, when+": "+name, call(), ErrConnectionInvalid)
		}
	}
	invalid("idle", client.ctr)
	connected := r.pendingConnect(t, client, server)
	known := []string{"private data", "read limits", "local address", "peer address"}
	invalid("connecting", client.ctr, "local address")
	invalid("requested", server.ctr, append(known, "accept", "reject")...)
	wantStatus(t, "connect when requested", server.ctr.Connect(t.Context(), server.qp, unreachable, ConnectParams{}), ErrConnectionInvalid)
	accepted := start(func() error { return server.ctr.Accept(t.Context(), server.qp, ConnectParams{}) })
	must(t, finish(t, "connect", connected))
	invalid("accepting", server.ctr, known...)
	invalid("accepted", client.ctr, append(known, "complete connect", "reject")...)
	must(t, client.ctr.CompleteConnect(t.Context()))
	must(t, finish(t, "accept", accepted))
	invalid("established", client.ctr, append(known, "disconnect", "notify disconnect")...)
	wantAddresses(t, client.ctr, server.ctr)
	disconnectBoth(t, client, server)
	invalid("done", client.ctr, "private data", "read limits")
}

// wantAddresses checks that each side reports the same addresses for both sides.
func wantAddresses(t *testing.T, one, two *Connector) {
	t.Helper()
	for _, c := range [][2]*Connector{{one, two}, {two, one}} {
		local, err := c[0].LocalAddress()
		must(t, err)
		peer, err := c[1].PeerAddress()
		must(t, err)
		if local != peer || !local.IsValid() || local.Port() == 0 {
			t.Errorf("one side has the local address %v, the other has the peer address %v", local, peer)
		}
	}
}

// If a connector or a queue pair is closed while it is connected, the connection ends for both sides (3.1).
func TestCloseWhileConnected(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	for _, c := range []struct {
		name  string
		close func(*end) error
	}{
		{"connector", func(e *end) error { return e.ctr.Close() }},
		{"queue pair", func(e *end) error { return e.qp.Close() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, server := r.connect(t, 4096)
			must(t, server.qp.Receive(1, []SGE{server.mr.SGE(0, 8)}))
			must(t, client.qp.Receive(2, []SGE{client.mr.SGE(0, 8)}))
			notified := start(func() error { return server.ctr.NotifyDisconnect(t.Context()) })
			eventually(t, "notification", func() bool { return server.ctr.notifications() == 1 })
			must(t, c.close(client))
			must(t, finish(t, "notify disconnect", notified))
			server.wantResult(t, 1, RequestReceive, ErrCanceled)
			client.wantResult(t, 2, RequestReceive, ErrCanceled)
			waitState(t, server.ctr, provider.CtrLost)
			wantStatus(t, "disconnect", server.ctr.Disconnect(t.Context()), ErrConnectionInvalid)
			// Q11: posts succeed, and the requests are canceled.
			must(t, server.qp.Write(3, []SGE{server.mr.SGE(0, 8)}, 0, 0, 0))
			server.wantResult(t, 3, RequestWrite, ErrCanceled)
			must(t, c.close(client))
		})
	}
}

func TestUseAfterClose(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	client, server := r.connect(t, 4096)
	l, _ := listen(t, r.a, 0)
	sge := client.mr.SGE(0, 8)
	for range 2 { // closing twice is harmless
		for _, close := range []func() error{client.qp.Close, client.cq.Close, client.mr.Close, client.ctr.Close, l.Close} {
			must(t, close())
		}
	}
	wantStatus(t, "send", client.qp.Send(1, []SGE{sge}, 0), ErrConnectionInvalid)
	must(t, client.qp.Receive(2, []SGE{sge}))
	client.wantResultPolling(t, 2, RequestReceive, ErrCanceled)
	client.qp.Flush()
	wantStatus(t, "notify", client.cq.Notify(t.Context(), NotifyAny), ErrCanceled)
	e := newEnd(t, r.a, 64)
	wantStatus(t, "connect with a closed queue pair", e.ctr.Connect(t.Context(), client.qp, unreachable, ConnectParams{}), ErrInvalidDeviceState)
	wantStatus(t, "connect", client.ctr.Connect(t.Context(), e.qp, unreachable, ConnectParams{}), ErrConnectionInvalid)
	wantStatus(t, "listen", l.Listen(0), ErrInvalidDeviceState)
	wantStatus(t, "request", l.GetConnectionRequest(t.Context(), e.ctr), ErrInvalidDeviceState)
	waitState(t, server.ctr, provider.CtrLost)
}

// wantResultPolling is wantResult without Notify.
func (e *end) wantResultPolling(t testing.TB, context uint64, kind RequestType, want Status) {
	t.Helper()
	var res [1]Result
	eventually(t, "result", func() bool { return e.cq.GetResults(res[:]) == 1 })
	if r := res[0]; r.RequestID != context || r.Type != kind || r.Status != want {
		t.Fatalf("result %+v, want context %d, %s, %s", r, context, kind, want.Name())
	}
}

func TestUseAfterAdapterClose(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1500, DatapathAuto)
	client, server := r.connect(t, 4096)
	idle := newEnd(t, r.a, 64)
	l, _ := listen(t, r.a, 0)
	must(t, client.qp.Receive(1, []SGE{client.mr.SGE(0, 8)}))
	must(t, r.a.Close())
	client.wantResultPolling(t, 1, RequestReceive, ErrCanceled) // earlier results stay in the queue
	removed := map[string]func() error{
		"completion queue":  func() error { _, err := r.a.CreateCompletionQueue(1); return err },
		"queue pair":        func() error { _, err := r.a.CreateQueuePair(QueuePairConfig{}); return err },
		"connector":         func() error { _, err := r.a.CreateConnector(); return err },
		"listener":          func() error { _, err := r.a.CreateListener(); return err },
		"register":          func() error { _, err := r.a.RegisterMemory(make([]byte, 1), 0); return err },
		"allocate":          func() error { _, err := r.a.AllocateMemory(1, 0); return err },
		"bind":              func() error { return idle.ctr.Bind(idle.anyPort()) },
		"bind elsewhere":    func() error { return idle.ctr.Bind(unreachable) },
		"listener's bind":   func() error { return l.Bind(unreachable) },
		"accept of nothing": func() error { return idle.ctr.Accept(t.Context(), nil, ConnectParams{}) },
		"connect":           func() error { return idle.ctr.Connect(t.Context(), idle.qp, unreachable, ConnectParams{}) },
		"complete":          func() error { return client.ctr.CompleteConnect(t.Context()) },
		"reject":            func() error { return client.ctr.Reject(nil) },
		"disconnect":        func() error { return client.ctr.Disconnect(t.Context()) },
		"notify disconnect": func() error { return client.ctr.NotifyDisconnect(t.Context()) },
		"private data":      func() error { _, err := client.ctr.PrivateData(); return err },
		"address":           func() error { _, err := client.ctr.PeerAddress(); return err },
		"listen":            func() error { return l.Listen(0) },
		"request":           func() error { return l.GetConnectionRequest(t.Context(), idle.ctr) },
		"notify":            func() error { return client.cq.Notify(t.Context(), NotifyAny) },
		"send":              func() error { return client.qp.Send(1, nil, 0) },
		"write":             func() error { return client.qp.Write(1, nil, 0, 0, 0) },
		"receive":           func() error { return client.qp.Receive(1, nil) },
		"receive, idle":     func() error { return idle.qp.Receive(1, nil) },
	}
	for name, call := range removed {
		wantStatus(t, name, call(), ErrDeviceRemoved)
	}
	client.qp.Flush()
	client.wantNoResult(t)
	r.a.Stats()
	_, err := r.a.Query()
	wantStatus(t, "query", err, ErrDeviceRemoved)
	r.a.Datapath()
	for _, close := range []func() error{client.qp.Close, client.cq.Close, client.ctr.Close, client.mr.Close, l.Close, r.a.Close} {
		must(t, close())
		must(t, close())
	}
	// The peer learns of it.
	waitState(t, server.ctr, provider.CtrLost)
}

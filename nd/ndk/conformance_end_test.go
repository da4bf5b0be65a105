package ndk

import (
	"testing"

	"github.com/ndxdp/ndxdp/provider"
)

// acceptCall and completeCall are the two forms of each call: the plain form, and the form whose disconnect event has a status.
type (
	acceptCall   func(c *Connector, qp *QP, p ConnectParams, done Completion, context any) Status
	completeCall func(c *Connector, done Completion, context any) Status
)

var acceptForms = map[string]acceptCall{
	"NDK_FN_ACCEPT": func(c *Connector, qp *QP, p ConnectParams, done Completion, context any) Status {
		return c.Accept(qp, p, nil, nil, done, context)
	},
	"NDK_FN_ACCEPT_EX": func(c *Connector, qp *QP, p ConnectParams, done Completion, context any) Status {
		return c.AcceptEx(qp, p, nil, nil, done, context)
	},
}

var completeForms = map[string]completeCall{
	"NDK_FN_COMPLETE_CONNECT": func(c *Connector, done Completion, context any) Status {
		return c.CompleteConnect(nil, nil, done, context)
	},
	"NDK_FN_COMPLETE_CONNECT_EX": func(c *Connector, done Completion, context any) Status {
		return c.CompleteConnectEx(nil, nil, done, context)
	},
}

// with accepts with a queue pair and parameters.
func (f acceptCall) with(t testing.TB, e *end, qp *QP, p ConnectParams) *pending {
	t.Helper()
	return ask(t, func(done Completion, context any) Status { return f(e.ctr, qp, p, done, context) })
}

// hello accepts with the parameters that the peer expects.
func (f acceptCall) hello(e *end, t testing.TB) *pending {
	t.Helper()
	return f.with(t, e, e.qp, hello)
}

func (f completeCall) of(t testing.TB, e *end) *pending {
	t.Helper()
	return ask(t, func(done Completion, context any) Status { return f(e.ctr, done, context) })
}

var long = make([]byte, provider.MaxPrivateData+1)

// endRows has the rows from a request to the end of the connection.
var endRows = func() map[string]provoke {
	rows := map[string]provoke{}
	for method, call := range completeForms {
		completeRows(rows, "Connector/"+method+"/STATUS_", call)
	}
	for method, call := range acceptForms {
		acceptRows(rows, "Connector/"+method+"/STATUS_", call)
	}
	askRows(rows)
	disconnectRows(rows)
	eventRows(rows)
	listenRows(rows)
	return rows
}()

func completeRows(rows map[string]provoke, key string, complete completeCall) {
	rows[key+"SUCCESS"] = func(t *testing.T, r *rig) Status {
		client, _, _ := r.accepted(t)
		return complete.of(t, client).finish(t)
	}
	rows[key+"PENDING"] = func(t *testing.T, r *rig) Status {
		client, _, _ := r.accepted(t)
		p := complete.of(t, client)
		p.finish(t)
		return p.inline
	}
	rows[key+"CONNECTION_INVALID"] = func(t *testing.T, r *rig) Status {
		client, _, _ := r.requested(t)
		return complete.of(t, client).inline
	}
	rows[key+"CONNECTION_ABORTED"] = func(t *testing.T, r *rig) Status { // the passive side has gone
		client, server, accept := r.accepted(t)
		closed(t, server.ctr.Close)
		server.ctr = nil
		want(t, "accept", accept.finish(t), StatusCancelled)
		return complete.of(t, client).finish(t)
	}
	rows[key+"IO_TIMEOUT"] = func(t *testing.T, r *rig) Status {
		client, _, _ := r.accepted(t)
		silence(t, r.b)
		return complete.of(t, client).finish(t)
	}
	rows[key+"CANCELLED"] = func(t *testing.T, r *rig) Status {
		client, _, _ := r.accepted(t)
		silence(t, r.b)
		p := complete.of(t, client)
		closed(t, client.ctr.Close)
		client.ctr = nil
		return p.finish(t)
	}
}

func acceptRows(rows map[string]provoke, key string, accept acceptCall) {
	with := func(p ConnectParams) provoke {
		return func(t *testing.T, r *rig) Status {
			_, server, _ := r.requested(t)
			return accept.with(t, server, server.qp, p).inline
		}
	}
	rows[key+"SUCCESS"] = func(t *testing.T, r *rig) Status {
		client, _, accepted := r.acceptedBy(t, accept.hello)
		want(t, "complete", client.complete(t).finish(t), StatusSuccess)
		return accepted.finish(t)
	}
	rows[key+"PENDING"] = with(hello)
	rows[key+"IO_TIMEOUT"] = func(t *testing.T, r *rig) Status {
		_, _, accepted := r.acceptedBy(t, accept.hello)
		silence(t, r.a)
		return accepted.finish(t)
	}
	rows[key+"CONNECTION_ABORTED"] = func(t *testing.T, r *rig) Status { // the active side sees the accept, and ends the attempt
		client, _, accepted := r.acceptedBy(t, accept.hello)
		want(t, "decline", client.ctr.Reject(nil), StatusSuccess)
		return accepted.finish(t)
	}
	rows[key+"INVALID_BUFFER_SIZE"] = with(ConnectParams{PrivateData: long})
	rows[key+"CONNECTION_ACTIVE"] = func(t *testing.T, r *rig) Status {
		_, busy := r.connected(t)
		want(t, "a connector that is active", accept.with(t, busy, newEnd(t, r.b, 64).qp, hello).inline, StatusConnectionInvalid)
		_, server, _ := r.requested(t)
		return accept.with(t, server, busy.qp, hello).inline
	}
	rows[key+"CANCELLED"] = func(t *testing.T, r *rig) Status {
		_, server, accepted := r.acceptedBy(t, accept.hello)
		closed(t, server.ctr.Close)
		server.ctr = nil
		return accepted.finish(t)
	}
	rows[key+"INVALID_PARAMETER"] = func(t *testing.T, r *rig) Status {
		_, server, _ := r.requested(t)
		want(t, "no callback", accept(server.ctr, server.qp, hello, nil, nil), StatusInvalidParameter)
		return accept(server.ctr, nil, hello, func(any, Status) {}, nil)
	}
	rows[key+"CONNECTION_INVALID"] = func(t *testing.T, r *rig) Status {
		e := newEnd(t, r.a, 64)
		e.connector(t)
		return accept.hello(e, t).inline
	}
	rows[key+"INVALID_DEVICE_STATE"] = func(t *testing.T, r *rig) Status {
		client, used := r.connected(t)
		parted(t, client, used)
		_, server, _ := r.requested(t)
		return accept.with(t, server, used.qp, hello).inline
	}
}

func askRows(rows map[string]provoke) {
	idle := func(f func(c *Connector) Status) provoke {
		return func(t *testing.T, r *rig) Status { return f(newEnd(t, r.a, 64).connector(t)) }
	}
	requested := func(f func(c *Connector) Status) provoke {
		return func(t *testing.T, r *rig) Status {
			_, server, _ := r.requested(t)
			return f(server.ctr)
		}
	}
	for method, f := range map[string]func(c *Connector) Status{
		"REJECT":              func(c *Connector) Status { return c.Reject(nil) },
		"GET_CONNECTION_DATA": func(c *Connector) Status { _, _, _, s := c.ConnectionData(nil); return s },
		"GET_LOCAL_ADDRESS":   func(c *Connector) Status { _, s := c.LocalAddress(); return s },
		"GET_PEER_ADDRESS":    func(c *Connector) Status { _, s := c.PeerAddress(); return s },
	} {
		rows["Connector/NDK_FN_"+method+"/STATUS_SUCCESS"] = requested(f)
		rows["Connector/NDK_FN_"+method+"/STATUS_CONNECTION_INVALID"] = idle(f)
	}
	rows["Connector/NDK_FN_REJECT/STATUS_INVALID_BUFFER_SIZE"] = requested(func(c *Connector) Status { return c.Reject(long) })
	rows["Connector/NDK_FN_REJECT/STATUS_CONNECTION_ABORTED"] = func(t *testing.T, r *rig) Status {
		client, server, _ := r.requested(t)
		closed(t, client.ctr.Close)
		client.ctr = nil
		eventually(t, "the peer's end is known", func() (known bool) {
			server.ctr.k.Own(func(*provider.Engine) { known = server.ctr.k.Aborted() })
			return known
		})
		return server.ctr.Reject(nil)
	}
	rows["Connector/NDK_FN_GET_CONNECTION_DATA/STATUS_BUFFER_TOO_SMALL"] = requested(func(c *Connector) Status {
		_, _, _, s := c.ConnectionData(make([]byte, 2))
		return s
	})
	rows["SharedEndpoint/NDK_FN_GET_SHARED_ENDPOINT_LOCAL_ADDRESS/STATUS_SUCCESS"] = func(t *testing.T, r *rig) Status {
		e, s := r.a.CreateSharedEndpoint(netipPort(r.a, 0), nil, nil)
		defer closed(t, created(t, e, s).Close)
		at, s := e.LocalAddress()
		if at.Port() < 49152 {
			t.Errorf("port %d", at.Port())
		}
		return s
	}
}

func disconnectRows(rows map[string]provoke) {
	rows["Connector/NDK_FN_DISCONNECT/STATUS_SUCCESS"] = func(t *testing.T, r *rig) Status {
		client, server := r.connected(t)
		parted(t, server, client)
		return StatusSuccess
	}
	rows["Connector/NDK_FN_DISCONNECT/STATUS_PENDING"] = func(t *testing.T, r *rig) Status {
		client, _ := r.connected(t)
		p := client.disconnect(t)
		closed(t, client.ctr.Close)
		client.ctr = nil
		want(t, "disconnect", p.finish(t), StatusCancelled)
		return p.inline
	}
	rows["Connector/NDK_FN_DISCONNECT/STATUS_CANCELLED"] = func(t *testing.T, r *rig) Status {
		client, _ := r.connected(t)
		p := client.disconnect(t)
		client.qp.qp.Own(func(*provider.Engine) { client.qp.qp.Release() }) // like its Close
		return p.finish(t)
	}
	rows["Connector/NDK_FN_DISCONNECT/STATUS_CONNECTION_INVALID"] = func(t *testing.T, r *rig) Status {
		client, _, _ := r.requested(t)
		return client.disconnect(t).inline
	}
	rows["Connector/NDK_FN_DISCONNECT/STATUS_CONNECTION_ABORTED"] = func(t *testing.T, r *rig) Status {
		client, server := r.connected(t)
		var p *pending
		server.ctr.k.Own(func(*provider.Engine) { // the peer does not see that, and aborts the connection
			p = client.disconnect(t)
			server.ctr.k.Connector.Close()
		})
		return p.finish(t)
	}
	rows["Connector/NDK_FN_DISCONNECT/STATUS_IO_TIMEOUT"] = func(t *testing.T, r *rig) Status {
		client, _ := r.connected(t)
		return client.disconnect(t).finish(t) // the peer never disconnects
	}
}

// eventRows has the rows of event callbacks.
func eventRows(rows map[string]provoke) {
	event := func(t *testing.T, r *rig) Status {
		client, server := r.connected(t)
		closed(t, client.ctr.Close)
		client.ctr = nil
		receive(t, "event", server.gone)
		return noStatus
	}
	rows["Callback/NDK_FN_DISCONNECT_EVENT_CALLBACK/(none)"] = event
	rows["Callback/NDK_FN_DISCONNECT_EVENT_CALLBACK_EX/(value)"] = func(t *testing.T, r *rig) Status {
		client, server, connect := r.requested(t)
		reasons := make(chan uint32, 4)
		accept := ask(t, func(done Completion, context any) Status {
			return server.ctr.AcceptEx(server.qp, hello, func(_ any, reason uint32) { reasons <- reason }, nil, done, context)
		})
		want(t, "connect", connect.finish(t), StatusSuccess)
		complete := ask(t, func(done Completion, context any) Status {
			return client.ctr.CompleteConnectEx(nil, nil, done, context)
		})
		want(t, "complete", complete.finish(t), StatusSuccess)
		want(t, "accept", accept.finish(t), StatusSuccess)
		closed(t, client.ctr.Close)
		client.ctr = nil
		if reason := receive(t, "event", reasons); reason != 0 {
			t.Errorf("reason %d", reason)
		}
		return noStatus
	}
	rows["Callback/NDK_FN_CONNECT_EVENT_CALLBACK/(none)"] = func(t *testing.T, r *rig) Status {
		_, server, _ := r.requested(t)
		if server.ctr == nil {
			t.Error("no connector")
		}
		return noStatus
	}
}

// listener is a listener that does not listen yet.
func (r *rig) listener(t *testing.T) *Listener {
	t.Helper()
	l, s := r.b.CreateListener(func(any, *Connector) {}, nil, nil, nil)
	t.Cleanup(func() { closed(t, l.Close) })
	return created(t, l, s)
}

func listenRows(rows map[string]provoke) {
	rows["Listener/NDK_FN_LISTEN/STATUS_SUCCESS"] = func(t *testing.T, r *rig) Status {
		return r.listener(t).Listen(netipPort(r.b, 0), nil, nil)
	}
	rows["Listener/NDK_FN_LISTEN/STATUS_PENDING"] = func(t *testing.T, r *rig) Status {
		l := r.listener(t)
		p := ask(t, func(done Completion, context any) Status { return l.Listen(netipPort(r.b, 0), done, context) })
		want(t, "listen", p.finish(t), StatusSuccess)
		return p.inline
	}
	rows["Listener/NDK_FN_LISTEN/STATUS_SHARING_VIOLATION"] = func(t *testing.T, r *rig) Status {
		want(t, "listen", r.listener(t).Listen(netipPort(r.b, 80), nil, nil), StatusSuccess)
		return r.listener(t).Listen(netipPort(r.b, 80), nil, nil)
	}
	rows["Listener/NDK_FN_LISTEN/STATUS_INVALID_ADDRESS"] = func(t *testing.T, r *rig) Status {
		return r.listener(t).Listen(netipPort(r.a, 80), nil, nil)
	}
	rows["Listener/NDK_FN_LISTEN/STATUS_TOO_MANY_ADDRESSES"] = func(t *testing.T, r *rig) Status {
		(&rig{a: r.b}).useUpPorts(t)
		return r.listener(t).Listen(netipPort(r.b, 0), nil, nil)
	}
	rows["Listener/NDK_FN_LISTEN/STATUS_INVALID_DEVICE_STATE"] = func(t *testing.T, r *rig) Status {
		l := r.listener(t)
		want(t, "listen", l.Listen(netipPort(r.b, 0), nil, nil), StatusSuccess)
		return l.Listen(netipPort(r.b, 0), nil, nil)
	}
	rows["Listener/NDK_FN_GET_LISTENER_LOCAL_ADDRESS/STATUS_SUCCESS"] = func(t *testing.T, r *rig) Status {
		l := r.listener(t)
		want(t, "listen", l.Listen(netipPort(r.b, 81), nil, nil), StatusSuccess)
		at, s := l.LocalAddress()
		if at != netipPort(r.b, 81) {
			t.Errorf("%v", at)
		}
		return s
	}
	rows["Listener/NDK_FN_GET_LISTENER_LOCAL_ADDRESS/STATUS_INVALID_DEVICE_STATE"] = func(t *testing.T, r *rig) Status {
		_, s := r.listener(t).LocalAddress()
		return s
	}
	rows["Listener/NDK_FN_CONTROL_CONNECT_EVENTS/(none)"] = func(t *testing.T, r *rig) Status {
		l, at, requests := listens(t, r.b)
		l.ControlConnectEvents(true)
		want(t, "paused", newEnd(t, r.a, 64).dial(t, at).finish(t), StatusConnectionRefused)
		l.ControlConnectEvents(false)
		newEnd(t, r.a, 64).dial(t, at)
		closed(t, receive(t, "event", requests).Close)
		return noStatus
	}
}

// removedRows has the statuses of an adapter whose interface is gone.
var removedRows = func() map[string]provoke {
	rows := map[string]provoke{}
	never := func(any, Status) {}
	for key, f := range map[string]func(e *end) Status{
		"CQ/NDK_FN_RESIZE_CQ":                  func(e *end) Status { return e.cq.Resize(8, nil, nil) },
		"MR/NDK_FN_REGISTER_MR":                func(e *end) Status { return e.mr.Register(make([]byte, 8), 0, nil, nil) },
		"MR/NDK_FN_DEREGISTER_MR":              func(e *end) Status { return e.mr.Deregister(nil, nil) },
		"SRQ/NDK_FN_MODIFY_SRQ":                func(e *end) Status { return e.srq.Modify(8, 0, nil, nil) },
		"Connector/NDK_FN_CONNECT":             func(e *end) Status { return ways[0].call(e.ctr, e, netipPort(e.a, 9), hello, never, nil) },
		"Connector/NDK_FN_ACCEPT":              func(e *end) Status { return e.ctr.Accept(e.qp, hello, nil, nil, never, nil) },
		"Connector/NDK_FN_REJECT":              func(e *end) Status { return e.ctr.Reject(nil) },
		"Connector/NDK_FN_ACCEPT_EX":           func(e *end) Status { return e.ctr.AcceptEx(e.qp, hello, nil, nil, never, nil) },
		"Connector/NDK_FN_COMPLETE_CONNECT":    func(e *end) Status { return e.ctr.CompleteConnect(nil, nil, never, nil) },
		"Connector/NDK_FN_COMPLETE_CONNECT_EX": func(e *end) Status { return e.ctr.CompleteConnectEx(nil, nil, never, nil) },
		"Connector/NDK_FN_DISCONNECT":          func(e *end) Status { return e.ctr.Disconnect(never, nil) },
		"Connector/NDK_FN_CONNECT_WITH_SHARED_ENDPOINT": func(e *end) Status {
			return e.ctr.ConnectWithSharedEndpoint(e.qp, nil, netipPort(e.a, 9), hello, never, nil)
		},
	} {
		rows[key+"/STATUS_DEVICE_REMOVED"] = func(t *testing.T, _ *rig) Status {
			r := newVethRig(t)
			client, _ := r.connected(t)
			r.removeInterface(t)
			return f(client)
		}
	}
	rows["Listener/NDK_FN_LISTEN/STATUS_DEVICE_REMOVED"] = func(t *testing.T, _ *rig) Status {
		r := newVethRig(t)
		l, s := r.a.CreateListener(func(any, *Connector) {}, nil, nil, nil)
		created(t, l, s)
		t.Cleanup(func() { closed(t, l.Close) })
		r.removeInterface(t)
		return l.Listen(netipPort(r.a, 0), nil, nil)
	}
	return rows
}()

package ndk

import (
	"testing"

	"github.com/ndxdp/ndxdp/provider"
)

// posting is one of the functions that post requests.
type posting struct {
	method string
	post   func(q *QP, sgl []SGE, flags OpFlags) Status
}

var postings = []posting{
	{"NDK_FN_SEND", func(q *QP, sgl []SGE, flags OpFlags) Status { return q.Send(1, sgl, flags) }},
	{"NDK_FN_SEND_AND_INVALIDATE", func(q *QP, sgl []SGE, flags OpFlags) Status { return q.SendAndInvalidate(1, sgl, flags, 5) }},
	{"NDK_FN_READ", func(q *QP, sgl []SGE, flags OpFlags) Status { return q.Read(1, sgl, 0, 0, flags) }},
	{"NDK_FN_WRITE", func(q *QP, sgl []SGE, flags OpFlags) Status { return q.Write(1, sgl, 0, 0, flags) }},
	{"NDK_FN_RECEIVE", func(q *QP, sgl []SGE, _ OpFlags) Status { return q.Receive(1, sgl) }},
}

// windowed makes an end, connected or not, with a window.
func windowed(t *testing.T, r *rig, connected bool) (*end, *MW) {
	t.Helper()
	var e *end
	if connected {
		e, _ = r.connected(t)
	} else {
		e = newEnd(t, r.a, 64)
	}
	w, s := e.pd.CreateMW(nil, nil)
	created(t, w, s)
	t.Cleanup(func() { closed(t, w.Close) })
	return e, w
}

// fill posts until the queue is full.
func fill(post func() Status) (s Status) {
	for range 1 << 16 {
		if s = post(); s != StatusSuccess {
			break
		}
	}
	return s
}

func postRows() map[string]provoke {
	rows := map[string]provoke{"QP/NDK_FN_FLUSH/(none)": func(t *testing.T, r *rig) Status {
		e := newEnd(t, r.a, 64)
		e.flushed(3)
		for i := range uint64(3) {
			e.wantResult(t, i, OperationReceive, StatusCancelled)
		}
		return noStatus
	}}
	for _, p := range postings {
		key := "QP/" + p.method + "/STATUS_"
		on := func(sgl func() []SGE, flags OpFlags) provoke {
			return func(t *testing.T, r *rig) Status {
				client, _ := r.connected(t)
				return p.post(client.qp, sgl(), flags)
			}
		}
		nothing := func() []SGE { return nil }
		rows[key+"SUCCESS"] = on(nothing, 0)
		rows[key+"DATA_OVERRUN"] = on(func() []SGE { return make([]SGE, provider.MaxSGE+1) }, 0)
		rows[key+"BUFFER_OVERFLOW"] = on(tooMuch, 0)
		rows[key+"NO_MORE_ENTRIES"] = func(t *testing.T, r *rig) Status {
			client, _ := r.connected(t)
			return fill(func() Status { return p.post(client.qp, nil, OpDefer) })
		}
		if p.method != "NDK_FN_RECEIVE" {
			rows[key+"INVALID_PARAMETER"] = on(nothing, OpAllowRemoteRead)
			rows[key+"CONNECTION_INVALID"] = func(t *testing.T, r *rig) Status { return p.post(newEnd(t, r.a, 64).qp, nil, 0) }
		}
	}
	rows["QP/NDK_FN_READ/STATUS_INVALID_DEVICE_REQUEST"] = func(t *testing.T, r *rig) Status {
		client, server, connect := r.requested(t)
		acceptForms["NDK_FN_ACCEPT"].with(t, server, server.qp, ConnectParams{})
		want(t, "connect", connect.finish(t), StatusSuccess)
		want(t, "complete", client.complete(t).finish(t), StatusSuccess)
		return client.qp.Read(1, nil, 0, 0, 0)
	}
	rows["QP/NDK_FN_READ/STATUS_REMOTE_RESOURCES"] = func(t *testing.T, r *rig) Status {
		client, server := r.connected(t)
		client.qp.Read(1, []SGE{client.mr.SGE(0, 64)}, server.mr.Address()+4095, server.mr.RemoteToken(), 0)
		return client.result(t).Status
	}
	windowRows(rows)
	return rows
}

// windowRows has the rows of Bind and Invalidate.
func windowRows(rows map[string]provoke) {
	bind := func(e *end, w *MW, flags OpFlags) Status { return e.qp.Bind(1, e.mr, w, e.mr.Bytes()[:8], flags) }
	rows["QP/NDK_FN_BIND/STATUS_SUCCESS"] = func(t *testing.T, r *rig) Status {
		e, w := windowed(t, r, true)
		return bind(e, w, OpAllowRemoteWrite)
	}
	rows["QP/NDK_FN_BIND/STATUS_CONNECTION_INVALID"] = func(t *testing.T, r *rig) Status {
		e, w := windowed(t, r, false)
		return bind(e, w, 0)
	}
	rows["QP/NDK_FN_BIND/STATUS_ACCESS_VIOLATION"] = func(t *testing.T, r *rig) Status {
		e, w := windowed(t, r, true)
		want(t, "register", unregistered(e).Register(make([]byte, 64), MRAllowRemoteRead, nil, nil), StatusSuccess)
		return bind(e, w, OpAllowRemoteWrite)
	}
	rows["QP/NDK_FN_BIND/STATUS_NO_MORE_ENTRIES"] = func(t *testing.T, r *rig) Status {
		e, w := windowed(t, r, true)
		return fill(func() Status { return bind(e, w, OpDefer) })
	}
	rows["QP/NDK_FN_BIND/STATUS_INVALID_PARAMETER"] = func(t *testing.T, r *rig) Status {
		e, w := windowed(t, r, true)
		want(t, "flags", bind(e, w, OpInline), StatusInvalidParameter)
		want(t, "window", bind(e, nil, 0), StatusInvalidParameter)
		return e.qp.Bind(1, e.mr, w, make([]byte, 8), 0)
	}
	rows["QP/NDK_FN_INVALIDATE/STATUS_SUCCESS"] = func(t *testing.T, r *rig) Status {
		e, w := windowed(t, r, true)
		return e.qp.Invalidate(1, w, 0)
	}
	rows["QP/NDK_FN_INVALIDATE/STATUS_CONNECTION_INVALID"] = func(t *testing.T, r *rig) Status {
		e, w := windowed(t, r, false)
		return e.qp.Invalidate(1, w, 0)
	}
	rows["QP/NDK_FN_INVALIDATE/STATUS_NO_MORE_ENTRIES"] = func(t *testing.T, r *rig) Status {
		e, w := windowed(t, r, true)
		return fill(func() Status { return e.qp.Invalidate(1, w, OpDefer) })
	}
	rows["QP/NDK_FN_INVALIDATE/STATUS_INVALID_PARAMETER"] = func(t *testing.T, r *rig) Status {
		e, _ := windowed(t, r, true)
		return e.qp.Invalidate(1, nil, 0)
	}
}

// results makes a result of a kind: post posts its request on a connected client.
func results(kind OperationType, post func(t *testing.T, client, server *end)) provoke {
	return func(t *testing.T, r *rig) Status {
		client, server := r.connected(t)
		post(t, client, server)
		res := client.result(t)
		if res.Type != kind {
			t.Errorf("%+v, want a result of type %d", res, kind)
		}
		return res.Status
	}
}

// stray is an entry that belongs to no region.
func stray() []SGE { return []SGE{{Buffer: make([]byte, 64), Token: 1}} }

func resultRows() map[string]provoke {
	rows := map[string]provoke{}
	cancelledRows(rows)
	add := func(name, status string, kind OperationType, post func(t *testing.T, client, server *end)) {
		rows["CQ/Result:"+name+"/STATUS_"+status] = results(kind, post)
	}
	messageRows(add)
	transferRows(add)
	windowResultRows(add)
	return rows
}

// cancelledRows has the results of flushed requests.
func cancelledRows(rows map[string]provoke) {
	cancelled := func(name string, kind OperationType, post func(t *testing.T, client, server *end)) {
		rows["CQ/Result:"+name+"/STATUS_CANCELLED"] = results(kind, func(t *testing.T, client, server *end) {
			if kind == OperationReceive {
				post(t, client, server)
				client.qp.Flush()
				return
			}
			client.qp.Send(0, nil, 0) // waits for a receive, as do all requests behind it
			post(t, client, server)
			client.qp.Flush()
			client.wantResult(t, 0, OperationSend, StatusCancelled)
		})
	}
	cancelled("Send", OperationSend, func(_ *testing.T, c, _ *end) { c.qp.Send(1, nil, OpDefer) })
	cancelled("Receive", OperationReceive, func(_ *testing.T, c, _ *end) { c.qp.Receive(1, nil) })
	cancelled("Read", OperationRead, func(_ *testing.T, c, _ *end) { c.qp.Read(1, nil, 0, 0, OpDefer) })
	cancelled("Write", OperationWrite, func(_ *testing.T, c, _ *end) { c.qp.Write(1, nil, 0, 0, OpDefer) })
	cancelled("Bind", OperationBind, func(t *testing.T, c, _ *end) { c.qp.Bind(1, c.mr, c.window(t), c.mr.Bytes()[:8], OpDefer) })
	cancelled("Invalidate", OperationInvalidate, func(t *testing.T, c, _ *end) { c.qp.Invalidate(1, c.window(t), OpDefer) })
}

// addRow adds the row of a result. post posts the request.
type addRow func(name, status string, kind OperationType, post func(t *testing.T, client, server *end))

// messageRows has the results of sends and receives.
func messageRows(add addRow) {
	add("Send", "SUCCESS", OperationSend, func(_ *testing.T, c, s *end) { s.qp.Receive(1, nil); c.qp.Send(1, nil, 0) })
	add("Send", "ACCESS_VIOLATION", OperationSend, func(_ *testing.T, c, s *end) { s.qp.Receive(1, nil); c.qp.Send(1, stray(), 0) })
	add("Send", "REMOTE_RESOURCES", OperationSend, func(_ *testing.T, c, s *end) {
		s.qp.Receive(1, nil)
		c.qp.Send(1, []SGE{c.mr.SGE(0, 64)}, 0)
	})
	add("Send", "IO_TIMEOUT", OperationSend, func(_ *testing.T, c, _ *end) { c.qp.Send(1, nil, 0) })
	add("Receive", "SUCCESS", OperationReceive, func(_ *testing.T, c, s *end) { c.qp.Receive(1, nil); s.qp.Send(1, nil, 0) })
	add("Receive", "ACCESS_VIOLATION", OperationReceive, func(_ *testing.T, c, s *end) {
		c.qp.Receive(1, stray())
		s.qp.Send(1, []SGE{s.mr.SGE(0, 64)}, 0)
	})
	add("Receive", "BUFFER_OVERFLOW", OperationReceive, func(_ *testing.T, c, s *end) {
		c.qp.Receive(1, nil)
		s.qp.Send(1, []SGE{s.mr.SGE(0, 64)}, 0)
	})
	add("ReceiveAndInvalidate", "SUCCESS", OperationReceiveAndInvalidate, func(t *testing.T, c, s *end) {
		w := c.window(t)
		c.qp.Receive(1, nil)
		c.qp.Bind(2, c.mr, w, c.mr.Bytes()[:8], OpSilentSuccess)
		c.qp.Write(3, nil, 0, 0, 0) // completes after the Bind
		c.wantResult(t, 3, OperationWrite, StatusSuccess)
		s.qp.SendAndInvalidate(1, nil, 0, w.RemoteToken())
	})
}

// transferRows has the results of reads and writes.
func transferRows(add addRow) {
	add("Read", "SUCCESS", OperationRead, func(_ *testing.T, c, _ *end) { c.qp.Read(1, nil, 0, 0, 0) })
	add("Read", "ACCESS_VIOLATION", OperationRead, func(_ *testing.T, c, s *end) {
		c.qp.Read(1, stray(), s.mr.Address(), s.mr.RemoteToken(), 0)
	})
	add("Read", "REMOTE_RESOURCES", OperationRead, func(_ *testing.T, c, s *end) {
		c.qp.Read(1, []SGE{c.mr.SGE(0, 64)}, s.mr.Address()+4095, s.mr.RemoteToken(), 0)
	})
	add("Read", "IO_TIMEOUT", OperationRead, func(t *testing.T, c, s *end) { silence(t, s.a); c.qp.Read(1, nil, 0, 0, 0) })
	add("Write", "IO_TIMEOUT", OperationWrite, func(t *testing.T, c, s *end) { silence(t, s.a); c.qp.Write(1, nil, 0, 0, 0) })
	add("Write", "REMOTE_RESOURCES", OperationWrite, func(t *testing.T, c, s *end) { // the window ended with a flush
		w := s.window(t)
		want(t, "bind", s.qp.Bind(1, s.mr, w, s.mr.Bytes(), OpAllowRemoteWrite), StatusSuccess)
		s.wantResult(t, 1, OperationBind, StatusSuccess)
		s.qp.Flush()
		c.qp.Write(1, []SGE{c.mr.SGE(0, 8)}, s.mr.Address(), w.RemoteToken(), 0)
	})
	add("Write", "SUCCESS", OperationWrite, func(_ *testing.T, c, _ *end) { c.qp.Write(1, nil, 0, 0, 0) })
	add("Write", "ACCESS_VIOLATION", OperationWrite, func(_ *testing.T, c, _ *end) { c.qp.Write(1, []SGE{c.mr.SGE(0, 8)}, 1, 1, 0) })
}

// windowResultRows has the results of binds and invalidates.
func windowResultRows(add addRow) {
	add("Bind", "SUCCESS", OperationBind, func(t *testing.T, c, _ *end) { c.qp.Bind(1, c.mr, c.window(t), c.mr.Bytes()[:8], 0) })
	add("Bind", "INVALID_DEVICE_REQUEST", OperationBind, func(t *testing.T, c, _ *end) {
		w := c.window(t)
		c.qp.Bind(1, c.mr, w, c.mr.Bytes()[:8], OpSilentSuccess)
		c.qp.Bind(2, c.mr, w, c.mr.Bytes()[:8], 0)
	})
	add("Invalidate", "SUCCESS", OperationInvalidate, func(t *testing.T, c, _ *end) {
		w := c.window(t)
		c.qp.Bind(1, c.mr, w, c.mr.Bytes()[:8], OpSilentSuccess)
		c.qp.Invalidate(2, w, 0)
	})
	add("Invalidate", "INVALID_DEVICE_REQUEST", OperationInvalidate, func(t *testing.T, c, _ *end) { c.qp.Invalidate(2, c.window(t), 0) })
}

// window is a window of the end's domain.
func (e *end) window(t *testing.T) *MW {
	t.Helper()
	w, s := e.pd.CreateMW(nil, nil)
	t.Cleanup(func() { closed(t, w.Close) })
	return created(t, w, s)
}

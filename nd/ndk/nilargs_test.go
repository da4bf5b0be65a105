package ndk

import (
	"net/netip"
	"testing"

	"github.com/ndxdp/ndxdp/internal/conformance"
)

// nilCalls maps calls with one nil argument to their results.
type nilCalls map[string]struct {
	want Status
	call func() Status
}

// add adds calls with this status to the table.
func (n nilCalls) add(want Status, calls map[string]func() Status) {
	for name, call := range calls {
		n[name] = struct {
			want Status
			call func() Status
		}{want, call}
	}
}

// made returns the status of a creation without callbacks, and closes the object.
func made[T closer](t *testing.T) func(T, Status) Status {
	return func(o T, s Status) Status {
		if s == StatusSuccess {
			closed(t, o.Close)
		}
		return s
	}
}

// neededArguments lists required arguments: without one the call has no effect. e is not connected, and posts is.
func neededArguments(r *rig, e, posts *end, at netip.AddrPort) map[string]func() Status {
	c := e.ctr
	shared := func(qp *QP, endpoint *SharedEndpoint, done Completion) Status {
		return c.ConnectWithSharedEndpoint(qp, endpoint, at, hello, done, nil)
	}
	never := func(any, Status) { panic("a callback of a call that did not begin") }
	w, m, qp := &MW{pd: posts.pd}, &MR{pd: posts.pd}, e.qp
	return map[string]func() Status{
		"Adapter.BuildLAM 2":                    func() Status { _, s := r.a.BuildLAM(make([]byte, 1), nil, nil, nil); return s },
		"Adapter.CreateListener 1":              func() Status { _, s := r.a.CreateListener(nil, nil, nil, nil); return s },
		"Connector.Accept 1":                    func() Status { return c.Accept(nil, hello, nil, nil, never, nil) },
		"Connector.Accept 5":                    func() Status { return c.Accept(qp, hello, nil, nil, nil, nil) },
		"Connector.AcceptEx 1":                  func() Status { return c.AcceptEx(nil, hello, nil, nil, never, nil) },
		"Connector.AcceptEx 5":                  func() Status { return c.AcceptEx(qp, hello, nil, nil, nil, nil) },
		"Connector.CompleteConnect 3":           func() Status { return c.CompleteConnect(nil, nil, nil, nil) },
		"Connector.CompleteConnectEx 3":         func() Status { return c.CompleteConnectEx(nil, nil, nil, nil) },
		"Connector.Connect 1":                   func() Status { return c.Connect(nil, netipPort(r.a, 0), at, hello, never, nil) },
		"Connector.Connect 5":                   func() Status { return c.Connect(qp, netipPort(r.a, 0), at, hello, nil, nil) },
		"Connector.ConnectWithSharedEndpoint 1": func() Status { return shared(nil, &SharedEndpoint{}, never) },
		"Connector.ConnectWithSharedEndpoint 2": func() Status { return shared(qp, nil, never) },
		"Connector.ConnectWithSharedEndpoint 5": func() Status { return shared(qp, &SharedEndpoint{}, nil) },
		"Connector.Disconnect 1":                func() Status { return c.Disconnect(nil, nil) },
		"PD.CreateQPWithSRQ 1": func() Status {
			_, s := e.pd.CreateQPWithSRQ(nil, QPConfig{ReceiveCQ: e.cq, InitiatorCQ: e.cq}, nil, nil)
			return s
		},
		"QP.Bind 2":         func() Status { return posts.qp.Bind(1, nil, w, nil, 0) },
		"QP.Bind 3":         func() Status { return posts.qp.Bind(1, m, nil, nil, 0) },
		"QP.FastRegister 2": func() Status { return posts.qp.FastRegister(1, nil, nil, 0, 1, 0, 0) },
		"QP.Invalidate 2":   func() Status { return posts.qp.Invalidate(1, nil, 0) },
	}
}

// optionalArguments lists arguments that may be nil. Without a callback the call finishes before it returns.
func optionalArguments(t *testing.T, r *rig, e *end) map[string]func() Status {
	cq := func() *CQ { q, s := r.a.CreateCQ(1, nil, nil, nil, nil); return created(t, q, s) }
	mr := func() *MR { m, s := e.pd.CreateMR(true, nil, nil); return created(t, m, s) }
	listener := func() *Listener {
		l, s := r.a.CreateListener(func(any, *Connector) {}, nil, nil, nil)
		return created(t, l, s)
	}
	cfg := QPConfig{ReceiveCQ: e.cq, InitiatorCQ: e.cq}
	newCQ := func() Status { return made[*CQ](t)(r.a.CreateCQ(1, nil, nil, nil, nil)) }
	newSRQ := func() Status { return made[*SRQ](t)(e.pd.CreateSRQ(1, 1, 1, nil, nil, nil, nil)) }
	newListener := func() Status { return listener().Close(nil, nil) }
	newPD := func() Status { return made[*PD](t)(r.a.CreatePD(nil, nil)) }
	newQP := func() Status { return made[*QP](t)(e.pd.CreateQP(cfg, nil, nil)) }
	newMW := func() Status { return made[*MW](t)(e.pd.CreateMW(nil, nil)) }
	newConnector := func() Status { return made[*Connector](t)(r.a.CreateConnector(nil, nil)) }
	newEndpoint := func() Status { return made[*SharedEndpoint](t)(r.a.CreateSharedEndpoint(netipPort(r.a, 0), nil, nil)) }
	return map[string]func() Status{
		"Adapter.BuildLAM 3": func() Status { return building(make([]byte, 1), 1)(e, nil, nil) },
		"Adapter.CreateCQ 2": newCQ, "Adapter.CreateCQ 4": newCQ, "CQ.Close 1": newCQ,
		"Adapter.CreateConnector 1": newConnector, "Connector.Close 1": newConnector,
		"Adapter.CreateListener 3": newListener, "Listener.Close 1": newListener,
		"Adapter.CreatePD 1": newPD, "PD.Close 1": newPD,
		"Adapter.CreateSharedEndpoint 2": newEndpoint, "SharedEndpoint.Close 1": newEndpoint,
		"Adapter.ReleaseLAM 1": func() Status { r.a.ReleaseLAM(nil); return StatusSuccess },
		"CQ.Resize 2":          func() Status { q := cq(); defer closed(t, q.Close); return q.Resize(2, nil, nil) },
		"Listener.Listen 2":    func() Status { l := listener(); defer closed(t, l.Close); return l.Listen(netipPort(r.a, 0), nil, nil) },
		"MR.Close 1":           func() Status { return mr().Close(nil, nil) }, "PD.CreateMR 2": func() Status { return mr().Close(nil, nil) },
		"MR.InitializeFastRegister 3": func() Status { m := mr(); defer closed(t, m.Close); return m.InitializeFastRegister(1, true, nil, nil) },
		"MR.Deregister 1":             func() Status { return e.mr.Deregister(nil, nil) },
		"MR.Register 3": func() Status {
			m, s := e.pd.CreateMR(false, nil, nil)
			defer closed(t, created(t, m, s).Close)
			return m.Register(make([]byte, 1), 0, nil, nil)
		},
		"PD.CreateMW 1": newMW, "MW.Close 1": newMW,
		"PD.CreateQP 2": newQP, "QP.Close 1": newQP,
		"PD.CreateQPWithSRQ 3": func() Status { return made[*QP](t)(e.pd.CreateQPWithSRQ(e.srq, cfg, nil, nil)) },
		"PD.CreateSRQ 4":       newSRQ, "PD.CreateSRQ 6": newSRQ, "SRQ.Close 1": newSRQ,
		"SRQ.Modify 3": func() Status { return e.srq.Modify(8, 1, nil, nil) },
		"Connector.UseTLS 1": func() Status { // without TLS
			must(t, e.ctr.UseTLS(nil))
			return StatusSuccess
		},
		"Listener.UseTLS 1": func() Status {
			l := listener()
			defer closed(t, l.Close)
			must(t, l.UseTLS(nil, TLSRequired))
			return StatusSuccess
		},
	}
}

// Every argument that can be nil is either refused with a status, or optional.
func TestNilArguments(t *testing.T) {
	r := newRig(t)
	e := newEnd(t, r.a, 64)
	e.connector(t)
	calls := nilCalls{}
	posts, _ := r.connected(t)
	calls.add(StatusInvalidParameter, neededArguments(r, e, posts, netipPort(r.b, 80)))
	calls.add(StatusSuccess, optionalArguments(t, r, e))
	// A nil event of a connection is checked only after the connection was made.
	never := func(any, Status) { t.Error("a callback of a call that did not begin") }
	calls.add(StatusConnectionInvalid, map[string]func() Status{
		"Connector.Accept 3":            func() Status { return e.ctr.Accept(e.qp, hello, nil, nil, never, nil) },
		"Connector.AcceptEx 3":          func() Status { return e.ctr.AcceptEx(e.qp, hello, nil, nil, never, nil) },
		"Connector.CompleteConnect 1":   func() Status { return e.ctr.CompleteConnect(nil, nil, never, nil) },
		"Connector.CompleteConnectEx 1": func() Status { return e.ctr.CompleteConnectEx(nil, nil, never, nil) },
	})
	if err := conformance.CheckNil(
		calls, (*Adapter)(nil), (*CQ)(nil), (*Connector)(nil), (*Listener)(nil), (*MR)(nil), (*MW)(nil), (*PD)(nil), (*QP)(nil), (*SRQ)(nil),
		(*SharedEndpoint)(nil), (*Status)(nil), OpenAdapter, PagesOf,
	); err != nil {
		t.Error(err)
	}
	for name, c := range calls {
		if s := c.call(); s != c.want {
			t.Errorf("%s: %s, want %s", name, s.Name(), c.want.Name())
		}
	}
}

// A connection without disconnect callbacks ends like any other.
func TestNoDisconnectEvent(t *testing.T) {
	r := newRig(t)
	client, server, connect := r.requested(t)
	accept := ask(t, func(done Completion, context any) Status {
		return server.ctr.Accept(server.qp, hello, nil, nil, done, context)
	})
	want(t, "connect", connect.finish(t), StatusSuccess)
	complete := ask(t, func(done Completion, context any) Status { return client.ctr.CompleteConnect(nil, nil, done, context) })
	want(t, "complete", complete.finish(t), StatusSuccess)
	want(t, "accept", accept.finish(t), StatusSuccess)
	first, second := client.disconnect(t), server.disconnect(t)
	want(t, "disconnect", first.finish(t), StatusSuccess)
	want(t, "disconnect", second.finish(t), StatusSuccess)
}

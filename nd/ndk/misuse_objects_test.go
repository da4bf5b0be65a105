package ndk

import (
	"math"
	"testing"
)

// posts returns all requests of an initiator queue, with arguments that are valid on e.
func (e *end) posts(w *MW, m *MR, lam *LAM) map[string]func() Status {
	one := []SGE{{Buffer: e.mr.Bytes()[:8], Token: e.mr.LocalToken()}}
	return map[string]func() Status{
		"send":          func() Status { return e.qp.Send(1, one, 0) },
		"invalidating":  func() Status { return e.qp.SendAndInvalidate(1, one, 0, 7) },
		"write":         func() Status { return e.qp.Write(1, one, 0, 0, 0) },
		"inline":        func() Status { return e.qp.Write(1, one, 0, 0, OpInline) },
		"read":          func() Status { return e.qp.Read(1, one, 0, 0, 0) },
		"bind":          func() Status { return e.qp.Bind(1, e.mr, w, e.mr.Bytes()[:8], 0) },
		"invalidate":    func() Status { return e.qp.Invalidate(1, w, 0) },
		"fast register": func() Status { return fastPost(e, m, lam.Pages, 8, 0) },
	}
}

// Posts in every state of a connection: a Receive is always accepted, other requests only if the connection is or was established.
func TestPostingInEveryState(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	idle := newEnd(t, r.a, 64)
	connecting, requested, _ := r.requested(t)
	active, accepting, _ := r.accepted(t)
	first, second := r.connected(t)
	first.disconnect(t)
	receive(t, "disconnect event", second.gone)
	one, two := r.connected(t)
	parted(t, one, two)
	lost, _ := r.connected(t)
	want(t, "write", lost.qp.Write(9, []SGE{lost.mr.SGE(0, 8)}, 0, 0, 0), StatusSuccess)
	lost.wantResult(t, 9, OperationWrite, StatusAccessViolation)
	gone, _ := r.connected(t)
	closed(t, gone.ctr.Close)
	gone.ctr = nil
	for _, c := range []struct {
		name  string
		e     *end
		want  Status
		taken bool // the Receive stays posted
	}{
		{"idle", idle, StatusConnectionInvalid, true},
		{"connecting", connecting, StatusConnectionInvalid, true},
		{"requested", requested, StatusConnectionInvalid, true},
		{"accepted", active, StatusConnectionInvalid, true},
		{"accepting", accepting, StatusConnectionInvalid, true},
		{"disconnecting", first, StatusConnectionInvalid, false},
		{"disconnected, first", one, StatusConnectionInvalid, false},
		{"disconnected, second", two, StatusConnectionInvalid, false},
		{"lost", lost, StatusSuccess, false},
		{"the connector is closed", gone, StatusConnectionInvalid, false},
	} {
		w, s := c.e.pd.CreateMW(nil, nil)
		created(t, w, s)
		t.Cleanup(func() { closed(t, w.Close) })
		for name, post := range c.e.posts(w, c.e.fast(t, false), mapped(t, c.e.a, make([]byte, 64))) {
			s := post()
			if s != c.want {
				t.Errorf("%s: %s: %s, want %s", c.name, name, s.Name(), c.want.Name())
			}
			if s == StatusSuccess {
				if res := c.e.result(t); res.Status != StatusCancelled || res.RequestID != 1 {
					t.Errorf("%s: %s: result %+v", c.name, name, res)
				}
			}
		}
		want(t, c.name, c.e.qp.Receive(2, nil), StatusSuccess)
		if !c.taken {
			c.e.wantResult(t, 2, OperationReceive, StatusCancelled)
		} else if n := c.e.cq.GetResults(make([]Result, 1)); n != 0 {
			t.Errorf("%s: the Receive is over", c.name)
		}
	}
}

// Objects of another adapter, which has its own tokens and addresses, are refused and not changed.
func TestObjectsOfAnotherAdapter(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	e, peer := r.connected(t)
	other := newEnd(t, r.b, 64)
	theirs, s := other.pd.CreateMW(nil, nil)
	created(t, theirs, s)
	t.Cleanup(func() { closed(t, theirs.Close) })
	w, s := e.pd.CreateMW(nil, nil)
	created(t, w, s)
	t.Cleanup(func() { closed(t, w.Close) })
	lam, m := mapped(t, r.b, make([]byte, 64)), e.fast(t, false)
	ctr, s := r.a.CreateConnector(nil, nil)
	created(t, ctr, s)
	t.Cleanup(func() { closed(t, ctr.Close) })
	shared, s := r.b.CreateSharedEndpoint(netipPort(r.b, 0), nil, nil)
	created(t, shared, s)
	t.Cleanup(func() { closed(t, shared.Close) })
	ignore := func(any, Status) { t.Error("called back") }
	mine := newEnd(t, r.a, 64)
	for name, s := range map[string]Status{
		"connect":         ctr.Connect(other.qp, netipPort(r.a, 0), netipPort(r.b, 9), hello, ignore, nil),
		"shared endpoint": ctr.ConnectWithSharedEndpoint(mine.qp, shared, netipPort(r.b, 9), hello, ignore, nil),
		"accept":          ctr.Accept(other.qp, hello, nil, nil, ignore, nil),
		"bind its region": e.qp.Bind(1, other.mr, w, other.mr.Bytes(), 0),
		"bind its window": e.qp.Bind(1, e.mr, theirs, e.mr.Bytes(), 0),
		"its bytes":       e.qp.Bind(1, e.mr, w, other.mr.Bytes(), 0),
		"invalidate":      e.qp.Invalidate(1, theirs, 0),
		"its pages":       fastPost(e, m, lam.Pages, 8, 0),
	} {
		want(t, name, s, StatusInvalidParameter)
	}
	_, s = e.pd.CreateQP(QPConfig{ReceiveCQ: other.cq, InitiatorCQ: e.cq}, nil, nil)
	want(t, "its receive results", s, StatusInvalidParameter)
	_, s = e.pd.CreateQP(QPConfig{ReceiveCQ: e.cq, InitiatorCQ: other.cq}, nil, nil)
	want(t, "its results", s, StatusInvalidParameter)
	_, s = e.pd.CreateQPWithSRQ(other.srq, QPConfig{ReceiveCQ: e.cq, InitiatorCQ: e.cq}, nil, nil)
	want(t, "its pool", s, StatusInvalidParameter)

	// A release by another adapter does not affect the mapping, which stays in use.
	r.a.ReleaseLAM(lam)
	if len(lam.Pages) != 1 {
		t.Fatalf("%d pages", len(lam.Pages))
	}
	moveEverything(t, e, peer)
	foreign := []SGE{{Buffer: e.mr.Bytes()[:8], Token: other.mr.LocalToken()}}
	want(t, "its token", e.qp.Write(1, foreign, peer.mr.Address(), peer.mr.RemoteToken(), 0), StatusSuccess)
	e.wantResult(t, 1, OperationWrite, StatusAccessViolation)
}

// Invalid local memory of a Send is reported without a receive of the peer, which has posted none (ND specification 11.1).
func TestLocalTokenWithoutAReceive(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	other := newEnd(t, r.b, 64)
	for name, token := range map[string]Token{"foreign": other.mr.LocalToken(), "zero": 0} {
		for _, p := range []struct {
			name string
			post func(e, peer *end, sgl []SGE) Status
			kind OperationType
		}{
			{"send", func(e, _ *end, sgl []SGE) Status { return e.qp.Send(1, sgl, 0) }, OperationSend},
			{"send and invalidate", func(e, peer *end, sgl []SGE) Status {
				return e.qp.SendAndInvalidate(1, sgl, 0, peer.mr.RemoteToken())
			}, OperationSend},
			{"write", func(e, peer *end, sgl []SGE) Status {
				return e.qp.Write(1, sgl, peer.mr.Address(), peer.mr.RemoteToken(), 0)
			}, OperationWrite},
		} {
			t.Run(name+" "+p.name, func(t *testing.T) {
				e, peer := r.connected(t)
				want(t, "post", p.post(e, peer, []SGE{{Buffer: e.mr.Bytes()[:8], Token: token}}), StatusSuccess)
				e.wantResult(t, 1, p.kind, StatusAccessViolation)
				receive(t, "disconnect event", peer.gone)
			})
		}
	}
}

// A mapping is made once, and ends once however often it is released.
func TestMappingTwice(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	lam := LAM{Pages: make([]LogicalAddress, 0, 1)}
	build := func(done Completion, context any) Status {
		_, s := r.a.BuildLAM(make([]byte, 64), &lam, done, context)
		return s
	}
	first, second := ask(t, build), ask(t, build) // the second call comes while the first is pending
	want(t, "build", first.finish(t), StatusSuccess)
	want(t, "build again", second.finish(t), StatusInvalidParameter)
	want(t, "and again", build(nil, nil), StatusInvalidParameter)
	copied := lam
	r.a.ReleaseLAM(&lam)
	r.a.ReleaseLAM(&lam)
	r.a.ReleaseLAM(&copied)
	e := newEnd(t, r.a, 64)
	closesLater(t, r.a)
	closed(t, e.qp.Close)
}

// A call on a closed object reports that, or does nothing. Objects that depend on it are not affected, and a second close is
// harmless.
func TestClosedObjects(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	e, peer := r.connected(t)
	m, s := e.pd.CreateMR(false, nil, nil)
	created(t, m, s)
	memory := make([]byte, 64)
	want(t, "register", m.Register(memory, MRAllowLocalWrite, nil, nil), StatusSuccess)
	w, s := e.pd.CreateMW(nil, nil)
	created(t, w, s)
	old, s := e.pd.CreateMW(nil, nil)
	created(t, old, s)
	f, s := e.pd.CreateMR(true, nil, nil)
	created(t, f, s)
	want(t, "initialize", f.InitializeFastRegister(4, true, nil, nil), StatusSuccess)
	t.Cleanup(func() { closed(t, w.Close) })
	lam, dead := mapped(t, r.a, make([]byte, 64)), newEnd(t, r.a, 64)
	never := func(any) { t.Error("a callback after an immediate close") }
	for range 2 {
		for name, c := range map[string]func(CloseCompletion, any) Status{
			"mr": m.Close, "mw": old.Close, "fast": f.Close, "qp": dead.qp.Close, "srq": dead.srq.Close,
		} {
			want(t, "close "+name, c(never, nil), StatusSuccess)
		}
	}
	ignore := func(any, Status) { t.Error("called back") }
	for name, got := range map[string][2]Status{
		"register":        {m.Register(memory, 0, nil, nil), StatusInvalidDeviceState},
		"deregister":      {m.Deregister(nil, nil), StatusInvalidDeviceState},
		"bind nothing":    {e.qp.Bind(1, m, w, nil, 0), StatusInvalidParameter},
		"bind its bytes":  {e.qp.Bind(1, m, w, memory, 0), StatusInvalidParameter},
		"bind the window": {e.qp.Bind(1, e.mr, old, e.mr.Bytes(), 0), StatusInvalidParameter},
		"invalidate":      {e.qp.Invalidate(1, old, 0), StatusInvalidParameter},
		"fast register":   {fastPost(e, f, lam.Pages, 8, 0), StatusInvalidParameter},
		"invalidate fast": {e.qp.Invalidate(1, f, 0), StatusInvalidParameter},
		"send":            {dead.qp.Send(1, nil, 0), StatusConnectionInvalid},
		"connect": {
			dead.connector(t).Connect(dead.qp, netipPort(r.a, 0), netipPort(r.b, 9), hello, ignore, nil), StatusInvalidDeviceState,
		},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %s, want %s", name, got[0].Name(), got[1].Name())
		}
	}
	if m.LocalToken() != 0 || m.RemoteToken() != 0 || m.Bytes() != nil {
		t.Error("a closed region has tokens or memory")
	}
	moveEverything(t, e, peer)
}

// Sizes that no object can have, and numbers whose sum exceeds 32 or 64 bits.
func TestSizesAtTheEdges(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	e, _ := r.connected(t)
	f, lam := e.fast(t, true), mapped(t, r.a, make([]byte, PageSize))
	srq := func(depth, sge, threshold int) Status {
		_, s := e.pd.CreateSRQ(depth, sge, threshold, nil, nil, nil, nil)
		return s
	}
	qp := func(cfg QPConfig) Status {
		cfg.ReceiveCQ, cfg.InitiatorCQ = e.cq, e.cq
		_, s := e.pd.CreateQP(cfg, nil, nil)
		return s
	}
	cq := func(depth int) Status {
		_, s := r.a.CreateCQ(depth, nil, nil, nil, nil)
		return s
	}
	fast := func(offset uint32, n, base uint64) Status {
		return e.qp.FastRegister(1, f, lam.Pages, offset, n, base, 0)
	}
	for name, s := range map[string]Status{
		"cq of nothing": cq(0), "cq below": cq(math.MinInt), "cq": cq(math.MaxInt), "cq of 2^32": cq(1 << 32),
		"resize": e.cq.Resize(math.MaxInt, nil, nil), "resize of 2^32": e.cq.Resize(1<<32+8, nil, nil),
		"srq of nothing": srq(0, 1, 0), "srq": srq(math.MaxInt, 1, 0), "srq of 2^32": srq(1<<32+4, 1, 0),
		"srq entries": srq(4, math.MaxInt, 0), "srq threshold": srq(4, 1, math.MinInt),
		"modify": e.srq.Modify(math.MaxInt, 0, nil, nil), "modify below": e.srq.Modify(0, math.MinInt, nil, nil),
		"receive depth": qp(QPConfig{ReceiveDepth: 1 << 32}), "initiator depth": qp(QPConfig{InitiatorDepth: math.MaxInt}),
		"receive entries": qp(QPConfig{MaxReceiveSGE: 1 << 32}), "entries": qp(QPConfig{MaxInitiatorSGE: -1}), "inline": qp(QPConfig{InlineSize: 1 << 32}),
		"fast offset": fast(math.MaxUint32, 8, math.MaxUint32), "fast length": fast(0, math.MaxUint64, 0), "fast 2^32": fast(0, 1<<32, 0),
		"fast 2^32 and a few": fast(0, 1<<32+8, 0), "fast end": fast(8, math.MaxUint64-7, 8), "fast base": fast(0, PageSize, -PageSize&math.MaxUint64),
	} {
		if s != StatusInvalidParameter {
			t.Errorf("%s: %s", name, s.Name())
		}
	}
	want(t, "pages", e.fast(t, true).InitializeFastRegister(math.MaxUint32, true, nil, nil), StatusImplementationLimit)
	want(t, "a threshold that is never reached", e.srq.Modify(0, math.MaxInt, nil, nil), StatusSuccess)
	want(t, "the last good one", fast(0, PageSize, -2*PageSize&math.MaxUint64), StatusSuccess)
	e.wantResult(t, 1, OperationFastRegister, StatusSuccess)
}

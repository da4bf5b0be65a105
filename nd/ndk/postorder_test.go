package ndk

import "testing"

// Flags, and the objects that a request names, are checked before the state of the queue pair, as package nd does (ND specification 11.1).
func TestFlagsAreCheckedBeforeTheState(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	idle, other := newEnd(t, r.a, 64), newEnd(t, r.b, 64)
	w, s := idle.pd.CreateMW(nil, nil)
	created(t, w, s)
	t.Cleanup(func() { closed(t, w.Close) })
	for name, s := range map[string]Status{
		"send":       idle.qp.Send(1, nil, 1<<20),
		"write":      idle.qp.Write(1, nil, 0, 0, OpSendAndSolicitEvent),
		"read":       idle.qp.Read(1, nil, 0, 0, OpInline),
		"bind":       idle.qp.Bind(1, idle.mr, w, idle.mr.Bytes(), OpInline),
		"region":     idle.qp.Bind(1, other.mr, w, idle.mr.Bytes(), 0),
		"invalidate": idle.qp.Invalidate(1, nil, 0),
	} {
		want(t, name, s, StatusInvalidParameter)
	}
	want(t, "right flags", idle.qp.Send(1, nil, 0), StatusConnectionInvalid)
	want(t, "range", idle.qp.Bind(1, idle.mr, w, other.mr.Bytes(), 0), StatusConnectionInvalid)
}

// A shared receive queue that the application closes takes no receives and serves no new queue pair, as in package nd.
func TestClosingSRQTakesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	e := newEnd(t, r.a, 64)
	srq, s := e.pd.CreateSRQ(4, 1, 0, nil, nil, nil, nil)
	created(t, srq, s)
	closed(t, srq.Close)
	want(t, "receive", srq.Receive(1, nil), StatusInvalidDeviceState)
	_, s = e.pd.CreateQPWithSRQ(srq, QPConfig{ReceiveCQ: e.cq, InitiatorCQ: e.cq}, nil, nil)
	want(t, "queue pair", s, StatusInvalidParameter)
}

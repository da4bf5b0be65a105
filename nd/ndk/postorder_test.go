package ndk

import "testing"

// Flags, and the objects that a request uses, are checked before the state of the queue pair, as in package nd (ND specification
// 11.1).
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

// A shared receive queue that the application has closed accepts no receives and no new queue pair, as in package nd.
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

// The receive that fills a new pool enables its notification at once, because a message may take that receive immediately.
func TestReceiveThatFillsAPoolIsTakenAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	client, server, connect := r.requested(t)
	closed(t, server.qp.Close)
	closed(t, server.srq.Close)
	told := make(chan Status, 8)
	srq, s := server.pd.CreateSRQ(4, 1, 1, func(_ any, s Status) { told <- s }, nil, nil, nil)
	server.srq = created(t, srq, s)
	qp, s := server.pd.CreateQPWithSRQ(srq, QPConfig{ReceiveCQ: server.cq, InitiatorCQ: server.cq, ID: 77, InitiatorDepth: 4}, nil, nil)
	server.qp = created(t, qp, s)
	accept := server.accept(t)
	want(t, "connect", connect.finish(t), StatusSuccess)
	want(t, "complete connect", client.complete(t).finish(t), StatusSuccess)
	want(t, "accept", accept.finish(t), StatusSuccess)
	want(t, "send", client.qp.Send(1, nil, 0), StatusSuccess)

	posted := make(chan Status, 1)
	srq.arming.Lock() // the notification is enabled after a message has taken the receive
	go func() { posted <- srq.Receive(2, nil) }()
	server.wantResult(t, 2, OperationReceive, StatusSuccess)
	srq.arming.Unlock()
	want(t, "receive", receive(t, "receive", posted), StatusSuccess)
	want(t, "notification", receive(t, "notification", told), StatusSuccess)
	client.wantResult(t, 1, OperationSend, StatusSuccess)
	want(t, "receive", srq.Receive(3, nil), StatusSuccess)
	want(t, "send", client.qp.Send(4, nil, 0), StatusSuccess)
	server.wantResult(t, 3, OperationReceive, StatusSuccess)
	client.wantResult(t, 4, OperationSend, StatusSuccess)
	if len(told) != 0 {
		t.Error("a pool notified although it was not armed again")
	}
}

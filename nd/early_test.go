package nd

import "testing"

// A queue pair can be used as soon as its connection was completed early, whatever the peer's application does meanwhile.
func TestCompleteConnectEarly(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1500, DatapathAuto)
	l, at := listen(t, r.b, 1)
	client, server := newEnd(t, r.a, 4096), newEnd(t, r.b, 4096)
	wantStatus(t, "complete connect", client.ctr.CompleteConnectEarly(), ErrConnectionInvalid)
	must(t, server.qp.Receive(7, []SGE{server.mr.SGE(0, 64)}))
	connected := start(func() error { return client.ctr.Connect(t.Context(), client.qp, at, ConnectParams{}) })
	must(t, l.GetConnectionRequest(t.Context(), server.ctr))
	accepted := start(func() error { return server.ctr.Accept(t.Context(), server.qp, ConnectParams{}) })
	must(t, finish(t, "connect", connected))
	must(t, client.ctr.CompleteConnectEarly())
	must(t, client.qp.Send(8, []SGE{client.mr.SGE(0, 64)}, 0))
	must(t, finish(t, "accept", accepted))
	if got := server.result(t); got.Status != StatusSuccess || got.RequestID != 7 || got.Bytes != 64 {
		t.Errorf("the message that left early: %+v", got)
	}
	wantStatus(t, "complete connect again", client.ctr.CompleteConnectEarly(), ErrConnectionInvalid)
}

// An active side that learns that the peer withdrew before it completes gets the error of CompleteConnect.
func TestCompleteConnectEarlyAbortedWhenPassiveWithdrew(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1500, DatapathAuto)
	client, server := newEnd(t, r.a, 4096), newEnd(t, r.b, 4096)
	connected := r.pendingConnect(t, client, server)
	accepted := start(func() error { return server.ctr.Accept(t.Context(), server.qp, ConnectParams{}) })
	must(t, finish(t, "connect", connected))
	must(t, server.ctr.Close())
	wantStatus(t, "accept", finish(t, "accept", accepted), ErrCanceled)
	eventually(t, "the withdrawal", func() bool { return r.a.Stats().Connections.Open == 0 })
	wantStatus(t, "complete", client.ctr.CompleteConnectEarly(), ErrConnectionAborted)
}

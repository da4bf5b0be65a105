package ndk

import (
	"bytes"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// moveEverything performs each operation between two connected ends with regions of 4096 bytes, and compares the bytes.
func moveEverything(t *testing.T, client, server *end) {
	t.Helper()
	near, far := client.mr.Bytes(), server.mr.Bytes()
	for i := range near {
		near[i] = byte(i*7 + i>>8)
	}
	same := func(what string, got, want []byte) {
		t.Helper()
		client.a.verbs.Stats() // the engines wrote the bytes, and locking them tells the race detector
		server.a.verbs.Stats()
		if !bytes.Equal(got, want) {
			t.Fatalf("the %s did not arrive whole", what)
		}
	}
	want(t, "write", client.qp.Write(1, []SGE{client.mr.SGE(0, 1024)}, server.mr.Address()+100, server.mr.RemoteToken(), 0), StatusSuccess)
	client.wantResult(t, 1, OperationWrite, StatusSuccess)
	same("Write", far[100:][:1024], near[:1024])

	want(t, "receive", server.qp.Receive(2, []SGE{server.mr.SGE(2048, 1024)}), StatusSuccess)
	want(t, "send", client.qp.Send(3, []SGE{client.mr.SGE(5, 1000)}, OpSendAndSolicitEvent), StatusSuccess)
	if r := server.wantResult(t, 2, OperationReceive, StatusSuccess); r.Bytes != 1000 {
		t.Fatalf("%+v", r)
	}
	client.wantResult(t, 3, OperationSend, StatusSuccess)
	same("Send", far[2048:][:1000], near[5:][:1000])

	want(t, "read", client.qp.Read(4, []SGE{client.mr.SGE(2048, 1024)}, server.mr.Address()+100, server.mr.RemoteToken(), OpReadFence), StatusSuccess)
	client.wantResult(t, 4, OperationRead, StatusSuccess)
	same("Read", near[2048:][:1024], far[100:][:1024])

	want(t, "receive", client.qp.Receive(5, []SGE{client.mr.SGE(0, 100)}), StatusSuccess)
	want(t, "inline", server.qp.Send(6, []SGE{{Buffer: []byte("inline")}}, OpInline|OpSilentSuccess), StatusSuccess)
	if r := client.wantResult(t, 5, OperationReceive, StatusSuccess); r.Bytes != 6 {
		t.Fatalf("%+v", r)
	}
	same("inline Send", near[:6], []byte("inline"))
}

// parted disconnects both sides in this order.
func parted(t *testing.T, first, second *end) {
	t.Helper()
	ends := first.disconnect(t)
	receive(t, "disconnect event", second.gone)
	want(t, "disconnect", second.disconnect(t).finish(t), StatusSuccess)
	want(t, "disconnect", ends.finish(t), StatusSuccess)
	select {
	case <-first.gone:
		t.Error("the side that disconnected first got a disconnect event")
	default:
	}
}

func TestMovesBytes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	client, server := r.connected(t)
	moveEverything(t, client, server)
	parted(t, client, server)
}

func TestBindAndInvalidate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	client, server := r.connected(t)
	w, s := server.pd.CreateMW(nil, nil)
	created(t, w, s)
	defer closed(t, w.Close)
	want(t, "bind", server.qp.Bind(1, server.mr, w, server.mr.Bytes()[64:128], OpAllowRemoteRead|OpAllowRemoteWrite), StatusSuccess)
	server.wantResult(t, 1, OperationBind, StatusSuccess)
	want(t, "deregister", server.mr.Deregister(nil, nil), StatusDeviceBusy)
	want(t, "write", client.qp.Write(2, []SGE{client.mr.SGE(0, 64)}, server.mr.Address()+64, w.RemoteToken(), 0), StatusSuccess)
	client.wantResult(t, 2, OperationWrite, StatusSuccess)
	// The peer's message invalidates the window.
	want(t, "receive", server.qp.Receive(3, nil), StatusSuccess)
	want(t, "send", client.qp.SendAndInvalidate(4, nil, 0, w.RemoteToken()), StatusSuccess)
	client.wantResult(t, 4, OperationSend, StatusSuccess)
	if r := server.wantResult(t, 3, OperationReceiveAndInvalidate, StatusSuccess); r.Invalidated != w.RemoteToken() {
		t.Errorf("%+v", r)
	}
	want(t, "deregister", server.mr.Deregister(nil, nil), StatusSuccess)
}

func TestSharedEndpointServesManyConnections(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, at, requests := listens(t, r.b)
	_, at2, requests2 := listens(t, r.b)
	s, st := r.a.CreateSharedEndpoint(netipPort(r.a, 0), nil, nil)
	created(t, s, st)
	local, _ := s.LocalAddress()
	dial := func(e *end, to int) *pending {
		dest := at
		if to == 1 {
			dest = at2
		}
		c := e.connector(t)
		return ask(t, func(done Completion, context any) Status {
			return c.ConnectWithSharedEndpoint(e.qp, s, dest, hello, done, context)
		})
	}
	one, two, three := newEnd(t, r.a, 64), newEnd(t, r.a, 64), newEnd(t, r.a, 64)
	p1, p2 := dial(one, 0), dial(two, 1)
	c1, c2 := receive(t, "event", requests), receive(t, "event", requests2)
	for _, c := range []*Connector{c1, c2} {
		if peer, s := c.PeerAddress(); s != StatusSuccess || peer != local {
			t.Errorf("peer %v, want %v", peer, local)
		}
	}
	want(t, "same destination", dial(three, 0).finish(t), StatusAddressAlreadyExists)
	again, st := r.a.CreateSharedEndpoint(local, nil, nil)
	want(t, "taken", st, StatusSharingViolation)
	if again != nil {
		t.Error("an object in spite of it")
	}
	// K05: the port is in use until the last connector is closed.
	over := make(chan struct{})
	want(t, "close", s.Close(func(any) { close(over) }, nil), StatusPending)
	for _, c := range []*Connector{c1, c2} {
		want(t, "reject", c.Reject(nil), StatusSuccess)
		closed(t, c.Close)
	}
	want(t, "one", p1.finish(t), StatusConnectionRefused)
	want(t, "two", p2.finish(t), StatusConnectionRefused)
	closed(t, one.ctr.Close)
	closed(t, three.ctr.Close)
	_, st = r.a.CreateSharedEndpoint(local, nil, nil)
	want(t, "taken by a connector", st, StatusSharingViolation)
	closed(t, two.ctr.Close)
	receive(t, "close of the endpoint", over)
	one.ctr, two.ctr, three.ctr = nil, nil, nil
	again, st = r.a.CreateSharedEndpoint(local, nil, nil)
	closed(t, created(t, again, st).Close)
}

func TestPausedListenerRefuses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l, at, requests := listens(t, r.b)
	e := newEnd(t, r.a, 64)
	l.ControlConnectEvents(true)
	want(t, "paused", e.dial(t, at).finish(t), StatusConnectionRefused)
	l.ControlConnectEvents(false)
	connect := e.dial(t, at) // the same connector can connect again
	want(t, "resumed", rejectUntil(t, requests, connect), StatusConnectionRefused)
	if _, _, n, s := e.ctr.ConnectionData(nil); s != StatusSuccess || n != 5 {
		t.Errorf("size query: %d, %s", n, s.Name())
	}
	buf := make([]byte, 3)
	if _, _, n, s := e.ctr.ConnectionData(buf); s != StatusBufferTooSmall || n != 5 || string(buf) != "sor" {
		t.Errorf("short buffer: %d, %s, %q", n, s.Name(), buf)
	}
}

// rejectUntil rejects requests and closes their connectors until an attempt has ended, and returns its status. If a REQ that was
// refused silently is repeated before the answer arrives, the repetition is a new request.
func rejectUntil(t *testing.T, requests <-chan *Connector, connect *pending) Status {
	t.Helper()
	for {
		select {
		case c := <-requests:
			want(t, "reject", c.Reject([]byte("sorry")), StatusSuccess)
			closed(t, c.Close)
		case s := <-connect.done:
			return s
		case <-time.After(patience):
			netlabtest.Hang(t, "rejected: nothing after %v", patience)
		}
	}
}

// A flush ends all requests in order. A post that fails still sends the requests that were deferred before it.
func TestFlushAndDefer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	client, server := r.connected(t)
	want(t, "receive", server.qp.Receive(1, nil), StatusSuccess)
	want(t, "send", client.qp.Send(2, nil, OpDefer), StatusSuccess)
	want(t, "bad flags", client.qp.Send(3, nil, OpAllowRemoteRead), StatusInvalidParameter)
	client.wantResult(t, 2, OperationSend, StatusSuccess)
	server.wantResult(t, 1, OperationReceive, StatusSuccess)
	for i := range uint64(3) {
		want(t, "receive", server.qp.Receive(i, nil), StatusSuccess)
	}
	server.qp.Flush()
	for i := range uint64(3) {
		server.wantResult(t, i, OperationReceive, StatusCancelled)
	}
}

func TestSharedReceiveQueueTellsOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	e := newEnd(t, r.a, 64)
	told := make(chan Status, 8)
	srq, s := e.pd.CreateSRQ(8, 1, 2, func(_ any, s Status) { told <- s }, nil, nil, nil)
	created(t, srq, s)
	defer closed(t, srq.Close)
	want(t, "modify", srq.Modify(0, 1, nil, nil), StatusSuccess)
	want(t, "below", receive(t, "notification", told), StatusSuccess)
	for i := range uint64(4) {
		want(t, "receive", srq.Receive(i, nil), StatusSuccess)
	}
	want(t, "depth", srq.Modify(3, 0, nil, nil), StatusBufferOverflow)
	modify := ask(t, func(done Completion, context any) Status { return srq.Modify(0, 5, done, context) })
	want(t, "modify", modify.finish(t), StatusSuccess)
	want(t, "below the new threshold", receive(t, "notification", told), StatusSuccess)
	if len(told) != 0 {
		t.Error("more notifications than were armed")
	}
}

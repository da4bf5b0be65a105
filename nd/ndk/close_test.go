package ndk

import (
	"slices"
	"strings"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// K01: the object has no pending request and no dependent object.
func TestCloseOfAnIdleObjectIsImmediate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	pd, s := r.a.CreatePD(nil, nil)
	created(t, pd, s)
	never := func(any) { t.Error("a callback after an immediate close") }
	want(t, "close", pd.Close(never, nil), StatusSuccess)
	want(t, "second close", pd.Close(never, nil), StatusSuccess)
}

// K02: pending requests are cancelled, and their callbacks have returned before the close callback runs.
func TestCloseCancelsWhatIsPending(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, server, _ := r.requested(t)
	returned := false // only callbacks access it, and they run one after the other
	over, hold := make(chan bool, 1), make(chan struct{})
	accept := ask(t, func(done Completion, context any) Status {
		return server.ctr.Accept(server.qp, hello, nil, nil, func(_ any, s Status) {
			done(context, s)
			<-hold
			returned = true
		}, nil)
	})
	want(t, "accept", accept.inline, StatusPending)
	want(t, "close", server.ctr.Close(func(any) { over <- returned }, nil), StatusPending)
	server.ctr = nil
	want(t, "accept", accept.finish(t), StatusCancelled)
	if len(over) > 0 {
		t.Error("the close callback came while the other ran")
	}
	close(hold)
	if !receive(t, "close callback", over) {
		t.Error("the close callback ran before the other callback had returned")
	}
}

// K03: the close of an object waits for its dependent objects, on all levels and in any order.
func TestCloseWaitsForSuccessors(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cq, s := r.a.CreateCQ(16, nil, nil, nil, nil)
	created(t, cq, s)
	pd, s := r.a.CreatePD(nil, nil)
	created(t, pd, s)
	srq, s := pd.CreateSRQ(16, 1, 0, nil, nil, nil, nil)
	created(t, srq, s)
	qp, s := pd.CreateQPWithSRQ(srq, QPConfig{ReceiveCQ: cq, InitiatorCQ: cq}, nil, nil)
	created(t, qp, s)
	order := make(chan string, 8)
	for name, c := range map[string]func(CloseCompletion, any) Status{"cq": cq.Close, "srq": srq.Close, "pd": pd.Close} {
		want(t, "close "+name, c(func(context any) { order <- context.(string) }, name), StatusPending)
	}
	select {
	case name := <-order:
		t.Fatalf("%s closed although a queue pair needs it", name)
	default:
	}
	want(t, "close qp", qp.Close(nil, nil), StatusSuccess)
	got := map[string]int{}
	for i := range 3 {
		got[receive(t, "close", order)] = i
	}
	if len(got) != 3 || got["pd"] < got["srq"] {
		t.Errorf("closed in the order %v", got)
	}
}

// A region waits for the windows that are bound to it, and not for windows that were bound earlier.
func TestCloseOfARegionWaitsForItsWindows(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, server := r.connected(t)
	w, s := server.pd.CreateMW(nil, nil)
	created(t, w, s)
	defer closed(t, w.Close)
	mr, s := server.pd.CreateMR(false, nil, nil)
	created(t, mr, s)
	want(t, "register", mr.Register(make([]byte, 64), MRAllowLocalWrite, nil, nil), StatusSuccess)
	want(t, "bind", server.qp.Bind(1, mr, w, mr.Bytes(), OpAllowRemoteRead), StatusSuccess)
	server.wantResult(t, 1, OperationBind, StatusSuccess)
	over := make(chan struct{})
	want(t, "close", mr.Close(func(any) { close(over) }, nil), StatusPending)
	want(t, "invalidate", server.qp.Invalidate(2, w, 0), StatusSuccess)
	server.wantResult(t, 2, OperationInvalidate, StatusSuccess)
	receive(t, "close", over)
}

// K04: a closed listener refuses requests at once, and its port is in use until the last connector that it accepted is closed.
func TestCloseOfAListenerWithConnectors(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	requests := make(chan *Connector, 4)
	l, s := r.b.CreateListener(func(_ any, c *Connector) { requests <- c }, nil, nil, nil)
	created(t, l, s)
	want(t, "listen", l.Listen(netipPort(r.b, 0), nil, nil), StatusSuccess)
	at, _ := l.LocalAddress()
	one, two := newEnd(t, r.a, 64), newEnd(t, r.a, 64)
	first := one.dial(t, at)
	c := receive(t, "connect event", requests)
	over := make(chan struct{})
	want(t, "close", l.Close(func(any) { close(over) }, nil), StatusPending)
	want(t, "later request", two.dial(t, at).finish(t), StatusConnectionRefused)
	other, s := r.b.CreateListener(func(any, *Connector) {}, nil, nil, nil)
	created(t, other, s)
	defer closed(t, other.Close)
	want(t, "port", other.Listen(at, nil, nil), StatusSharingViolation)
	want(t, "reject", c.Reject([]byte("no")), StatusSuccess)
	want(t, "first", first.finish(t), StatusConnectionRefused)
	closed(t, c.Close)
	receive(t, "close", over)
	want(t, "port", other.Listen(at, nil, nil), StatusSuccess)
}

// K06: an object is closed in its own completion callback, and the callback makes other calls.
func TestCloseInsideTheCallback(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	e := newEnd(t, r.a, 64)
	c := e.connector(t)
	e.ctr = nil
	over := make(chan Status, 1)
	var inside Status
	s := c.Connect(e.qp, netipPort(r.a, 0), netipPort(r.b, 9), hello, func(_ any, s Status) {
		if _, q := r.a.QueryInfo(); q != StatusSuccess {
			t.Errorf("query: %s", q.Name())
		}
		inside = c.Close(func(any) { over <- s }, nil)
	}, nil)
	want(t, "connect", s, StatusPending)
	want(t, "connect", receive(t, "close", over), StatusConnectionRefused)
	want(t, "close inside", inside, StatusPending)
}

// K07: a close waits for a running notification, and no notification begins later.
func TestCloseWaitsForTheNotification(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	began, goOn := make(chan struct{}), make(chan struct{})
	count := 0
	cq, s := r.a.CreateCQ(16, func(any, Status) {
		count++
		close(began)
		<-goOn
	}, nil, nil, nil)
	created(t, cq, s)
	pd, s := r.a.CreatePD(nil, nil)
	created(t, pd, s)
	qp, s := pd.CreateQP(QPConfig{ReceiveCQ: cq, InitiatorCQ: cq, ReceiveDepth: 4}, nil, nil)
	created(t, qp, s)
	cq.Arm(NotifyAny)
	want(t, "receive", qp.Receive(1, nil), StatusSuccess)
	qp.Flush()
	receive(t, "notification", began)
	cq.Arm(NotifyAny)
	want(t, "receive", qp.Receive(2, nil), StatusSuccess)
	qp.Flush() // the second notification waits until the first has returned
	want(t, "close", qp.Close(nil, nil), StatusSuccess)
	over := make(chan int)
	want(t, "close", cq.Close(func(any) { over <- count }, nil), StatusPending)
	select {
	case <-over:
		t.Fatal("closed while the notification runs")
	default:
	}
	close(goOn)
	if n := receive(t, "close", over); n != 1 {
		t.Errorf("%d notifications, the second after Close", n)
	}
	closed(t, pd.Close)
}

// K08: the adapter's close ends pending requests, and waits until the application has closed its objects.
func TestCloseOfTheAdapterWaits(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, _, connect := r.requested(t) // the objects are closed after the test, and then the adapter closes
	closesLater(t, r.b)
	want(t, "connect", connect.finish(t), StatusConnectionRefused)
	_, s := r.b.CreatePD(nil, nil)
	want(t, "create", s, StatusDeviceRemoved)
}

// An adapter whose close waits lists what it waits for. The list shrinks with everything that ends.
func TestCloseOfTheAdapterSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	a, err := OpenAdapter(AdapterConfig{Address: loopback[0], UDPPort: netlabtest.FreePort(t), Datapath: "udp"})
	must(t, err)
	waitsFor := func(want ...string) {
		t.Helper()
		eventually(t, strings.Join(want, ", "), func() bool { return slices.Equal(a.WaitsFor(), want) })
	}
	waitsFor()
	cq, s := a.CreateCQ(16, nil, nil, nil, nil)
	created(t, cq, s)
	pd, s := a.CreatePD(nil, nil)
	created(t, pd, s)
	var qps [2]*QP
	for i := range qps {
		qps[i], s = pd.CreateQP(QPConfig{ReceiveCQ: cq, InitiatorCQ: cq}, nil, nil)
		created(t, qps[i], s)
	}
	lam := &LAM{Pages: make([]LogicalAddress, 0, 1)}
	_, s = a.BuildLAM(make([]byte, 1), lam, nil, nil)
	want(t, "build", s, StatusSuccess)
	const domain, mapping = "1 protection domain is open", "1 logical address mapping is not released"
	waitsFor("1 completion queue is open", "2 queue pairs are open", domain, mapping)
	want(t, "close", cq.Close(nil, nil), StatusPending)

	over := make(chan error, 1)
	go func() { over <- a.Close() }()
	eventually(t, "close", a.verbs.Closed) // from here on no object can be created
	waitsFor("1 completion queue is closing", "2 queue pairs are open", domain, mapping)
	want(t, "close", qps[0].Close(nil, nil), StatusSuccess)
	waitsFor("1 completion queue is closing", "1 queue pair is open", domain, mapping)
	a.ReleaseLAM(lam)
	want(t, "close", qps[1].Close(nil, nil), StatusSuccess)
	waitsFor(domain)
	goOn := make(chan struct{})
	made := make(chan Status, 1)
	_, s = pd.CreateMW(func(_ any, s Status, _ *MW) {
		<-goOn
		made <- s
	}, nil)
	want(t, "create", s, StatusPending)
	waitsFor(domain, "1 callback is due or runs")
	close(goOn)
	want(t, "create", receive(t, "create", made), StatusDeviceRemoved)
	closed(t, pd.Close)
	must(t, receive(t, "close", over))
	waitsFor()
}

// A call on a closed object does not affect others: the adapter still waits for the open ones.
func TestUseAfterCloseHarmsNobodyElse(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	e := newEnd(t, r.a, 64)
	s, st := r.a.CreateSharedEndpoint(netipPort(r.a, 0), nil, nil)
	want(t, "close", created(t, s, st).Close(nil, nil), StatusSuccess)
	p := ask(t, func(done Completion, context any) Status {
		return e.connector(t).ConnectWithSharedEndpoint(e.qp, s, netipPort(r.b, 9), hello, done, context)
	})
	want(t, "connect", p.finish(t), StatusConnectionRefused)
	closed(t, e.ctr.Close)
	e.ctr = nil
	closesLater(t, r.a)
}

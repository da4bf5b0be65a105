package ndk

import (
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/testhelp"
	"github.com/ndxdp/ndxdp/provider"
)

var (
	must       = testhelp.Must
	eventually = testhelp.Eventually
)

// patience bounds every wait for an event that comes soon, and on a busy machine later.
const patience = time.Minute

// loopback is two addresses that exist without configuration, and that no other test process uses.
var loopback = netlabtest.Loopback()

var hello = ConnectParams{InboundReadLimit: 8, OutboundReadLimit: 8, PrivateData: []byte("hello")}

// want fails the test unless the status is right.
func want(t testing.TB, what string, got, want Status) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: %s, want %s", what, got.Name(), want.Name())
	}
}

// receive waits for a value that a callback sends.
func receive[T any](t testing.TB, what string, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(patience):
		netlabtest.Hang(t, "%s: nothing after %v", what, patience)
	}
	return v
}

// checks has, for each test, the checks to make after the test has closed its objects.
var checks sync.Map // of testing.TB to *[]func()

// atTheEnd runs f after all objects that the test makes from its first call on are closed.
func atTheEnd(t testing.TB, f func()) {
	list, known := checks.LoadOrStore(t, new([]func()))
	if !known {
		t.Cleanup(func() {
			checks.Delete(t)
			for _, f := range *list.(*[]func()) {
				f()
			}
		})
	}
	*list.(*[]func()) = append(*list.(*[]func()), f)
}

// pending is a request in progress. done receives its callback's status once.
type pending struct {
	inline Status
	done   chan Status
	calls  *int
}

// ask makes a request. It checks that the callback runs once if the call returned StatusPending, and otherwise never.
func ask(t testing.TB, request func(done Completion, context any) Status) *pending {
	t.Helper()
	p := &pending{done: make(chan Status, 8), calls: new(int)}
	var mu sync.Mutex
	p.inline = request(func(context any, s Status) {
		mu.Lock()
		defer mu.Unlock()
		*context.(*int)++
		p.done <- s
	}, p.calls)
	atTheEnd(t, func() {
		mu.Lock()
		defer mu.Unlock()
		if calls := *p.calls; calls != 1 && p.inline == StatusPending || calls != 0 && p.inline != StatusPending {
			t.Errorf("%d callbacks of a request that returned %s", calls, p.inline.Name())
		}
	})
	return p
}

// finish returns the status with which the request ends.
func (p *pending) finish(t testing.TB) Status {
	t.Helper()
	if p.inline != StatusPending {
		return p.inline
	}
	return receive(t, "callback", p.done)
}

// closed closes an object and waits until the close has finished.
func closed(t testing.TB, closeObject func(CloseCompletion, any) Status) {
	t.Helper()
	over := make(chan struct{})
	if s := closeObject(func(any) { close(over) }, nil); s == StatusPending {
		receive(t, "close", over)
	} else if s != StatusSuccess {
		t.Errorf("close: %s", s.Name())
	}
}

// rig is two adapters, by default on loopback addresses over plain sockets, which need no privilege.
type rig struct {
	a, b *Adapter
	addr [2]netip.Addr
	port uint16
	pair *netlab.Pair // nil on loopback
}

// quiet occupies a UDP port and ignores ND packets. With a closed port the kernel would answer with ICMP errors.
func quiet(t testing.TB, at netip.AddrPort) {
	t.Helper()
	s, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
}

// sync waits until the engines have finished their polls. One-sided accesses of peers cause no event here, so the test must know
// that no engine is accessing the memory.
func (a *Adapter) sync() {
	for _, shard := range a.verbs.Shards {
		shard.Do(func(*provider.Engine) {})
	}
}

func openAdapter(t testing.TB, cfg AdapterConfig) *Adapter {
	t.Helper()
	a, err := OpenAdapter(cfg)
	must(t, err)
	closesInTime(t, a)
	return a
}

// closesInTime closes the adapter after the test. The test must have closed all objects by then.
func closesInTime(t testing.TB, a *Adapter) {
	atTheEnd(t, func() {})
	t.Cleanup(func() {
		over := make(chan error, 1)
		go func() { over <- a.Close() }()
		if err := receive(t, "close the adapter", over); err != nil {
			t.Error(err)
		}
	})
}

// closesLater begins to close an adapter. The close waits for open objects.
func closesLater(t testing.TB, a *Adapter) {
	t.Helper()
	over := make(chan error, 1)
	go func() { over <- a.Close() }()
	eventually(t, "the adapter gives up its own place among its objects", a.root.ending)
	a.root.mu.Lock()
	defer a.root.mu.Unlock()
	if a.root.over || len(over) > 0 {
		t.Error("the adapter closed although objects are open")
	}
}

func newRig(t testing.TB) *rig {
	t.Helper()
	port := netlabtest.FreePort(t)
	r := &rig{addr: netlabtest.Loopback(), port: port}
	r.a = openAdapter(t, AdapterConfig{Address: r.addr[0], UDPPort: port, Datapath: "udp"})
	r.b = openAdapter(t, AdapterConfig{Address: r.addr[1], UDPPort: port, Datapath: "udp"})
	return r
}

// newVethRig is two adapters over AF_XDP on the two sides of a veth pair, which needs root.
func newVethRig(t testing.TB) *rig {
	t.Helper()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	r := &rig{addr: [2]netip.Addr{pair.AddrA.Addr(), pair.AddrB.Addr()}, port: 14791, pair: pair}
	must(t, pair.A.Do(func() error { r.a = openAdapter(t, AdapterConfig{Address: r.addr[0]}); return nil }))
	must(t, pair.B.Do(func() error { r.b = openAdapter(t, AdapterConfig{Address: r.addr[1]}); return nil }))
	return r
}

// removeInterface removes the interface of a, and waits until the adapter has noticed.
func (r *rig) removeInterface(t testing.TB) {
	t.Helper()
	must(t, r.pair.A.Do(func() error {
		return netlink.LinkDel(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: r.pair.IfindexA}})
	}))
	eventually(t, "the adapter is removed", r.a.verbs.Closed)
}

// end has the objects of one side of a connection.
type end struct {
	a    *Adapter
	cq   *CQ
	told chan Status // notifications of cq
	pd   *PD
	qp   *QP
	mr   *MR
	srq  *SRQ       // of 4 receives
	ctr  *Connector // nil on the passive side until a request arrives
	gone chan struct{}
}

func created[T any](t testing.TB, object T, s Status) T {
	t.Helper()
	want(t, "create", s, StatusSuccess)
	return object
}

func newEnd(t testing.TB, a *Adapter, size int) *end {
	t.Helper()
	atTheEnd(t, func() {})
	e := &end{a: a, told: make(chan Status, 64), gone: make(chan struct{}, 8)}
	cq, s := a.CreateCQ(256, func(_ any, s Status) { e.told <- s }, nil, nil, nil)
	e.cq = created(t, cq, s)
	pd, s := a.CreatePD(nil, nil)
	e.pd = created(t, pd, s)
	qp, s := e.pd.CreateQP(QPConfig{ReceiveCQ: e.cq, InitiatorCQ: e.cq, ID: 77, ReceiveDepth: 16, InitiatorDepth: 16, InlineSize: 64}, nil, nil)
	e.qp = created(t, qp, s)
	srq, s := e.pd.CreateSRQ(4, 1, 0, nil, nil, nil, nil)
	e.srq = created(t, srq, s)
	mr, s := e.pd.CreateMR(false, nil, nil)
	e.mr = created(t, mr, s)
	want(t, "register", e.mr.Register(make([]byte, size), MRAllowRemoteRead|MRAllowRemoteWrite, nil, nil), StatusSuccess)
	t.Cleanup(func() {
		if e.ctr != nil {
			closed(t, e.ctr.Close)
		}
		for _, c := range []func(CloseCompletion, any) Status{e.qp.Close, e.srq.Close, e.mr.Close, e.cq.Close, e.pd.Close} {
			closed(t, c)
		}
	})
	return e
}

func (e *end) connector(t testing.TB) *Connector {
	t.Helper()
	if e.ctr == nil {
		c, s := e.a.CreateConnector(nil, nil)
		e.ctr = created(t, c, s)
	}
	return e.ctr
}

// result waits for one result.
func (e *end) result(t testing.TB) ResultEx {
	t.Helper()
	var res [1]ResultEx
	for e.cq.GetResultsEx(res[:]) == 0 {
		e.cq.Arm(NotifyAny)
		if s := receive(t, "notification", e.told); s != StatusSuccess {
			t.Fatalf("notification: %s", s.Name())
		}
	}
	return res[0]
}

func (e *end) wantResult(t testing.TB, context uint64, kind OperationType, status Status) ResultEx {
	t.Helper()
	r := e.result(t)
	if r.RequestID != context || r.Type != kind || r.Status != status || r.QPID != 77 {
		t.Fatalf("result %+v (%s), want request %d of type %d with %s", r, r.Status.Name(), context, kind, status.Name())
	}
	return r
}

// listens is a listener on any port of the adapter, and the connectors of its requests.
func listens(t testing.TB, a *Adapter) (*Listener, netip.AddrPort, <-chan *Connector) {
	t.Helper()
	requests := make(chan *Connector, 16)
	l, s := a.CreateListener(func(_ any, c *Connector) { requests <- c }, nil, nil, nil)
	created(t, l, s)
	t.Cleanup(func() { closed(t, l.Close) })
	want(t, "listen", l.Listen(netip.AddrPortFrom(a.verbs.Addr, 0), nil, nil), StatusSuccess)
	at, s := l.LocalAddress()
	want(t, "local address", s, StatusSuccess)
	return l, at, requests
}

// dial makes e connect.
func (e *end) dial(t testing.TB, to netip.AddrPort) *pending {
	t.Helper()
	c := e.connector(t)
	return ask(t, func(done Completion, context any) Status {
		return c.Connect(e.qp, netip.AddrPortFrom(e.a.verbs.Addr, 0), to, hello, done, context)
	})
}

func (e *end) accept(t testing.TB) *pending {
	t.Helper()
	return ask(t, func(done Completion, context any) Status {
		return e.ctr.Accept(e.qp, hello, func(any) { e.gone <- struct{}{} }, nil, done, context)
	})
}

func (e *end) complete(t testing.TB) *pending {
	t.Helper()
	return ask(t, func(done Completion, context any) Status {
		return e.ctr.CompleteConnect(func(any) { e.gone <- struct{}{} }, nil, done, context)
	})
}

func (e *end) disconnect(t testing.TB) *pending {
	t.Helper()
	return ask(t, func(done Completion, context any) Status { return e.ctr.Disconnect(done, context) })
}

// requested brings two ends to the state in which the passive one has a request.
func (r *rig) requested(t testing.TB) (client, server *end, connect *pending) {
	t.Helper()
	client, server = newEnd(t, r.a, 4096), newEnd(t, r.b, 4096)
	_, at, requests := listens(t, r.b)
	t.Cleanup(func() { // before the listener closes, because the listener waits for it
		if server.ctr != nil {
			closed(t, server.ctr.Close)
		}
	})
	connect = client.dial(t, at)
	want(t, "connect", connect.inline, StatusPending)
	server.ctr = receive(t, "connect event", requests)
	return client, server, connect
}

// accepted brings two ends to the state in which the active one can complete the connection.
func (r *rig) accepted(t testing.TB) (client, server *end, accept *pending) {
	t.Helper()
	return r.acceptedBy(t, (*end).accept)
}

// acceptedBy is accepted with another accept function.
func (r *rig) acceptedBy(t testing.TB, call func(*end, testing.TB) *pending) (client, server *end, accept *pending) {
	t.Helper()
	client, server, connect := r.requested(t)
	accept = call(server, t)
	want(t, "accept", accept.inline, StatusPending)
	want(t, "connect", connect.finish(t), StatusSuccess)
	return client, server, accept
}

// connected makes a connection.
func (r *rig) connected(t testing.TB) (client, server *end) {
	t.Helper()
	client, server, accept := r.accepted(t)
	want(t, "complete connect", client.complete(t).finish(t), StatusSuccess)
	want(t, "accept", accept.finish(t), StatusSuccess)
	return client, server
}

func netipPort(a *Adapter, port uint16) netip.AddrPort { return netip.AddrPortFrom(a.verbs.Addr, port) }

// useUpPorts takes every ephemeral port of a.
func (r *rig) useUpPorts(t testing.TB) {
	t.Helper()
	var taken []*provider.SharedEndpoint
	r.a.verbs.Do(func(e *provider.Engine) {
		for o := provider.OutcomeSuccess; o == provider.OutcomeSuccess; {
			var s *provider.SharedEndpoint
			if s, o = e.NewSharedEndpoint(provider.EndpointFrom(netipPort(r.a, 0))); o == provider.OutcomeSuccess {
				taken = append(taken, s)
			}
		}
	})
	if len(taken) < 16000 {
		t.Fatalf("only %d ports", len(taken))
	}
}

// silence stops an adapter until the test ends, so that its peers receive nothing.
func silence(t testing.TB, a *Adapter) {
	t.Helper()
	silent, release, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		a.verbs.DoAll(func() {
			close(silent)
			<-release
		})
	}()
	receive(t, "silence", silent)
	t.Cleanup(func() {
		close(release)
		<-over
	})
}

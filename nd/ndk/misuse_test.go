package ndk

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"

	"github.com/ndxdp/ndxdp/internal/conformance"
)

// Remote addresses whose sum with the length exceeds 32 or 64 bits, or exceeds the region by one byte. Nothing is written or read.
func TestRemoteAddressesAtTheEdges(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const size, n = 4096, 16
	for _, c := range conformance.RemoteAddresses(size, n) {
		for kind, post := range map[OperationType]func(*QP, uint64, []SGE, uint64, Token, OpFlags) Status{
			OperationWrite: (*QP).Write, OperationRead: (*QP).Read,
		} {
			client, server := r.connected(t)
			near, far := client.mr.Bytes(), server.mr.Bytes()
			for i := range near {
				near[i] = 0xaa
			}
			want(t, c.Name, post(client.qp, 1, []SGE{client.mr.SGE(0, c.Length)}, c.At(server.mr.Address()), server.mr.RemoteToken(), 0), StatusSuccess)
			status := granted(c.Granted)
			if !c.Granted && kind == OperationRead {
				status = StatusRemoteResources // its bounds (ND specification 2.4)
			}
			if res := client.result(t); res.Status != status || res.Type != kind {
				t.Errorf("%d, %s: %s, want %s", kind, c.Name, res.Status.Name(), status.Name())
			}
			r.a.sync()
			r.b.sync()
			for i := range far {
				if !c.Granted && (far[i] != 0 || near[i] != 0xaa) {
					t.Fatalf("%d, %s: byte %d moved", kind, c.Name, i)
				}
			}
		}
	}
}

// granted returns the status of a request, depending on whether its memory is granted.
func granted(yes bool) Status {
	if yes {
		return StatusSuccess
	}
	return StatusAccessViolation
}

// Requests whose entries are nil, empty, or adjacent to their region.
func TestEntriesAtTheEdges(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	memory := make([]byte, 8192)
	for _, c := range conformance.Entries(memory) {
		client, server := r.connected(t)
		m, s := client.pd.CreateMR(false, nil, nil)
		created(t, m, s)
		want(t, "register", m.Register(memory[4096:], 0, nil, nil), StatusSuccess)
		entry := []SGE{{Buffer: c.Bytes, Token: m.LocalToken()}}
		want(t, c.Name, client.qp.Write(1, entry, server.mr.Address(), server.mr.RemoteToken(), 0), StatusSuccess)
		if res := client.result(t); res.Status != granted(c.Granted) {
			t.Errorf("%s: %s", c.Name, res.Status.Name())
		}
		closed(t, m.Close)
	}
	e := newEnd(t, r.a, 64)
	want(t, "no list", e.qp.Receive(1, nil), StatusSuccess)
	want(t, "no entries", e.srq.Receive(1, []SGE{}), StatusSuccess)
	if n := e.cq.GetResults(nil); n != 0 {
		t.Errorf("%d results for nothing", n)
	}
}

// A token is invalid after its region was deregistered, also if the same memory is registered again.
func TestTokenAfterDeregistration(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, again := range []bool{false, true} {
		client, server := r.connected(t)
		memory, addr, token := server.mr.Bytes(), server.mr.Address(), server.mr.RemoteToken()
		mine := client.mr.SGE(0, 8)
		copy(mine.Buffer, "written!")
		want(t, "deregister", server.mr.Deregister(nil, nil), StatusSuccess)
		if again {
			want(t, "register", server.mr.Register(memory, MRAllowRemoteWrite, nil, nil), StatusSuccess)
		}
		want(t, "write", client.qp.Write(1, []SGE{mine}, addr, token, 0), StatusSuccess)
		client.wantResult(t, 1, OperationWrite, StatusAccessViolation)
		r.b.sync()
		if memory[0] != 0 {
			t.Error("the memory was written")
		}

		client, server = r.connected(t) // the same with the local token
		mine = client.mr.SGE(0, 8)
		want(t, "deregister", client.mr.Deregister(nil, nil), StatusSuccess)
		if again {
			want(t, "register", client.mr.Register(make([]byte, 64), 0, nil, nil), StatusSuccess)
		}
		want(t, "write", client.qp.Write(2, []SGE{mine}, server.mr.Address(), server.mr.RemoteToken(), 0), StatusSuccess)
		client.wantResult(t, 2, OperationWrite, StatusAccessViolation)
	}
}

// A program may have ten thousand regions at once over the same memory, each with its own token (ND specification 4).
func TestTenThousandRegions(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	client, server := r.connected(t)
	const count = 10_000
	memory, tokens, regions := make([]byte, 64), map[Token]bool{}, make([]*MR, count)
	for i := range regions {
		m, s := server.pd.CreateMR(false, nil, nil)
		regions[i] = created(t, m, s)
		want(t, "register", m.Register(memory, MRAllowRemoteWrite, nil, nil), StatusSuccess)
		tokens[m.RemoteToken()] = true
	}
	if len(tokens) != count {
		t.Errorf("%d tokens for %d regions", len(tokens), count)
	}
	for i := 0; i < count; i += count / 10 {
		m := regions[i]
		want(t, "write", client.qp.Write(uint64(i), []SGE{client.mr.SGE(0, 8)}, m.Address(), m.RemoteToken(), 0), StatusSuccess)
		client.wantResult(t, uint64(i), OperationWrite, StatusSuccess)
	}
	for _, m := range regions {
		want(t, "close", m.Close(nil, nil), StatusSuccess)
	}
	m := regions[count/2]
	want(t, "write", client.qp.Write(1, []SGE{client.mr.SGE(0, 8)}, m.Address(), 1, 0), StatusSuccess)
	client.wantResult(t, 1, OperationWrite, StatusAccessViolation)
}

// stormCalls has calls of every method, on objects that many goroutines share. Most calls are wrong at any moment. None may do harm
// or return an undefined status.
func stormCalls(e *end, l *Listener, w *MW, at netip.AddrPort, told *sync.WaitGroup) []func() Status {
	one := []SGE{e.mr.SGE(0, 8)}
	memory := make([]byte, 64)
	from := netip.AddrPortFrom(e.a.verbs.Addr, 0)
	asks := func(request func(done Completion, context any) Status) func() Status {
		return func() Status {
			told.Add(1)
			s := request(func(any, Status) { told.Done() }, nil)
			if s != StatusPending {
				told.Done()
			}
			return s
		}
	}
	return []func() Status{
		asks(func(done Completion, context any) Status { return e.ctr.Connect(e.qp, from, at, hello, done, context) }),
		asks(func(done Completion, context any) Status { return e.ctr.CompleteConnect(nil, nil, done, context) }),
		asks(func(done Completion, context any) Status {
			return e.ctr.Accept(e.qp, hello, nil, nil, done, context)
		}),
		asks(func(done Completion, context any) Status { return e.ctr.Disconnect(done, context) }),
		asks(func(done Completion, context any) Status {
			return e.mr.Register(memory, MRAllowRemoteWrite, done, context)
		}),
		asks(func(done Completion, context any) Status { return e.mr.Deregister(done, context) }),
		asks(func(done Completion, context any) Status { return e.cq.Resize(1000+rand.IntN(1000), done, context) }),
		asks(func(done Completion, context any) Status { return e.srq.Modify(8, 2, done, context) }),
		asks(func(done Completion, context any) Status { return l.Listen(from, done, context) }),
		func() Status { return e.ctr.Reject(nil) },
		func() Status { _, _, _, s := e.ctr.ConnectionData(nil); return s },
		func() Status { _, s := e.ctr.LocalAddress(); return s },
		func() Status { _, s := e.ctr.PeerAddress(); return s },
		func() Status { _, s := l.LocalAddress(); return s },
		func() Status { l.ControlConnectEvents(rand.IntN(2) == 0); return StatusSuccess },
		func() Status { return e.qp.Send(1, one, 0) },
		func() Status { return e.qp.SendAndInvalidate(1, one, 0, 7) },
		func() Status { return e.qp.Write(2, one, 5, 6, OpReadFence) },
		func() Status { return e.qp.Read(3, one, 5, 6, 0) },
		func() Status { return e.qp.Receive(4, one) },
		func() Status { return e.qp.Bind(5, e.mr, w, memory, OpAllowRemoteRead) },
		func() Status { return e.qp.Invalidate(6, w, 0) },
		func() Status { e.qp.Flush(); return StatusSuccess },
		func() Status { return e.srq.Receive(7, one) },
		func() Status { e.cq.GetResultsEx(make([]ResultEx, 8)); return StatusSuccess },
		func() Status { e.cq.Arm(NotifyType(rand.IntN(4))); return StatusSuccess },
		func() Status { return e.cq.ControlInterruptModeration(uint32(rand.IntN(3)), uint32(rand.IntN(4))) },
		func() Status { e.mr.LocalToken(); e.mr.RemoteToken(); e.mr.Bytes(); return StatusSuccess },
		func() Status { _, s := e.a.QueryInfo(); return s },
	}
}

// Many goroutines call all methods of the same objects. Then all objects are closed during these calls, twice.
func TestEveryoneCallsEverything(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	e := newEnd(t, r.a, 4096)
	drop := func(_ any, c *Connector) { c.Close(nil, nil) }
	far, s := r.b.CreateListener(drop, nil, nil, nil)
	created(t, far, s)
	t.Cleanup(func() { closed(t, far.Close) })
	want(t, "listen", far.Listen(netipPort(r.b, 0), nil, nil), StatusSuccess)
	at, _ := far.LocalAddress()
	l, s := r.a.CreateListener(drop, nil, nil, nil)
	created(t, l, s)
	w, s := e.pd.CreateMW(nil, nil)
	created(t, w, s)
	e.connector(t)
	calm := make(chan struct{})
	defer close(calm)
	go func() { // without a receiver of notifications, all callbacks of the adapter would wait
		for {
			select {
			case <-e.told:
			case <-calm:
				return
			}
		}
	}()
	var told, all sync.WaitGroup
	calls := stormCalls(e, l, w, at, &told)
	for g := range 16 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 7))
			for i := range 400 {
				call := rng.IntN(len(calls))
				if s := calls[call](); s.Name() == fmt.Sprintf("%#08x", uint32(s)) {
					t.Errorf("call %d: %s is no status", call, s.Name())
				}
				for n := 0; g == 0 && i == 300 && n < 2; n++ {
					for _, c := range []func(CloseCompletion, any) Status{e.ctr.Close, e.qp.Close, e.srq.Close, w.Close, e.mr.Close, e.cq.Close, l.Close, e.pd.Close} {
						c(nil, nil)
					}
				}
			}
		})
	}
	over := make(chan struct{})
	go func() {
		all.Wait()
		told.Wait() // the callback of every pending request has run
		close(over)
	}()
	receive(t, "all calls", over)
	client, server := r.connected(t) // the adapter still works
	moveEverything(t, client, server)
}

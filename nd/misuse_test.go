package nd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/conformance"
)

// Remote addresses whose sum with the length exceeds 32 or 64 bits, or exceeds the region by one byte. Nothing is written, read or
// counted as granted.
func TestRemoteAddressesAtTheEdges(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	const size, n = 4096, 16
	for _, c := range conformance.RemoteAddresses(size, n) {
		want := granted(c.Granted)
		for _, kind := range []RequestType{RequestWrite, RequestRead} {
			client, server := r.connect(t, size)
			post := client.qp.Write
			if kind == RequestRead {
				post = client.qp.Read
			}
			for i := range client.mr.Bytes() {
				client.mr.Bytes()[i] = 0xaa
			}
			must(t, post(1, []SGE{client.mr.SGE(0, c.Length)}, c.At(server.mr.Address()), server.mr.RemoteToken(), 0))
			if res := client.result(t); res.Status != want {
				t.Errorf("%s, %s: %s, want %s", kind, c.Name, res.Status.Name(), want.Name())
			}
			if reads, writes := server.mr.RemoteAccesses(); want != StatusSuccess && reads+writes != 0 {
				t.Errorf("%s, %s: %d reads and %d writes were granted", kind, c.Name, reads, writes)
			}
		}
	}
}

// granted returns the status of a request, depending on whether its memory is granted.
func granted(yes bool) Status {
	if yes {
		return StatusSuccess
	}
	return ErrAccessViolation
}

// Requests whose entries are nil, empty, or adjacent to their region.
func TestEntriesAtTheEdges(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	memory := make([]byte, 8192)
	for _, c := range conformance.Entries(memory) {
		client, server := r.connect(t, 8192)
		m, err := r.a.RegisterMemory(memory[4096:], 0)
		must(t, err)
		entry := []SGE{{Buffer: c.Bytes, Token: m.LocalToken()}}
		must(t, client.qp.Write(1, entry, server.mr.Address(), server.mr.RemoteToken(), 0))
		if res := client.result(t); res.Status != granted(c.Granted) {
			t.Errorf("%s: %s", c.Name, res.Status.Name())
		}
		must(t, m.Close())
	}
}

// A token is invalid after its region was deregistered, also if the same memory is registered again.
func TestTokenAfterDeregistration(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	for _, again := range []bool{false, true} {
		client, server := r.connect(t, 4096)
		m, err := r.b.RegisterMemory(make([]byte, 64), MRAllowRemoteWrite)
		must(t, err)
		addr, token := m.Address(), m.RemoteToken()
		must(t, m.Deregister())
		if again {
			must(t, m.Register(m.Bytes(), MRAllowRemoteWrite))
		}
		must(t, client.qp.Write(1, []SGE{client.mr.SGE(0, 8)}, addr, token, 0))
		client.wantResult(t, 1, RequestWrite, ErrAccessViolation)
		r.b.sync()
		if m.Bytes()[0] != 0 {
			t.Error("the memory was written")
		}
		must(t, m.Close())
		must(t, m.Close())
		must(t, server.ctr.NotifyDisconnect(t.Context()))
	}
}

// stormCalls has calls of every method, on objects that many goroutines share. Most calls are wrong at any moment. None may do
// harm, wait for ever or return an error without a status.
func stormCalls(ctx context.Context, e *end, l *Listener, p *Provider, m *MemoryRegion, at netip.AddrPort) []func() error {
	var res [8]Result
	var mu sync.Mutex
	one := []SGE{e.mr.SGE(0, 8)}
	return []func() error{
		func() error { return e.ctr.Bind(e.anyPort()) },
		func() error { return e.ctr.Connect(ctx, e.qp, at, helloParams) },
		func() error { return e.ctr.CompleteConnect(ctx) },
		func() error { return e.accept(ctx) },
		func() error { return e.ctr.Reject(nil) },
		func() error { return e.ctr.NotifyDisconnect(ctx) },
		func() error { return e.ctr.Disconnect(ctx) },
		func() error { e.ctr.CancelOverlappedRequests(); return nil },
		func() error { _, err := e.ctr.PrivateData(); return err },
		func() error { _, err := e.ctr.PeerAddress(); return err },
		func() error { _, _, err := e.ctr.ReadLimits(); return err },
		func() error { return l.Bind(at) },
		func() error { return l.Listen(1) },
		func() error { return l.GetConnectionRequest(ctx, e.ctr) },
		func() error { l.CancelOverlappedRequests(); return nil },
		func() error { return e.qp.Send(1, one, 0) },
		func() error { return e.qp.Write(2, one, 5, 6, OpReadFence) },
		func() error { return e.qp.Read(3, one, 5, 6, 0) },
		func() error { return e.qp.Receive(4, one) },
		func() error { e.qp.Flush(); return nil },
		func() error { mu.Lock(); defer mu.Unlock(); e.cq.GetResults(res[:]); return nil },
		func() error { return e.cq.Notify(ctx, NotifyAny) },
		func() error { e.cq.CancelOverlappedRequests(); return nil },
		func() error { return e.cq.Resize(1000 + rand.IntN(1000)) },
		func() error { return e.cq.Moderate(time.Millisecond, uint32(rand.IntN(4))) },
		func() error { return m.Register(some, MRAllowLocalWrite) },
		func() error { return m.Deregister() },
		func() error { m.LocalToken(); m.RemoteAccesses(); m.Bytes(); return nil },
		func() error { _, err := p.QueryAddressList(); return err },
		func() error { return p.NotifyAddressChange(ctx) },
		func() error { p.CancelOverlappedRequests(); return nil },
		func() error { _, err := e.cq.adapter.Query(); return err },
	}
}

// Many goroutines call all methods of the same objects. Then all objects are closed during these calls, twice.
func TestEveryoneCallsEverything(t *testing.T) {
	r, _ := newLoopRig(t, DatapathUDP)
	e, peer := newEnd(t, r.a, 4096), newEnd(t, r.b, 4096)
	_, at := listen(t, r.b, 0)
	l, err := r.a.CreateListener()
	must(t, err)
	m, err := r.a.CreateMemoryRegion()
	must(t, err)
	p, err := OpenProvider()
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	calls := stormCalls(ctx, e, l, p, m, at)
	var all sync.WaitGroup
	for g := range 16 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 7))
			for i := range 400 {
				short, stop := context.WithTimeout(ctx, time.Millisecond)
				call := rng.IntN(len(calls))
				if err := stormCall(short, e, l, p, calls, call); err != nil && !isStatus(err) {
					t.Errorf("call %d: %v", call, err)
				}
				stop()
				if g == 0 && i == 300 {
					for range 2 {
						if err := errors.Join(e.ctr.Close(), e.qp.Close(), e.cq.Close(), l.Close(), m.Close()); err != nil {
							t.Error(err)
						}
					}
				}
			}
		})
	}
	done := start(func() error { all.Wait(); return nil })
	must(t, finish(t, "all calls", done))
	must(t, p.Close())
	wantStatus(t, "close again", p.Close(), ErrDeviceNotReady)
	// The adapter still works.
	again := newEnd(t, r.a, 4096)
	r.join(t, again, peer)
}

// stormCall makes a call, and cancels pending calls when ctx ends.
func stormCall(ctx context.Context, e *end, l *Listener, p *Provider, calls []func() error, call int) error {
	done := start(calls[call])
	for {
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			e.ctr.CancelOverlappedRequests()
			e.cq.CancelOverlappedRequests()
			l.CancelOverlappedRequests()
			p.CancelOverlappedRequests()
			select {
			case err := <-done:
				return err
			case <-time.After(time.Millisecond):
			}
		}
	}
}

// isStatus reports whether an error has a known status.
func isStatus(err error) bool {
	var s Status
	return errors.As(err, &s) && s.Failed() && s.Name() != fmt.Sprintf("%#08x", uint32(s))
}

package nd

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/provider"
)

func TestConnectRefusedWithoutListener(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	e := newEnd(t, r.a, 4096)
	err := e.ctr.Connect(t.Context(), e.qp, netip.AddrPortFrom(r.addr[1], 7999), ConnectParams{})
	wantStatus(t, "connect", err, ErrConnectionRefused)
	wantOneLine(t, err, "nothing listens on ND port 7999")
	err = e.ctr.Connect(t.Context(), e.qp, netip.MustParseAddrPort("[2001:db8::1]:7999"), ConnectParams{})
	wantStatus(t, "connect to another family", err, ErrInvalidAddress)
	wantOneLine(t, err, r.addr[0].String(), "of the peer's family")
	if data, err := e.ctr.PrivateData(); err != nil || len(data) != 0 {
		t.Errorf("private data %q, %v, want none", data, err)
	}
	// The connector and the queue pair can be used again (C11).
	s := newEnd(t, r.b, 4096)
	r.join(t, e, s)
}

func TestConnectRefusedWhenBacklogIsFull(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1500, DatapathAuto)
	l, at := listen(t, r.b, 1)
	first, second, server := newEnd(t, r.a, 4096), newEnd(t, r.a, 4096), newEnd(t, r.b, 4096)
	queued := start(func() error { return first.ctr.Connect(t.Context(), first.qp, at, ConnectParams{}) })
	eventually(t, "request queued", func() bool { return r.b.Stats().Connections.Open == 1 })
	wantStatus(t, "second", second.ctr.Connect(t.Context(), second.qp, at, ConnectParams{}), ErrConnectionRefused)
	// The queued request is still there. When it is taken, its place in the backlog becomes free.
	must(t, l.GetConnectionRequest(t.Context(), server.ctr))
	must(t, server.ctr.Reject(nil))
	wantStatus(t, "first", finish(t, "connect", queued), ErrConnectionRefused)
}

// A request whose sender gave up is not handed to the application, and frees its place in the backlog.
func TestAbandonedRequestLeavesTheBacklog(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1500, DatapathAuto)
	l, at := listen(t, r.b, 1)
	first, second, server := newEnd(t, r.a, 4096), newEnd(t, r.a, 4096), newEnd(t, r.b, 4096)
	queued := start(func() error { return first.ctr.Connect(t.Context(), first.qp, at, ConnectParams{}) })
	eventually(t, "request queued", func() bool { return r.b.Stats().Connections.Open == 1 })
	first.ctr.CancelOverlappedRequests()
	wantStatus(t, "first", finish(t, "connect", queued), ErrCanceled)
	// The REJ of the sender is on its way: until it arrives the backlog is full.
	again := start(func() error {
		for {
			err := second.ctr.Connect(t.Context(), second.qp, at, ConnectParams{PrivateData: []byte("second")})
			if !errors.Is(err, ErrConnectionRefused) {
				return err
			}
		}
	})
	eventually(t, "second request queued", func() bool { return r.b.Stats().Connections.Open == 2 })
	must(t, l.GetConnectionRequest(t.Context(), server.ctr))
	if data, err := server.ctr.PrivateData(); err != nil || string(data) != "second" {
		t.Fatalf("the request has the private data %q, %v, want that of the second", data, err)
	}
	accepted := start(func() error { return server.ctr.Accept(t.Context(), server.qp, ConnectParams{}) })
	must(t, finish(t, "connect", again))
	must(t, second.ctr.CompleteConnect(t.Context()))
	must(t, finish(t, "accept", accepted))
}

func TestConnectRejectedCarriesPrivateData(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	client, server := newEnd(t, r.a, 4096), newEnd(t, r.b, 4096)
	connected := r.pendingConnect(t, client, server)
	must(t, server.ctr.Reject([]byte("not today")))
	wantStatus(t, "connect", finish(t, "connect", connected), ErrConnectionRefused)
	if data, err := client.ctr.PrivateData(); err != nil || string(data) != "not today" {
		t.Errorf("private data %q, %v", data, err)
	}
	wantStatus(t, "reject again", server.ctr.Reject(nil), ErrConnectionInvalid)
	wantStatus(t, "accept", server.ctr.Accept(t.Context(), server.qp, ConnectParams{}), ErrConnectionInvalid)
}

func TestAcceptRefusedWhenActiveDeclines(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	client, server := newEnd(t, r.a, 4096), newEnd(t, r.b, 4096)
	must(t, client.qp.Receive(5, []SGE{client.mr.SGE(0, 8)}))
	connected := r.pendingConnect(t, client, server)
	accepted := start(func() error { return server.ctr.Accept(t.Context(), server.qp, ConnectParams{}) })
	must(t, finish(t, "connect", connected))
	must(t, client.ctr.Reject([]byte("changed my mind")))
	wantStatus(t, "accept", finish(t, "accept", accepted), ErrConnectionRefused)
	if data, err := server.ctr.PrivateData(); err != nil || string(data) != "changed my mind" {
		t.Errorf("private data %q, %v", data, err)
	}
	wantStatus(t, "complete", client.ctr.CompleteConnect(t.Context()), ErrConnectionInvalid)
	client.wantNoResult(t) // Q04: the receive stays posted
}

func TestAcceptAbortedWhenActiveGaveUp(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	client, server := newEnd(t, r.a, 4096), newEnd(t, r.b, 4096)
	connected := r.pendingConnect(t, client, server)
	client.ctr.CancelOverlappedRequests()
	wantStatus(t, "connect", finish(t, "connect", connected), ErrCanceled)
	err := server.ctr.Accept(t.Context(), server.qp, ConnectParams{})
	wantStatus(t, "accept", err, ErrConnectionAborted)
	if data, err := server.ctr.PrivateData(); err != nil || string(data) != "hello" { // C43
		t.Errorf("private data %q, %v, want that of the request", data, err)
	}
}

func TestCompleteConnectAbortedWhenPassiveWithdrew(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	client, server := newEnd(t, r.a, 4096), newEnd(t, r.b, 4096)
	connected := r.pendingConnect(t, client, server)
	accepted := start(func() error { return server.ctr.Accept(t.Context(), server.qp, ConnectParams{}) })
	must(t, finish(t, "connect", connected))
	must(t, server.ctr.Close())
	wantStatus(t, "accept", finish(t, "accept", accepted), ErrCanceled)
	wantStatus(t, "complete", client.ctr.CompleteConnect(t.Context()), ErrConnectionAborted)
}

func TestConnectHostUnreachable(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	e := newEnd(t, r.a, 4096)
	began := time.Now()
	err := e.ctr.Connect(t.Context(), e.qp, unreachable, ConnectParams{})
	wantStatus(t, "connect", err, ErrHostUnreachable)
	if took := time.Since(began); took < 2*time.Second || took > patience/2 {
		t.Errorf("it took %v, want about 3 s", took)
	}
	wantOneLine(t, err, "10.99.0.77", "nd0", "neighbour", "3s")
}

func TestConnectNeverLeavesForBadDestinations(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	e := newEnd(t, r.a, 4096)
	for _, c := range []struct {
		dest string
		want Status
	}{
		{"192.0.2.1:7000", ErrNetworkUnreachable},
		{"[fd00:99::2]:7000", ErrInvalidAddress},
		{"0.0.0.0:7000", ErrBadNetworkName},
		{"10.99.0.2:0", ErrBadNetworkName},
		{"224.0.0.1:7000", ErrBadNetworkName},
		{"255.255.255.255:7000", ErrBadNetworkName},
		{"10.99.0.255:7000", ErrBadNetworkName},
	} {
		err := e.ctr.Connect(t.Context(), e.qp, netip.MustParseAddrPort(c.dest), ConnectParams{})
		wantStatus(t, c.dest, err, c.want)
		wantOneLine(t, err, netip.MustParseAddrPort(c.dest).Addr().String())
	}
	wantStatus(t, "zero address", e.ctr.Connect(t.Context(), e.qp, netip.AddrPort{}, ConnectParams{}), ErrBadNetworkName)
	if e.qp.qp.State() != provider.QPIdle {
		t.Errorf("queue pair %v after failed attempts, want idle", e.qp.qp.State())
	}
}

func TestConnectTimesOutWithoutProvider(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	a := openIn(t, pair.A, AdapterConfig{Address: pair.AddrA.Addr()})
	e := newEnd(t, a, 4096)
	silenceAt(t, pair.B, pair.AddrB.Addr())
	began := time.Now()
	err := e.ctr.Connect(t.Context(), e.qp, netip.AddrPortFrom(pair.AddrB.Addr(), 7000), ConnectParams{})
	wantStatus(t, "connect", err, ErrIOTimeout)
	if took := time.Since(began); took < 4*time.Second || took > patience/2 {
		t.Errorf("it took %v, want about 5 s", took)
	}
	var timeout interface{ Timeout() bool }
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("%v does not say that it is a time-out", err)
	}
}

func TestSecondConnectIsActive(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	client, server, other := newEnd(t, r.a, 4096), newEnd(t, r.b, 4096), newEnd(t, r.a, 4096)
	at := netip.AddrPortFrom(r.addr[1], 7000)
	again := func(when string) {
		t.Helper()
		wantStatus(t, when+": connector", client.ctr.Connect(t.Context(), other.qp, at, ConnectParams{}), ErrConnectionActive)
		wantStatus(t, when+": queue pair", other.ctr.Connect(t.Context(), client.qp, at, ConnectParams{}), ErrConnectionActive)
	}
	connected := r.pendingConnect(t, client, server)
	again("connecting")
	accepted := start(func() error { return server.ctr.Accept(t.Context(), server.qp, ConnectParams{}) })
	must(t, finish(t, "connect", connected))
	again("accepted")
	must(t, client.ctr.CompleteConnect(t.Context()))
	must(t, finish(t, "accept", accepted))
	again("established")
}

// The first Connect is still resolving the path when the second one is called.
func TestSecondConnectIsActiveWhileResolving(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	e := newEnd(t, r.a, 4096)
	ctx, cancel := context.WithCancel(t.Context())
	first := start(func() error { return e.ctr.Connect(ctx, e.qp, unreachable, ConnectParams{}) })
	waitResolving(t, e.ctr)
	wantStatus(t, "connect", e.ctr.Connect(t.Context(), e.qp, unreachable, ConnectParams{}), ErrConnectionActive)
	wantStatus(t, "bind", e.ctr.Bind(netip.AddrPortFrom(r.addr[0], 0)), ErrAddressAssociated)
	l, _ := listen(t, r.a, 0)
	wantStatus(t, "get connection request", l.GetConnectionRequest(t.Context(), e.ctr), ErrConnectionActive)
	cancel()
	wantStatus(t, "first", finish(t, "connect", first), ErrCanceled)
}

func waitResolving(t *testing.T, c *Connector) {
	t.Helper()
	waitState(t, c, provider.CtrConnecting)
}

func TestPrivateDataTooLongChangesNothing(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	client, server := newEnd(t, r.a, 4096), newEnd(t, r.b, 4096)
	long := ConnectParams{PrivateData: make([]byte, 513)}
	l, at := listen(t, r.b, 0)
	wantStatus(t, "connect", client.ctr.Connect(t.Context(), client.qp, at, long), ErrInvalidBufferSize)
	connected := start(func() error { return client.ctr.Connect(t.Context(), client.qp, at, helloParams) })
	must(t, l.GetConnectionRequest(t.Context(), server.ctr))
	wantStatus(t, "accept", server.ctr.Accept(t.Context(), server.qp, long), ErrInvalidBufferSize)
	wantStatus(t, "reject", server.ctr.Reject(long.PrivateData), ErrInvalidBufferSize)
	accepted := start(func() error { return server.ctr.Accept(t.Context(), server.qp, helloParams) })
	must(t, finish(t, "connect", connected))
	wantStatus(t, "decline", client.ctr.Reject(long.PrivateData), ErrInvalidBufferSize)
	must(t, client.ctr.CompleteConnect(t.Context()))
	must(t, finish(t, "accept", accepted))
}

func TestPrivateDataIsExact(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	pattern := make([]byte, 512)
	for i := range pattern {
		pattern[i] = byte(i*3 + 1)
	}
	for _, size := range []struct{ request, accept int }{{0, 0}, {1, 0}, {0, 1}, {512, 1}, {1, 512}, {512, 512}} {
		client, server := newEnd(t, r.a, 4096), newEnd(t, r.b, 4096)
		l, at := listen(t, r.b, 0)
		connected := start(func() error {
			return client.ctr.Connect(t.Context(), client.qp, at, ConnectParams{PrivateData: pattern[:size.request]})
		})
		must(t, l.GetConnectionRequest(t.Context(), server.ctr))
		wantPrivate(t, server.ctr, pattern[:size.request])
		if _, err := client.ctr.PrivateData(); !errors.Is(err, ErrConnectionInvalid) {
			t.Errorf("private data while connecting: %v", err)
		}
		answer := ConnectParams{PrivateData: pattern[512-size.accept:]}
		accepted := start(func() error { return server.ctr.Accept(t.Context(), server.qp, answer) })
		must(t, finish(t, "connect", connected))
		wantPrivate(t, client.ctr, pattern[512-size.accept:])
		must(t, client.ctr.CompleteConnect(t.Context()))
		must(t, finish(t, "accept", accepted))
		wantPrivate(t, server.ctr, pattern[:size.request])
	}
}

func wantPrivate(t *testing.T, c *Connector, want []byte) {
	t.Helper()
	if got, err := c.PrivateData(); err != nil || !bytes.Equal(got, want) {
		t.Errorf("private data: %d bytes, %v, want %d", len(got), err, len(want))
	}
}

// TestReadLimits has the examples of the specification, section 7.2. All adapters here have maxima of 32, so examples with other
// maxima request those values instead: a maximum and a requested value have the same effect.
func TestReadLimits(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	for i, c := range []struct{ activeIn, activeOut, passiveIn, passiveOut, seenIn, seenOut, toPassive, toActive uint32 }{
		{4, 8, 16, 16, 8, 4, 8, 4},
		{4, 8, 2, 1, 8, 4, 2, 1},
		{0, 8, 8, 8, 8, 0, 8, 0},
		{0, 0, 16, 16, 0, 0, 0, 0},
		{16, 16, 0, 0, 16, 16, 0, 0},
		{4294967295, 1000, 100, 100, 32, 32, 32, 32},
		{6, 0, 0, 0, 0, 6, 0, 0},
		{4, 2, 32, 32, 2, 4, 2, 4},
		{10, 10, 1, 3, 10, 10, 1, 3},
		{1, 1, 0, 5, 1, 1, 0, 1},
	} {
		client, server := newEnd(t, r.a, 4096), newEnd(t, r.b, 4096)
		l, at := listen(t, r.b, 0)
		limits := func(who string, c *Connector, wantIn, wantOut uint32) {
			t.Helper()
			if in, out, err := c.ReadLimits(); err != nil || in != wantIn || out != wantOut {
				t.Errorf("example %d: %s sees %d/%d, %v, want %d/%d", i+1, who, in, out, err, wantIn, wantOut)
			}
		}
		connected := start(func() error {
			return client.ctr.Connect(t.Context(), client.qp, at,
				ConnectParams{InboundReadLimit: c.activeIn, OutboundReadLimit: c.activeOut})
		})
		must(t, l.GetConnectionRequest(t.Context(), server.ctr))
		limits("passive before Accept", server.ctr, c.seenIn, c.seenOut)
		accepted := start(func() error {
			return server.ctr.Accept(t.Context(), server.qp,
				ConnectParams{InboundReadLimit: c.passiveIn, OutboundReadLimit: c.passiveOut})
		})
		must(t, finish(t, "connect", connected))
		limits("passive after Accept", server.ctr, c.toPassive, c.toActive)
		limits("active", client.ctr, c.toActive, c.toPassive)
		must(t, client.ctr.CompleteConnect(t.Context()))
		must(t, finish(t, "accept", accepted))
		limits("active, established", client.ctr, c.toActive, c.toPassive)
		// The limits are in force: if a limit is zero, a Read is refused.
		want := StatusSuccess
		if c.toPassive == 0 {
			want = ErrInvalidDeviceRequest
		}
		wantStatus(t, "read", client.qp.Read(1, nil, 0, 0, 0), want)
	}
}

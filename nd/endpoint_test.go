package nd

import (
	"context"
	"net/netip"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/verbs"
)

// Both sides open their own adapters. The route to the server selects the client's address.
func TestDialOpensAnAdapter(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var l *EndpointListener
	must(t, pair.B.Do(func() (err error) {
		l, err = Listen(netip.AddrPortFrom(pair.AddrB.Addr(), 0), EndpointConfig{Rights: MRAllowRemoteRead, Greeting: []byte("hi")})
		return err
	}))
	at, err := l.Address()
	must(t, err)
	var server *Endpoint
	accepted := start(func() (err error) { server, err = l.Accept(ctx); return err })
	var client *Endpoint
	must(t, pair.A.Do(func() (err error) { client, err = Dial(ctx, at, EndpointConfig{MemoryBytes: 4096}); return err }))
	must(t, finish(t, "accept", accepted))
	if local := client.Adapter.QueryAddressList()[0]; local != pair.AddrA.Addr() {
		t.Errorf("the client is at %v, want %v", local, pair.AddrA.Addr())
	}
	if server.Peer.Length != 4096 || client.Peer.Length != defaultMemory || string(client.Greeting) != "hi" || len(server.Greeting) != 0 {
		t.Errorf("the server knows %+v, %q; the client %+v, %q", server.Peer, server.Greeting, client.Peer, client.Greeting)
	}
	must(t, client.QueuePair.Write(1, []SGE{client.Memory.SGE(0, 8)}, client.Peer.Address, client.Peer.Token, 0))
	_, err = client.Result(ctx)
	wantStatus(t, "write to memory that may be read", err, ErrAccessViolation)
	for range 2 {
		must(t, client.Close())
		must(t, server.Close())
		must(t, l.Close())
	}
	wantStatus(t, "accept after close", func() error { _, err := l.Accept(ctx); return err }(), ErrInvalidDeviceState)
}

func TestDialFails(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	cfg := EndpointConfig{Adapter: r.a}
	dial := func(cfg EndpointConfig, at netip.AddrPort) error {
		_, err := Dial(t.Context(), at, cfg)
		return err
	}
	nowhere := netip.AddrPortFrom(r.addr[1], 7997)
	wantStatus(t, "nobody listens", dial(cfg, nowhere), ErrConnectionRefused)
	long := cfg
	long.Greeting = make([]byte, MaxGreeting+1)
	wantStatus(t, "greeting", dial(long, nowhere), ErrInvalidBufferSize)
	deep := cfg
	deep.Depth = maxQueueDepth + 1
	wantStatus(t, "depth", dial(deep, nowhere), ErrInvalidParameterN(5))
	before := r.a.verbs.Objects.Used(verbs.ObjectQP)
	huge := cfg
	huge.MemoryBytes = -1
	wantStatus(t, "memory", dial(huge, nowhere), ErrInvalidParameter)
	if now := r.a.verbs.Objects.Used(verbs.ObjectQP); now > before+2 { // other tests use the adapter as well
		t.Errorf("%d queue pairs before, %d after a Dial that failed", before, now)
	}
}

// A peer that uses ND without the endpoint protocol is refused on either side.
func TestEndpointRefusesOthers(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	l, err := Listen(netip.AddrPortFrom(r.addr[1], 0), EndpointConfig{Adapter: r.b})
	must(t, err)
	defer l.Close()
	at, err := l.Address()
	must(t, err)
	accepted := start(func() error { _, err := l.Accept(t.Context()); return err })
	plain := newEnd(t, r.a, 64)
	wantStatus(t, "connect", plain.ctr.Connect(t.Context(), plain.qp, at, helloParams), ErrConnectionRefused)
	wantStatus(t, "accept", finish(t, "accept", accepted), ErrInvalidBufferSize)

	other, where := listen(t, r.b, 0)
	server := newEnd(t, r.b, 64)
	dialed := start(func() error { _, err := Dial(t.Context(), where, EndpointConfig{Adapter: r.a}); return err })
	must(t, other.GetConnectionRequest(t.Context(), server.ctr))
	wantStatus(t, "accept of the other", server.accept(t.Context()), ErrConnectionRefused)
	wantStatus(t, "dial", finish(t, "dial", dialed), ErrInvalidBufferSize)
}

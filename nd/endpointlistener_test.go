package nd

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/testhelp"
	"github.com/ndxdp/ndxdp/internal/verbs"
)

// silentClient connects like Dial, and does not continue after the server has accepted. connected receives the result of its
// Connect.
func silentClient(t *testing.T, a *Adapter, at netip.AddrPort) (e *Endpoint, connected <-chan error) {
	t.Helper()
	e, err := newEndpoint(a, EndpointConfig{MemoryBytes: 4096})
	must(t, err)
	t.Cleanup(func() { must(t, e.Close()) })
	return e, start(func() error { return e.Connector.Connect(t.Context(), e.QueuePair, at, e.params(nil)) })
}

// listenEndpoints listens on an adapter.
func listenEndpoints(t *testing.T, a *Adapter, patient time.Duration) (*EndpointListener, netip.AddrPort) {
	t.Helper()
	l, err := Listen(netip.AddrPortFrom(a.verbs.Addr, 0), EndpointConfig{Adapter: a, MemoryBytes: 4096, EstablishTimeout: patient})
	must(t, err)
	t.Cleanup(func() { must(t, l.Close()) })
	at, err := l.Address()
	must(t, err)
	return l, at
}

// acceptHonest accepts until a client completes. before receives the number of errors about other clients that came first.
func acceptHonest(t *testing.T, l *EndpointListener) (before chan int, accepted <-chan error) {
	before = make(chan int, 1)
	return before, start(func() error {
		for n := 0; ; n++ {
			e, err := l.Accept(t.Context())
			if err == nil {
				before <- n
				return e.Close()
			}
			if !errors.Is(err, ErrIOTimeout) || !strings.Contains(err.Error(), "did not complete") {
				return err
			}
		}
	})
}

// dialHonest dials and completes. It tries again if the listener gave up on it.
func dialHonest(t *testing.T, a *Adapter, at netip.AddrPort) {
	t.Helper()
	dialed := start(func() error {
		for deadline := time.Now().Add(patience); ; {
			e, err := Dial(t.Context(), at, EndpointConfig{Adapter: a, MemoryBytes: 4096})
			if err == nil {
				err = e.Close()
			}
			if !errors.Is(err, ErrConnectionAborted) || time.Now().After(deadline) {
				return err
			}
		}
	})
	must(t, finish(t, "dial", dialed))
}

func TestAcceptBesideSilentClients(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1500, DatapathAuto)
	l, at := listenEndpoints(t, r.b, time.Hour)
	before, accepted := acceptHonest(t, l)
	for range maxEstablishing - 1 {
		_, connected := silentClient(t, r.a, at)
		must(t, finish(t, "connect of a silent client", connected))
	}
	dialHonest(t, r.a, at)
	must(t, finish(t, "accept", accepted))
	if n := <-before; n > 0 {
		t.Errorf("%d errors before the honest client, whose predecessors had an hour", n)
	}
}

// If there are more silent clients than the listener establishes at once, their deadline makes room for others.
func TestAcceptBehindSilentClients(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1500, DatapathAuto)
	l, at := listenEndpoints(t, r.b, 100*time.Millisecond)
	var silent []<-chan error
	for range 2*maxEstablishing + 1 {
		_, connected := silentClient(t, r.a, at)
		silent = append(silent, connected)
	}
	eventually(t, "all silent clients queued", func() bool { return r.b.Stats().Connections.Open == uint64(len(silent)) })
	before, accepted := acceptHonest(t, l)
	dialHonest(t, r.a, at)
	must(t, finish(t, "accept", accepted))
	for _, connected := range silent {
		must(t, finish(t, "connect of a silent client", connected))
	}
	if n := <-before; n < maxEstablishing+1 {
		t.Errorf("%d errors about silent clients, want those of %d at least", n, maxEstablishing+1)
	}
}

// Close ends handshakes with clients, Accept calls, and the goroutines that serve them.
func TestCloseOfAnEndpointListener(t *testing.T) { // not parallel: it counts goroutines
	r := newRig(t, 1500, DatapathAuto)
	others := testhelp.RunningGoroutines()
	l, at := listenEndpoints(t, r.b, time.Hour)
	var accepting []<-chan error
	for range 3 {
		accepting = append(accepting, start(func() error { _, err := l.Accept(t.Context()); return err }))
	}
	var silent []*Endpoint
	for range maxEstablishing {
		e, connected := silentClient(t, r.a, at)
		must(t, finish(t, "connect of a silent client", connected))
		silent = append(silent, e)
	}
	_, queued := silentClient(t, r.a, at) // more than the listener establishes at once
	eventually(t, "one more queued", func() bool { return r.b.Stats().Connections.Open == maxEstablishing+1 })
	must(t, l.Close())
	for _, a := range accepting {
		wantStatus(t, "accept", finish(t, "accept", a), ErrCanceled)
	}
	for _, e := range silent {
		wantStatus(t, "complete", e.Connector.CompleteConnect(t.Context()), ErrConnectionAborted)
	}
	wantStatus(t, "connect of who was queued", finish(t, "connect", queued), ErrConnectionRefused)
	_, err := l.Accept(t.Context())
	wantStatus(t, "accept after close", err, ErrInvalidDeviceState)
	must(t, l.Close())
	for _, k := range []verbs.ObjectKind{verbs.ObjectQP, verbs.ObjectCQ, verbs.ObjectConnector, verbs.ObjectListener, verbs.ObjectMR} {
		if n := r.b.verbs.Objects.Used(k); n != 0 {
			t.Errorf("%d objects of kind %d are left", n, k)
		}
	}
	if err := others.Leak("github.com/ndxdp/ndxdp/internal/ports.(*Space).read"); err != nil {
		t.Error(err)
	}
}

// If an Accept is canceled, the next Accept gets the connection that the first one waited for.
func TestAcceptGivenUp(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1500, DatapathAuto)
	l, at := listenEndpoints(t, r.b, time.Hour)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the reason")
	accepting := start(func() error { _, err := l.Accept(ctx); return err })
	silent, connected := silentClient(t, r.a, at)
	must(t, finish(t, "connect", connected))
	cancel(why)
	err := finish(t, "accept", accepting)
	wantStatus(t, "accept", err, ErrCanceled)
	if !errors.Is(err, why) {
		t.Errorf("%v does not say why", err)
	}
	must(t, silent.Connector.CompleteConnect(t.Context())) // the client continues
	e, err := l.Accept(t.Context())
	must(t, err)
	if peer, err := e.Connector.PeerAddress(); err != nil || peer.Addr() != r.addr[0] {
		t.Errorf("peer %v, %v", peer, err)
	}
	must(t, e.Close())
	eventually(t, "nothing of the first call is left", func() bool { return r.b.verbs.Objects.Used(verbs.ObjectQP) == 0 })
}

// Accept reports that the listener was closed, also if the listener's adapter was closed with it.
func TestAcceptAfterCloseOfAListenerWithItsOwnAdapter(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	var l *EndpointListener
	must(t, r.pair.A.Do(func() (err error) {
		l, err = Listen(netip.AddrPortFrom(r.addr[0], 0), EndpointConfig{Datapath: DatapathUDP})
		return err
	}))
	must(t, l.Close())
	_, err := l.Accept(t.Context())
	wantStatus(t, "accept after close", err, ErrInvalidDeviceState)
}

package tlshake

import (
	"crypto/tls"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ndxdp/ndxdp/internal/shaker"
	"github.com/ndxdp/ndxdp/wire"
)

// A function of the application that does not return holds up neither other handshakes nor Close.
func TestStuckCallback(t *testing.T) {
	ca := newAuthority(t)
	client, server := ca.mutual()
	stuck, release := make(chan struct{}), make(chan struct{})
	blocking := server.Clone()
	blocking.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		close(stuck)
		<-release
		return nil, nil
	}
	pool := New(1)
	hello := clientHello(t, client)
	serve := func(cfg *tls.Config, deliver func(*shaker.Step)) shaker.Handshake {
		cfg, err := ServerConfig(cfg)
		if err != nil {
			t.Fatal(err)
		}
		h := pool.Server(cfg).Begin(addr("192.0.2.1:1"), addr("192.0.2.2:2"), nil, deliver)
		if !h.Give(initial, hello) {
			t.Fatal("bytes were refused")
		}
		return h
	}
	first := serve(blocking, func(*shaker.Step) { t.Error("a closed handshake delivered a step") })
	<-stuck
	steps := make(chan *shaker.Step, 1)
	second := serve(server, func(s *shaker.Step) { steps <- s })
	first.Close()
	first.Close()
	if s := <-steps; s.Err != nil || len(s.Initial) == 0 || len(s.Handshake) == 0 || s.Done {
		t.Errorf("the second handshake got %+v", s)
	}
	second.Close()
	close(release)
	pool.Wait()
	if !first.Give(initial, hello) {
		t.Error("bytes for a closed handshake are refused, not ignored")
	}
}

// With one processor, a goroutine that deliver made ready runs before the next handshake is computed. Otherwise the results of many
// handshakes would leave together, and the peer would wait for the first one as long as for the last one.
func TestResultsLeaveOneByOne(t *testing.T) {
	client, server := newAuthority(t).mutual()
	cfg, err := ServerConfig(server)
	if err != nil {
		t.Fatal(err)
	}
	hello := clientHello(t, client)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const handshakes = 8
	pool, steps := New(1), make(chan *shaker.Step, handshakes)
	var computed atomic.Int32
	var sender sync.WaitGroup
	late := 0 // handshakes that were computed before the results of others left, summed over all results
	sender.Go(func() {
		for left := range handshakes {
			<-steps
			late += int(computed.Load()) - left - 1
		}
	})
	for range handshakes {
		h := pool.Server(cfg).Begin(addr("192.0.2.1:1"), addr("192.0.2.2:2"), nil, func(s *shaker.Step) { computed.Add(1); steps <- s })
		defer h.Close()
		h.Give(initial, hello)
	}
	sender.Wait()
	pool.Wait()
	if late > handshakes { // the scheduler exchanges two goroutines now and then, so that the sum is not always zero
		t.Errorf("results left late, by %d handshakes in all", late)
	}
}

// A function of the application that waits for long, and may itself wait for another handshake of the process, does not hold up other
// handshakes. Its own handshake goes on when it returns.
func TestSlowCallback(t *testing.T) {
	client, server := newAuthority(t).mutual()
	pool, hello, steps := New(1), clientHello(t, client), make(chan *shaker.Step)
	serve := func(cfg *tls.Config) shaker.Handshake {
		cfg, err := ServerConfig(cfg)
		if err != nil {
			t.Fatal(err)
		}
		h := pool.Server(cfg).Begin(addr("192.0.2.1:1"), addr("192.0.2.2:2"), nil, func(s *shaker.Step) { steps <- s })
		if !h.Give(initial, hello) {
			t.Fatal("bytes were refused")
		}
		return h
	}
	slow, release := server.Clone(), make(chan struct{})
	slow.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { <-release; return nil, nil }
	var all []shaker.Handshake
	for range 2 {
		all = append(all, serve(slow))
	}
	all = append(all, serve(server))
	for i := range all {
		if s := <-steps; s.Err != nil || len(s.Handshake) == 0 {
			t.Errorf("%+v", s)
		}
		if i == 0 {
			close(release)
		}
	}
	for _, h := range all {
		h.Close()
	}
	pool.Wait()
	pool.mu.Lock()
	defer pool.mu.Unlock()
	if pool.running != 0 || pool.slow != 0 || pool.waiting != 0 {
		t.Errorf("%d run, %d are slow, %d wait", pool.running, pool.slow, pool.waiting)
	}
}

// clientHello returns the first bytes of a client.
func clientHello(t testing.TB, cfg *tls.Config) []byte {
	t.Helper()
	cfg, err := ClientConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	pool, steps := New(1), make(chan *shaker.Step, 1)
	h := pool.Client(cfg).Begin(wire.Endpoint{}, wire.Endpoint{}, []byte("parameters"), func(s *shaker.Step) { steps <- s })
	s := <-steps
	h.Close()
	pool.Wait()
	if s.Err != nil || len(s.Initial) == 0 {
		t.Fatalf("the client begins with %+v", s)
	}
	return s.Initial
}

// More handshakes than MaxWaiting do not wait: their bytes are refused, and taken later. Each one that is closed makes room.
func TestWaitingHandshakesAreBounded(t *testing.T) {
	client, server := newAuthority(t).mutual()
	release := make(chan struct{})
	blocking := server.Clone()
	blocking.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { <-release; return nil, nil }
	cfg, err := ServerConfig(blocking)
	if err != nil {
		t.Fatal(err)
	}
	pool, hello := New(1), clientHello(t, client)
	var all []shaker.Handshake
	give := func() bool {
		h := pool.Server(cfg).Begin(addr("192.0.2.1:1"), addr("192.0.2.2:2"), nil, func(*shaker.Step) {})
		all = append(all, h)
		return h.Give(initial, hello)
	}
	taken := 0
	for give() {
		if taken++; taken > MaxWaiting+1+maxSlow {
			t.Fatal("handshakes without bound wait")
		}
	}
	if taken < MaxWaiting {
		t.Errorf("%d handshakes wait", taken)
	}
	all[len(all)-2].Close()
	if !give() {
		t.Error("a closed handshake takes room")
	}
	for _, h := range all {
		h.Close()
	}
	close(release)
	pool.Wait()
}

// A peer that floods one handshake with bytes is bounded, before TLS has looked at them.
func TestInputIsBounded(t *testing.T) {
	_, server := newAuthority(t).mutual()
	release, stuck := make(chan struct{}), make(chan struct{})
	server.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { close(stuck); <-release; return nil, nil }
	cfg, err := ServerConfig(server)
	if err != nil {
		t.Fatal(err)
	}
	client, _ := newAuthority(t).mutual()
	pool := New(1)
	h := pool.Server(cfg).Begin(addr("192.0.2.1:1"), addr("192.0.2.2:2"), nil, func(*shaker.Step) {})
	h.Give(initial, clientHello(t, client))
	<-stuck
	given := 0
	for b := make([]byte, 1000); h.Give(initial, b); given += len(b) {
		if given > maxInput {
			t.Fatal("bytes without bound wait")
		}
	}
	h.Close()
	close(release)
	pool.Wait()
}

// A handshake that is closed at any moment leaves nothing behind.
func TestCloseAtAnyMoment(t *testing.T) {
	client, server := newAuthority(t).mutual()
	cfg, err := ServerConfig(server)
	if err != nil {
		t.Fatal(err)
	}
	hello := clientHello(t, client)
	pool := New(2)
	var all sync.WaitGroup
	for i := range 40 {
		h := pool.Server(cfg).Begin(addr("192.0.2.1:1"), addr("192.0.2.2:2"), nil, func(s *shaker.Step) { s.Erase() })
		all.Go(func() { h.Give(initial, hello) })
		all.Go(func() {
			for range i % 7 {
				h.Give(handshake, nil)
			}
			h.Close()
		})
	}
	all.Wait()
	pool.Wait()
	pool.mu.Lock()
	defer pool.mu.Unlock()
	if pool.running != 0 || pool.waiting != 0 || len(pool.ready) != 0 {
		t.Errorf("%d run, %d wait, %d are ready", pool.running, pool.waiting, len(pool.ready))
	}
}

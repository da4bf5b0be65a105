package provider

import (
	"math/rand/v2"
	"testing"

	"github.com/ndxdp/ndxdp/provider/internal/ndports"
	"github.com/ndxdp/ndxdp/wire"
)

// A listener on one address has priority over a listener on all addresses, which gets the other requests.
func TestDirectoryFindsListeners(t *testing.T) {
	d := newDirectory(ndports.Alone{})
	one, all := &Listener{}, &Listener{}
	at := wire.Endpoint{IP: pairIP[0], Port: 7300}
	if d.listener(at) != nil {
		t.Error("somebody listens in an empty directory")
	}
	d.listeners[at], d.listeners[wire.Endpoint{Port: 7300}] = one, all
	other := wire.Endpoint{IP: pairIP[1], Port: 7300}
	if d.listener(at) != one || d.listener(other) != all {
		t.Error("the wrong listener")
	}
	other.Port++
	if d.listener(other) != nil {
		t.Error("somebody listens on another port")
	}
}

// An endpoint counts the users of its own address and of the unspecified address, and reports a listener among them.
func TestDirectoryCountsUsers(t *testing.T) {
	d := newDirectory(ndports.Alone{})
	one, two, all := wire.Endpoint{IP: pairIP[0], Port: 7300}, wire.Endpoint{IP: pairIP[1], Port: 7300}, wire.Endpoint{Port: 7300}
	want := func(at wire.Endpoint, listening bool, users int) {
		t.Helper()
		if l, u := d.use(at); l != listening || u != users {
			t.Errorf("%v: listening %v, %d users, want %v, %d", at, l, u, listening, users)
		}
	}
	want(one, false, 0)
	rng := rand.New(rand.NewPCG(1, 1))
	for range 2 {
		if _, o := d.ports.Take(one, false, rng); o == OutcomeSharingViolation {
			d.ports.Share(one)
		}
	}
	d.listeners[two] = &Listener{}
	d.ports.Share(two)
	want(one, false, 2)
	want(two, true, 1)
	want(all, true, 3)
	d.ports.Release(one)
	d.ports.Release(one)
	d.ports.Release(two)
	delete(d.listeners, two)
	want(all, false, 0)
	if !d.empty() {
		t.Error("something is left")
	}
}

// An answer ends only its own request, and not a later request that got the same port.
func TestDirectoryForgetsAnsweredRequests(t *testing.T) {
	d := newDirectory(ndports.Alone{})
	first := &conn{identity: identity{remote: wire.Endpoint{IP: pairIP[1]}, local: wire.Endpoint{Port: 50000}}}
	second := &conn{identity: first.identity}
	d.ask(first)
	d.ask(second)
	d.answered(first)
	if d.asking[second.identity.asked()] != second || d.empty() {
		t.Error("an answer to one request ended another")
	}
	d.answered(second)
	if !d.empty() {
		t.Error("a request is left")
	}
}

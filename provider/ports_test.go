package provider

import (
	"testing"

	"github.com/ndxdp/ndxdp/provider/internal/ndports"
	"github.com/ndxdp/ndxdp/wire"
)

// A port of one address and the same port of the unspecified address exclude each other, in either order, until the first one is
// released.
func TestWildcardAndOneAddressShareNoPort(t *testing.T) {
	one, all := wire.Endpoint{IP: pairIP[0], Port: 7300}, wire.Endpoint{Port: 7300}
	for _, order := range [][2]wire.Endpoint{{one, all}, {all, one}, {one, one}, {all, all}} {
		e := newPair(t, 1408).eng[0]
		first, second := e.NewListener(), e.NewListener()
		if _, o := first.Bind(order[0]); o != OutcomeSuccess {
			t.Fatal(o)
		}
		if _, o := second.Bind(order[1]); o != OutcomeSharingViolation {
			t.Errorf("%v beside %v: %v", order[1], order[0], o)
		}
		other := order[1]
		other.Port++
		if _, o := e.NewListener().Bind(other); o != OutcomeSuccess {
			t.Errorf("another port beside %v: %v", order[0], o)
		}
		first.Close()
		if _, o := second.Bind(order[1]); o != OutcomeSuccess {
			t.Errorf("%v once %v is free: %v", order[1], order[0], o)
		}
	}
}

// Free ports are those from 49152 to 65535. Each is given out once, and then the allocation fails.
func TestEphemeralPortsAreUsedUp(t *testing.T) {
	e := newPair(t, 1408).eng[0]
	const n = ndports.LastAutomatic - ndports.FirstAutomatic + 1
	taken := map[uint16]bool{}
	for range n {
		at, o := e.directory.ports.Take(wire.Endpoint{IP: pairIP[0]}, false, e.rng)
		if o != OutcomeSuccess || at.Port < 49152 || taken[at.Port] {
			t.Fatalf("port %d after %d others: %v", at.Port, len(taken), o)
		}
		taken[at.Port] = true
	}
	if _, o := e.directory.ports.Take(wire.Endpoint{IP: pairIP[0]}, false, e.rng); o != OutcomeTooManyAddresses {
		t.Errorf("one more: %v", o)
	}
	e.directory.ports.Release(wire.Endpoint{IP: pairIP[0], Port: 50000})
	if at, o := e.directory.ports.Take(wire.Endpoint{IP: pairIP[0]}, false, e.rng); o != OutcomeSuccess || at.Port != 50000 {
		t.Errorf("the one that came free: %d, %v", at.Port, o)
	}
}

// A listener on all addresses gets the requests to every address that has no listener of its own.
func TestWildcardListenerTakesRequests(t *testing.T) {
	m := newMeeting(t, 1)
	m.l.Close()
	m.l = m.eng[1].NewListener()
	_, o := m.l.Bind(wire.Endpoint{Port: pairPort})
	m.must(o)
	m.must(m.l.Listen(1))
	m.get().connect().runUntilIdle()
	m.got.must(t, OutcomeSuccess)
	if at, o := m.ctr[1].Local(); o != OutcomeSuccess || at != m.at {
		t.Errorf("local address %v, %v", at, o)
	}
}

// A closed connector releases the port that it was bound to.
func TestClosedConnectorFreesItsPort(t *testing.T) {
	e := newPair(t, 1408).eng[0]
	at := wire.Endpoint{IP: pairIP[0], Port: 7300}
	for range 3 {
		k := e.NewConnector()
		if o := k.Bind(at); o != OutcomeSuccess {
			t.Fatal(o)
		}
		k.Close()
	}
}

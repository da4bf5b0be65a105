package ndports

import (
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/ndxdp/ndxdp/provider/internal/outcome"
	"github.com/ndxdp/ndxdp/wire"
)

// An endpoint is in use until whoever took it and all who share it have released it.
func TestUsesAreCounted(t *testing.T) {
	p, rng := New(Alone{}), rand.New(rand.NewPCG(1, 2))
	at, o := p.Take(wire.Endpoint{Port: 7}, rng)
	p.Share(at)
	for want := 2; want > 0; want-- {
		for is, n := range p.All() {
			if is != at || n != want || o != outcome.Success {
				t.Errorf("%v has %d uses, want %d", is, n, want)
			}
		}
		if _, o := p.Take(at, rng); o != outcome.SharingViolation {
			t.Errorf("taken twice: %v", o)
		}
		p.Release(at)
	}
	if !p.Empty() {
		t.Error("uses are left")
	}
}

// TestUsesAreThoseOfAMap compares with a map of every endpoint, for two addresses and the wildcard, within two blocks and at their edges.
func TestUsesAreThoseOfAMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	p, model := New(Alone{}), map[wire.Endpoint]int{}
	ips := [][16]byte{{}, {15: 1}, {15: 2}}
	portNumbers := []uint16{0, 1, Block - 1, Block, Block + 1, LastAutomatic}
	excluded := func(at wire.Endpoint) bool {
		for other := range model {
			if other.Port == at.Port && (other.IP == at.IP || other.IP == ips[0] || at.IP == ips[0]) {
				return true
			}
		}
		return false
	}
	refused := 0
	for range 5000 {
		at := wire.Endpoint{IP: ips[rng.IntN(len(ips))], Port: portNumbers[rng.IntN(len(portNumbers))]}
		switch rng.IntN(4) {
		case 0:
			if at.Port == 0 {
				continue // chooses one
			}
			want := outcome.Success
			if excluded(at) {
				want = outcome.SharingViolation
				refused++
			} else {
				model[at]++
			}
			if _, o := p.Take(at, rng); o != want {
				t.Fatalf("taking %v: %v, want %v", at, o, want)
			}
		case 1:
			if model[at] == 0 {
				continue
			}
			p.Share(at)
			model[at]++
		default:
			if model[at] == 0 {
				continue
			}
			p.Release(at)
			if model[at]--; model[at] == 0 {
				delete(model, at)
			}
		}
		if got := maps.Collect(p.All()); !maps.Equal(got, model) {
			t.Fatalf("in use are %v, want %v", got, model)
		}
		if p.Empty() != (len(model) == 0) {
			t.Fatalf("empty: %v with %d in use", p.Empty(), len(model))
		}
	}
	if refused == 0 {
		t.Error("none was refused")
	}
}

package ndports

import (
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

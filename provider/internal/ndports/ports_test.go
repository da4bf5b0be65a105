package ndports

import (
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/ndxdp/ndxdp/provider/internal/outcome"
	"github.com/ndxdp/ndxdp/wire"
)

// An endpoint is in use until its owner and all its sharers have released it.
func TestUsesAreCounted(t *testing.T) {
	p, rng := New(Alone{}), rand.New(rand.NewPCG(1, 2))
	at, o := p.Take(wire.Endpoint{Port: 7}, false, rng)
	p.Share(at)
	for want := 2; want > 0; want-- {
		for is, n := range p.All() {
			if is != at || n != want || o != outcome.Success {
				t.Errorf("%v has %d uses, want %d", is, n, want)
			}
		}
		if _, o := p.Take(at, false, rng); o != outcome.SharingViolation {
			t.Errorf("taken twice: %v", o)
		}
		p.Release(at)
	}
	if !p.Empty() {
		t.Error("uses are left")
	}
}

// TestUsesAreThoseOfAMap compares with a map of every endpoint, for two addresses and the unspecified one, within two blocks and at
// their edges.
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
				continue // the allocator chooses one
			}
			want := outcome.Success
			if excluded(at) {
				want = outcome.SharingViolation
				refused++
			} else {
				model[at]++
			}
			if _, o := p.Take(at, false, rng); o != want {
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

// marks stands for other adapters of the machine, with their blocks and ports.
type marks struct {
	Alone
	blocks, ports map[uint16]bool
	held          int // marks and claims of this adapter
	tried         int // attempts to mark
}

func (m *marks) Claim(port uint16) outcome.Outcome {
	if m.ports[port] {
		return outcome.SharingViolation
	}
	m.held++
	return outcome.Success
}

func (m *marks) Release(uint16) { m.held-- }

func (m *marks) Mark(first uint16) bool {
	m.tried++
	if m.blocks[first] {
		return false
	}
	m.held++
	return true
}

func (m *marks) Unmark(uint16) { m.held-- }

// Connectors get ports from blocks that no other adapter has marked, as long as such blocks exist. One mark serves a whole block.
func TestMarkedBlocksArePassedOver(t *testing.T) {
	m := &marks{blocks: map[uint16]bool{}}
	for first := FirstAutomatic; first <= LastAutomatic; first += 2 * Block {
		m.blocks[uint16(first)] = true
	}
	p, rng := New(m), rand.New(rand.NewPCG(5, 6))
	var all []wire.Endpoint
	for range 3 * Block {
		at, o := p.Take(wire.Endpoint{}, false, rng)
		if block, _ := place(at); o != outcome.Success || m.blocks[block.Port] {
			t.Fatalf("port %d: %v, and another adapter chooses from its block", at.Port, o)
		}
		all = append(all, at)
	}
	if m.held > 4 {
		t.Errorf("%d marks for %d ports", m.held, len(all))
	}
	for _, at := range all {
		p.Release(at)
	}
	if m.held != 1 || !p.Empty() { // one mark is kept, for the block of the next port
		t.Errorf("%d marks are left", m.held)
	}
}

// Connectors that come one after another cost no marks, and an adapter keeps at most one mark that it does not need.
func TestAMarkServesTheNextConnector(t *testing.T) {
	m := &marks{blocks: map[uint16]bool{}}
	p, rng := New(m), rand.New(rand.NewPCG(9, 10))
	for range 10 * Block {
		at, _ := p.Take(wire.Endpoint{}, false, rng)
		p.Release(at)
	}
	if m.tried != 1 || m.held != 1 {
		t.Errorf("%d marks were made for one connector after another, and %d are held", m.tried, m.held)
	}
	var all []wire.Endpoint
	for range 3 * Block {
		at, _ := p.Take(wire.Endpoint{}, false, rng)
		all = append(all, at)
	}
	held := m.held
	for _, at := range all {
		p.Release(at)
	}
	if m.held != 1 || len(p.marked) != 1 {
		t.Errorf("%d of %d marks are held for no connector", m.held, held)
	}
	if at, _ := p.Take(wire.Endpoint{}, false, rng); p.kept != (wire.Endpoint{}) {
		t.Errorf("port %d is in use, and its block counts as unused", at.Port)
	}
}

// An adapter that marks every block does not keep others from automatic ports: connectors choose a port after a bounded number of
// attempts. A listener needs a port that no adapter has claimed, whoever marked its block.
func TestMarksAreNoRights(t *testing.T) {
	m := &marks{blocks: map[uint16]bool{}, ports: map[uint16]bool{}}
	for first := FirstAutomatic; first <= LastAutomatic; first += Block {
		m.blocks[uint16(first)] = true
	}
	p, rng := New(m), rand.New(rand.NewPCG(7, 8))
	for port := FirstAutomatic + 1; port <= LastAutomatic; port++ {
		m.ports[uint16(port)] = true // all but the first one
	}
	listening, o := p.Take(wire.Endpoint{}, true, rng)
	if at := listening; at.Port != FirstAutomatic || o != outcome.Success || m.held != 1 {
		t.Errorf("a listener: port %d, %v, with %d claims", at.Port, o, m.held)
	}
	if at, o := p.Take(wire.Endpoint{}, true, rng); o != outcome.TooManyAddresses {
		t.Errorf("a second listener: port %d, %v", at.Port, o)
	}
	for n := range 8 * Block {
		before := m.tried
		if at, o := p.Take(wire.Endpoint{}, false, rng); o != outcome.Success || m.tried-before > mostMarked+1 {
			t.Fatalf("port %d after %d others: %v, with %d tries", at.Port, n, o, m.tried-before)
		}
	}
	p.Release(listening)
	if m.held != 0 {
		t.Errorf("%d claims are left", m.held)
	}
}

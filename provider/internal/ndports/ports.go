package ndports

import (
	"iter"
	"maps"
	"math/rand/v2"

	"github.com/ndxdp/ndxdp/provider/internal/outcome"
	"github.com/ndxdp/ndxdp/wire"
)

// The ports that are chosen for those who ask for none (ND specification, section 6.1).
const (
	FirstAutomatic = 49152
	LastAutomatic  = 65535
	// Block is how many automatic ports are claimed together: the first of a block is a multiple of it.
	Block = 64
)

const span = LastAutomatic - FirstAutomatic + 1

// Ports is who uses which endpoint: how many listeners, connectors and shared endpoints each has. An endpoint that nobody uses
// is not in it. Those in use are claimed from the other adapters of the machine.
type Ports struct {
	uses  map[wire.Endpoint]int
	space Space
	last  uint16 // the automatic port that was taken last; zero before
}

// New is none in use.
func New(space Space) Ports { return Ports{uses: map[wire.Endpoint]int{}, space: space} }

// Take makes an endpoint owned. Port 0 chooses a free automatic one, of the block that the last one was in or from a random one on. A wildcard
// and a specific address on one port exclude each other.
func (p *Ports) Take(at wire.Endpoint, rng *rand.Rand) (wire.Endpoint, outcome.Outcome) {
	if at.Port != 0 {
		if p.taken(at) || !p.space.Claim(at.Port) {
			return at, outcome.SharingViolation
		}
		p.uses[at]++
		return at, outcome.Success
	}
	start := rng.IntN(span)
	if p.last == 0 {
		p.last = uint16(FirstAutomatic + start)
	}
	for i := range Block + span {
		at.Port = p.candidate(i, start)
		if !p.taken(at) && p.space.Claim(at.Port) {
			p.uses[at]++
			p.last = at.Port
			return at, outcome.Success
		}
	}
	return at, outcome.TooManyAddresses
}

// candidate is the port to try as number i: first those of the block that the last one was in, then all from a random one on.
func (p *Ports) candidate(i, start int) uint16 {
	if i < Block {
		return p.last - p.last%Block + (p.last+1+uint16(i))%Block
	}
	return uint16(FirstAutomatic + (start+i)%span)
}

func (p *Ports) taken(at wire.Endpoint) bool {
	if p.uses[at] > 0 || p.uses[wire.Endpoint{Port: at.Port}] > 0 {
		return true
	}
	if at.IP != (wire.Endpoint{}).IP {
		return false
	}
	for other := range p.uses {
		if other.Port == at.Port {
			return true
		}
	}
	return false
}

// Share counts a connector that uses the endpoint of a listener, or a shared one.
func (p *Ports) Share(at wire.Endpoint) {
	p.space.Claim(at.Port) // it is ours already
	p.uses[at]++
}

// Release takes back one use of an endpoint.
func (p *Ports) Release(at wire.Endpoint) {
	p.space.Release(at.Port)
	if p.uses[at]--; p.uses[at] <= 0 {
		delete(p.uses, at)
	}
}

// All are the endpoints in use, and how many use each.
func (p *Ports) All() iter.Seq2[wire.Endpoint, int] { return maps.All(p.uses) }

// Empty says that none is in use.
func (p *Ports) Empty() bool { return len(p.uses) == 0 }

// Package ndports knows which ND endpoints of an adapter are in use, and how many use each.
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
)

// Ports is who uses which endpoint: how many listeners, connectors and shared endpoints each has. An endpoint that nobody uses
// is not in it.
type Ports struct {
	uses map[wire.Endpoint]int
}

// New is none in use.
func New() Ports { return Ports{map[wire.Endpoint]int{}} }

// Take makes an endpoint owned. Port 0 chooses a free automatic one, starting at a random place. A wildcard and a specific
// address on one port exclude each other.
func (p Ports) Take(at wire.Endpoint, rng *rand.Rand) (wire.Endpoint, outcome.Outcome) {
	if at.Port != 0 {
		if p.taken(at) {
			return at, outcome.SharingViolation
		}
		p.uses[at]++
		return at, outcome.Success
	}
	const span = LastAutomatic - FirstAutomatic + 1
	start := rng.IntN(span)
	for i := range span {
		at.Port = uint16(FirstAutomatic + (start+i)%span)
		if !p.taken(at) {
			p.uses[at]++
			return at, outcome.Success
		}
	}
	return at, outcome.TooManyAddresses
}

func (p Ports) taken(at wire.Endpoint) bool {
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
func (p Ports) Share(at wire.Endpoint) { p.uses[at]++ }

// Release takes back one use of an endpoint.
func (p Ports) Release(at wire.Endpoint) {
	if p.uses[at]--; p.uses[at] <= 0 {
		delete(p.uses, at)
	}
}

// All are the endpoints in use, and how many use each.
func (p Ports) All() iter.Seq2[wire.Endpoint, int] { return maps.All(p.uses) }

// Empty says that none is in use.
func (p Ports) Empty() bool { return len(p.uses) == 0 }

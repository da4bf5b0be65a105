package ndports

import (
	"iter"
	"math/bits"
	"math/rand/v2"

	"github.com/ndxdp/ndxdp/provider/internal/outcome"
	"github.com/ndxdp/ndxdp/wire"
)

// The automatic ports (ND specification, section 6.1).
const (
	FirstAutomatic = 49152
	LastAutomatic  = 65535
	// Block is the number of automatic ports that are marked together, and of bits in a word. A block begins at a multiple of it.
	Block = 64
	// mostMarked is how many blocks marked by other adapters are skipped for one port.
	mostMarked = 16
)

const span = LastAutomatic - FirstAutomatic + 1

// Ports counts the users of each endpoint: listeners, connectors and shared endpoints. Ports of listeners, and ports that were
// requested by number, are claimed: no other adapter of the machine may have them. Connectors without a port need no claim; it is
// enough that adapters choose different ports if possible. So an adapter marks the blocks it chooses from; if every block is
// marked, it chooses anyway. An endpoint with one user costs a bit, with several a table entry, because most endpoints belong to
// one of many connections.
type Ports struct {
	used    map[wire.Endpoint]uint64 // first endpoint of a block to the bits of its endpoints in use; never zero
	claimed map[wire.Endpoint]uint64 // the same for claimed endpoints; never zero
	marked  map[wire.Endpoint]struct{}
	more    map[wire.Endpoint]int // number of users beyond the first; never zero
	space   PortSpace
	last    uint16        // newest automatic port; zero before the first
	kept    wire.Endpoint // block that is marked although none of its endpoints is in use; zero for none
}

// New returns a Ports without users.
func New(space PortSpace) Ports {
	return Ports{
		used: map[wire.Endpoint]uint64{}, claimed: map[wire.Endpoint]uint64{}, marked: map[wire.Endpoint]struct{}{},
		more: map[wire.Endpoint]int{}, space: space,
	}
}

// place returns the block and the bit of an endpoint.
func place(at wire.Endpoint) (block wire.Endpoint, bit uint64) {
	return wire.Endpoint{IP: at.IP, Port: at.Port - at.Port%Block}, 1 << (at.Port % Block)
}

func (p *Ports) isUsed(at wire.Endpoint) bool {
	block, bit := place(at)
	return p.used[block]&bit != 0
}

// Take adds a user to an endpoint. Port 0 chooses a free automatic port: first from the block of the last one, then from a random
// one on. If listens is set, a listener uses the port, which is then claimed. On one port, a wildcard and a specific address
// exclude each other.
func (p *Ports) Take(at wire.Endpoint, listens bool, rng *rand.Rand) (wire.Endpoint, outcome.Outcome) {
	if at.Port != 0 {
		if p.taken(at) {
			return at, outcome.SharingViolation
		}
		return at, p.claim(at)
	}
	start := rng.IntN(span)
	if p.last == 0 {
		p.last = uint16(FirstAutomatic + start)
	}
	var spare, avoid wire.Endpoint
	for i, passed := 0, 0; i < Block+span; i++ {
		at.Port = p.candidate(i, start)
		block, _ := place(at)
		switch {
		case block == avoid || p.taken(at):
		case listens:
			// Without resources, no other port can be claimed either.
			if o := p.claim(at); o == outcome.Success || o == outcome.InsufficientResources {
				return at, o
			}
		case p.mark(block) || passed == mostMarked:
			return p.choose(at)
		default:
			spare, avoid = at, block
			passed++
		}
	}
	if spare.Port == 0 {
		return at, outcome.TooManyAddresses
	}
	return p.choose(spare)
}

// choose uses an automatic port without a claim.
func (p *Ports) choose(at wire.Endpoint) (wire.Endpoint, outcome.Outcome) {
	p.use(at)
	p.last = at.Port
	return at, outcome.Success
}

// claim uses a port and claims it from other adapters.
func (p *Ports) claim(at wire.Endpoint) outcome.Outcome {
	o := p.space.Claim(at.Port)
	if o == outcome.Success {
		p.use(at)
		block, bit := place(at)
		p.claimed[block] |= bit
	}
	return o
}

// mark reports whether this adapter may choose from a block.
func (p *Ports) mark(block wire.Endpoint) bool {
	_, yes := p.marked[block]
	if !yes && p.space.Mark(block.Port) {
		p.marked[block] = struct{}{}
		yes = true
	}
	return yes
}

// candidate returns the i-th port to try: first the block of the last port, then all ports from a random one on.
func (p *Ports) candidate(i, start int) uint16 {
	if i < Block {
		return p.last - p.last%Block + (p.last+1+uint16(i))%Block
	}
	return uint16(FirstAutomatic + (start+i)%span)
}

func (p *Ports) taken(at wire.Endpoint) bool {
	if p.isUsed(at) || p.isUsed(wire.Endpoint{Port: at.Port}) {
		return true
	}
	if at.IP != (wire.Endpoint{}).IP {
		return false
	}
	block, bit := place(at)
	for other, used := range p.used {
		if other.Port == block.Port && used&bit != 0 {
			return true
		}
	}
	return false
}

// use counts one more user.
func (p *Ports) use(at wire.Endpoint) {
	block, bit := place(at)
	if block == p.kept {
		p.kept = wire.Endpoint{}
	}
	if used := p.used[block]; used&bit == 0 {
		p.used[block] = used | bit
	} else {
		p.more[at]++
	}
}

// Share counts a connector that uses the endpoint of a listener, or a shared endpoint.
func (p *Ports) Share(at wire.Endpoint) { p.use(at) }

// Release removes one user of an endpoint.
func (p *Ports) Release(at wire.Endpoint) {
	if more := p.more[at]; more > 1 {
		p.more[at] = more - 1
		return
	} else if more == 1 {
		delete(p.more, at)
		return
	}
	block, bit := place(at)
	if claimed := p.claimed[block]; claimed&bit != 0 {
		p.space.Release(at.Port)
		if p.claimed[block] = claimed &^ bit; claimed == bit {
			delete(p.claimed, block)
		}
	}
	if used := p.used[block] &^ bit; used != 0 {
		p.used[block] = used
	} else {
		delete(p.used, block)
		p.keep(block)
	}
}

// keep leaves the mark of an unused block until another block becomes unused. Then other adapters may choose from the earlier block. A
// program that opens one connection after another would otherwise make and close a socket for each.
func (p *Ports) keep(block wire.Endpoint) {
	if _, yes := p.marked[block]; !yes {
		return
	}
	if _, yes := p.marked[p.kept]; yes {
		delete(p.marked, p.kept)
		p.space.Unmark(p.kept.Port)
	}
	p.kept = block
}

// All returns the endpoints in use, and the number of users of each.
func (p *Ports) All() iter.Seq2[wire.Endpoint, int] {
	return func(yield func(wire.Endpoint, int) bool) {
		for block, used := range p.used {
			for ; used != 0; used &= used - 1 {
				at := wire.Endpoint{IP: block.IP, Port: block.Port + uint16(bits.TrailingZeros64(used))}
				if !yield(at, 1+p.more[at]) {
					return
				}
			}
		}
	}
}

// Empty reports whether no endpoint is in use.
func (p *Ports) Empty() bool { return len(p.used) == 0 }

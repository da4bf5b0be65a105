package ndports

import (
	"iter"
	"math/bits"
	"math/rand/v2"

	"github.com/ndxdp/ndxdp/provider/internal/outcome"
	"github.com/ndxdp/ndxdp/wire"
)

// The ports that are chosen for those who ask for none (ND specification, section 6.1).
const (
	FirstAutomatic = 49152
	LastAutomatic  = 65535
	// Block is how many automatic ports are claimed together, and the bits of a word: the first of a block is a multiple of it.
	Block = 64
)

const span = LastAutomatic - FirstAutomatic + 1

// Ports is who uses which endpoint: how many listeners, connectors and shared endpoints each has. Those in use are claimed from the other adapters
// of the machine. An endpoint costs a bit while one uses it, and an entry of a table while several do: most are those of connections, of
// which there may be many.
type Ports struct {
	used  map[wire.Endpoint]uint64 // by the first endpoint of a block: a bit for each in use; never zero
	more  map[wire.Endpoint]int    // uses beyond the first; never zero
	space Space
	last  uint16 // the automatic port that was taken last; zero before
}

// New is none in use.
func New(space Space) Ports {
	return Ports{used: map[wire.Endpoint]uint64{}, more: map[wire.Endpoint]int{}, space: space}
}

// place is where the bit of an endpoint is.
func place(at wire.Endpoint) (block wire.Endpoint, bit uint64) {
	return wire.Endpoint{IP: at.IP, Port: at.Port - at.Port%Block}, 1 << (at.Port % Block)
}

func (p *Ports) isUsed(at wire.Endpoint) bool {
	block, bit := place(at)
	return p.used[block]&bit != 0
}

// Take makes an endpoint owned. Port 0 chooses a free automatic one, of the block that the last one was in or from a random one on. A wildcard
// and a specific address on one port exclude each other.
func (p *Ports) Take(at wire.Endpoint, rng *rand.Rand) (wire.Endpoint, outcome.Outcome) {
	if at.Port != 0 {
		if p.taken(at) {
			return at, outcome.SharingViolation
		}
		if o := p.space.Claim(at.Port); o != outcome.Success {
			return at, o
		}
		p.use(at)
		return at, outcome.Success
	}
	start := rng.IntN(span)
	if p.last == 0 {
		p.last = uint16(FirstAutomatic + start)
	}
	for i := range Block + span {
		at.Port = p.candidate(i, start)
		if p.taken(at) {
			continue
		}
		switch o := p.space.Claim(at.Port); o {
		case outcome.Success:
			p.use(at)
			p.last = at.Port
			return at, o
		case outcome.InsufficientResources: // nor is any other one to be had
			return at, o
		default:
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

// use counts one more use.
func (p *Ports) use(at wire.Endpoint) {
	block, bit := place(at)
	if used := p.used[block]; used&bit == 0 {
		p.used[block] = used | bit
	} else {
		p.more[at]++
	}
}

// Share counts a connector that uses the endpoint of a listener, or a shared one.
func (p *Ports) Share(at wire.Endpoint) {
	_ = p.space.Claim(at.Port) // it is ours already
	p.use(at)
}

// Release takes back one use of an endpoint.
func (p *Ports) Release(at wire.Endpoint) {
	p.space.Release(at.Port)
	if more := p.more[at]; more > 1 {
		p.more[at] = more - 1
		return
	} else if more == 1 {
		delete(p.more, at)
		return
	}
	block, bit := place(at)
	if used := p.used[block] &^ bit; used != 0 {
		p.used[block] = used
	} else {
		delete(p.used, block)
	}
}

// All are the endpoints in use, and how many use each.
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

// Empty says that none is in use.
func (p *Ports) Empty() bool { return len(p.used) == 0 }

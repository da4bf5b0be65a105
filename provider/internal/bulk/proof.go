package bulk

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

const (
	// maxProbes is the number of unanswered probes of one size after which the path counts as unable to carry this size. The
	// search for the packet size uses the same number (PROTOCOL §9.6).
	maxProbes = 3
	// minProbeTimer is the least time to wait for the answer to a probe. The usual time is four retransmission time-outs.
	minProbeTimer = 10 * time.Millisecond
)

// proof is what probes have shown of a path. The zero proof has shown nothing.
type proof struct {
	proven uint16 // largest packet size that the path is known to carry; zero before the first proof
	size   uint16 // size of the current probe; zero if there is none
	tries  uint8  // probes of this size
	nonce  uint32
	at     clock.Time // earliest time of the next probe
}

// Carries reports whether the path is known to carry packets of size bytes.
func (p *proof) Carries(size int) bool { return size <= int(p.proven) }

// due reports whether to probe the path for packets of size bytes.
func (p *proof) due(size int, now clock.Time) bool { return !p.Carries(size) && now >= p.at }

// probe returns the nonce of the probe to send now. A new probe takes random as its nonce. timeout is the retransmission time-out.
// If maxProbes probes were not answered, probe returns false.
func (p *proof) probe(size int, now clock.Time, timeout time.Duration, random uint32) (nonce uint32, ok bool) {
	if int(p.size) != size {
		if p.size != 0 { // keep the number that Rest remembers
			p.tries = 0
		}
		p.size, p.nonce = uint16(min(size, wire.MaxPacket)), random
	}
	if p.tries == maxProbes {
		return 0, false
	}
	p.tries++
	p.at = now.Add(max(minProbeTimer, 4*timeout))
	return p.nonce, true
}

// answered handles the answer to a probe. It returns false if the answer is not for the current probe.
func (p *proof) answered(nonce uint32, size uint16) bool {
	if p.size == 0 || nonce != p.nonce || size != p.size {
		return false
	}
	*p = proof{proven: size}
	return true
}

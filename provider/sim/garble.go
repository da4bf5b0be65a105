package sim

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// garbling is damage to packets from one host to another until a time. It damages packets above a length, or only long packets in
// GSO batches.
type garbling struct {
	longest int
	runs    bool
	until   clock.Time
}

// Garble damages packets of more than longest bytes from one host to another for d. With runs, it damages only packets on bulk
// paths. It simulates a device or kernel that damages packets for one peer and in one direction.
func (n *Network) Garble(from, to *Host, longest int, runs bool, d time.Duration) {
	n.garbled[[2]*Host{from, to}] = garbling{longest, runs, n.now.Add(d)}
	n.trace.note(n.now, "garble", from.name+"-"+to.name)
}

// garble damages a packet if a garbling applies to it.
func (n *Network) garble(from, to *Host, bulk bool, p []byte) []byte {
	g, ok := n.garbled[[2]*Host{from, to}]
	if !ok || n.now >= g.until || len(p) <= g.longest || g.runs && !bulk {
		return p
	}
	n.Happened[Garble]++
	p[n.rng.IntN(len(p))] ^= 1 << n.rng.IntN(8)
	n.trace.packet(n.now, from, "garble", p)
	return p
}

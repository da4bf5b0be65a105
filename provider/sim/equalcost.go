package sim

import (
	"encoding/binary"
	"hash/fnv"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// equalPaths is how many paths of equal cost lead from one host to another. A hash of addresses and ports chooses one for each packet.
const equalPaths = 8

// outage are paths from one host to another that carry nothing until a time.
type outage struct {
	paths uint8 // a bit for each
	until clock.Time
}

// KillPaths makes paths of equal cost from one host to another lose everything for d: the paths whose bits are set in paths.
func (n *Network) KillPaths(from, to *Host, paths uint8, d time.Duration) {
	n.outages[[2]*Host{from, to}] = outage{paths, n.now.Add(d)}
	n.trace.note(n.now, "dead paths", from.name+"-"+to.name)
}

// pathOf returns the path that packets with these addresses and ports take.
func pathOf(ends pathEnds) uint8 {
	b := make([]byte, 0, 2*18)
	b = append(b, ends.local.IP[:]...)
	b = binary.BigEndian.AppendUint16(b, ends.local.Port)
	b = append(b, ends.remote.IP[:]...)
	b = binary.BigEndian.AppendUint16(b, ends.remote.Port)
	sum := fnv.New64a()
	sum.Write(b)
	return 1 << (sum.Sum64() >> 32 % equalPaths)
}

// onDeadPath reports whether a packet takes a path that carries nothing.
func (n *Network) onDeadPath(from, to *Host, ends pathEnds) bool {
	o, ok := n.outages[[2]*Host{from, to}]
	if !ok || n.now >= o.until || o.paths&pathOf(ends) == 0 {
		return false
	}
	n.Happened[DeadPath]++
	return true
}

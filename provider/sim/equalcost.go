package sim

import (
	"encoding/binary"
	"hash/fnv"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// equalPaths is the number of equal-cost paths between two hosts. A hash of addresses and ports chooses the path of a packet.
const equalPaths = 8

// outage is a set of paths that lose everything until a time.
type outage struct {
	paths uint8 // bit mask
	until clock.Time
}

// KillPaths makes equal-cost paths from one host to another lose everything for d. paths is a bit mask.
func (n *Network) KillPaths(from, to *Host, paths uint8, d time.Duration) {
	n.outages[[2]*Host{from, to}] = outage{paths, n.now.Add(d)}
	n.trace.note(n.now, "dead paths", from.name+"-"+to.name)
}

// pathOf returns the path of packets with these addresses and ports.
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

// onDeadPath reports whether a packet takes a path with an outage.
func (n *Network) onDeadPath(from, to *Host, ends pathEnds) bool {
	o, ok := n.outages[[2]*Host{from, to}]
	if !ok || n.now >= o.until || o.paths&pathOf(ends) == 0 {
		return false
	}
	n.Happened[DeadPath]++
	return true
}

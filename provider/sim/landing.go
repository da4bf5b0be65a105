package sim

import (
	"encoding/binary"
	"hash/fnv"
	"time"

	"github.com/ndxdp/ndxdp/wire"
)

// Landing is how a NIC chooses the queue of a packet.
type Landing uint8

// Ways to choose: by a hash of the flow, as NICs do; by a hash that changes meanwhile; at random for each packet.
const (
	LandByFlow Landing = iota
	LandRehashed
	LandAnywhere
	numLandings
)

// planLanding draws the hash, and when it changes.
func (h *Host) planLanding() {
	if h.cfg.Engines < 2 {
		return
	}
	h.hashKey = h.rng.Uint64()
	if h.cfg.Landing == LandRehashed {
		h.net.After(between(h.rng, 0, 100*time.Millisecond), func() {
			h.hashKey = h.rng.Uint64()
			h.net.trace.note(h.net.now, "rehash", h.name)
		})
	}
}

// landOn returns the queue of a packet of a flow.
func (h *Host) landOn(flow pathEnds) *queue {
	n := uint64(len(h.queues))
	switch {
	case n == 1:
		return h.queues[0]
	case h.cfg.Landing == LandAnywhere:
		return h.queues[h.rng.Uint64N(n)]
	}
	var b []byte
	b = binary.BigEndian.AppendUint64(b, h.hashKey)
	for _, end := range []wire.Endpoint{flow.local, flow.remote} {
		b = append(b, end.IP[:]...)
		b = binary.BigEndian.AppendUint16(b, end.Port)
	}
	sum := fnv.New64a()
	sum.Write(b)
	return h.queues[sum.Sum64()>>32%n]
}

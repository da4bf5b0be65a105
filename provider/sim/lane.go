package sim

import (
	"math/rand/v2"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// Lane is a host's bulk path (PROTOCOL §11.1): a socket that the first queue reads and all queues write to. Its packets do not wait
// for a ring, and have a delay and an order of their own.
type Lane struct {
	port   uint16
	shut   bool // it sends no GSO batches any more
	losing int  // packets still to lose of a GSO batch
}

const (
	// firstLanePort is the port of a host's first life. Each restart opens another socket.
	firstLanePort = 40000
	// longestRun is the largest number of packets lost together, because a network element drops a GSO batch as one packet.
	longestRun = 44
)

// openLane opens the socket of the host's present life, before its engines are made.
func (h *Host) openLane() {
	h.lane = nil
	h.cfg.Engine.BulkPort = 0
	if h.cfg.Lane {
		h.lane = &Lane{port: firstLanePort + uint16(h.life)}
		if h.cfg.Sockets {
			h.lane.port = wire.DefaultPort
		}
		h.cfg.Engine.BulkPort = h.lane.port
	}
}

// lanePath returns the bulk path to a peer.
func (h *Host) lanePath(to wire.Endpoint) pathEnds {
	return pathEnds{local: wire.Endpoint{IP: h.IP, Port: h.lane.port}, remote: to, bulk: true}
}

// BulkOpen implements provider.Laned.
func (q *queue) BulkOpen() bool { return q.host.lane != nil && !q.host.lane.shut }

// BulkPath implements provider.Laned.
func (q *queue) BulkPath(to wire.Endpoint) (provider.Path, bool) {
	if !q.BulkOpen() || q.host.isDown() || q.host.net.strikes(q.host.rng, NoPath) {
		return 0, false
	}
	return q.bulk.add(q.host.lanePath(to)), true
}

// ForgetBulk implements provider.Laned.
func (q *queue) ForgetBulk(p provider.Path) { q.bulk.remove(p) }

// ShutLane stops the GSO batches of the host's bulk path, as if the kernel refused one. Packets to the host still arrive.
func (h *Host) ShutLane() {
	if h.lane == nil || h.lane.shut {
		return
	}
	h.lane.shut = true
	h.net.Happened[LaneShut]++
	h.net.trace.note(h.net.now, "lane shut", h.name)
}

// transmitBulk sends a packet by the bulk path. No ring holds it, and its frames return at once. A packet that the socket refuses
// is lost.
func (q *queue) transmitBulk(path pathEnds, packet []byte, refused bool) {
	h := q.host
	if refused || h.lane == nil {
		h.net.trace.packet(h.net.now, h, "refuse", packet)
		return
	}
	if h.forger != nil {
		h.forger.send(path, packet)
		return
	}
	h.net.carry(h, path, packet)
}

// laneOutage makes a bulk path from one host to another lose packets above a size until a time.
type laneOutage struct {
	longest int
	until   clock.Time
}

// KillLane drops packets of more than longest bytes by the bulk path from one host to another, for d. It simulates a firewall that
// drops the port, or a path that cannot carry packets of this size.
func (n *Network) KillLane(from, to *Host, longest int, d time.Duration) {
	n.laneOutages[[2]*Host{from, to}] = laneOutage{longest, n.now.Add(d)}
	n.trace.note(n.now, "dead lane", from.name+"-"+to.name)
}

// losesInLane decides whether a packet is lost on the bulk path, in addition to other losses.
func (n *Network) losesInLane(from, to *Host, size int) bool {
	if o, ok := n.laneOutages[[2]*Host{from, to}]; ok && n.now < o.until && size > o.longest {
		n.Happened[LaneDead]++
		return true
	}
	l := from.lane
	switch {
	case l == nil: // a packet to an earlier life
		return true
	case l.losing > 0:
		l.losing--
		n.Happened[LaneLoss]++
		return true
	case n.strikes(n.rng, LaneLoss):
		l.losing = n.rng.IntN(longestRun)
		return true
	}
	return false
}

// drawLanes draws whether hosts have bulk paths, their faults, and their delay relative to the ND port. It draws from a generator
// of its own, so that it does not change what a seed draws otherwise.
func (c *Conditions) drawLanes(rng *rand.Rand) {
	delay := c.Delay
	if rng.IntN(2) == 0 {
		delay = between(rng, delay/8, 8*delay) + time.Nanosecond
	}
	if rng.IntN(2) == 0 {
		return
	}
	c.LaneDelay = delay
	for f := range numFaults {
		if !f.ofLanes() {
			continue
		}
		if rate := 1 + rng.IntN(worst[f])>>rng.IntN(4); rng.IntN(2) == 0 && (f < firstHostile || c.hostile()) {
			c.Rates[f] = rate
		}
	}
}

// toLane converts a path to a host into its bulk path. ok is false if the host has none.
func (h *Host) toLane(path pathEnds) (by pathEnds, ok bool) {
	to := h.net.byIP[path.remote.IP]
	if path.bulk || h.lane == nil || to == nil || to.lane == nil {
		return path, false
	}
	by = h.lanePath(wire.Endpoint{IP: to.IP, Port: to.lane.port})
	by.ecn = path.ecn
	return by, true
}

// drawLane draws whether a host has a bulk path, whether it prefers it, whether it is its only port, and whether arrival times are
// known.
func (w *world) drawLane(cfg *HostConfig) {
	has, always := w.lanes.IntN(4) > 0, w.lanes.IntN(2) == 0
	cfg.Stamps = w.lanes.IntN(2) == 0
	sockets := w.lanes.IntN(3) == 0
	if w.net.LaneDelay > 0 && has {
		cfg.Lane, cfg.Engine.BulkAlways, cfg.Sockets = true, always, sockets
	}
}

// randomLaneFault causes a rare fault of the bulk paths between two hosts.
func (w *world) randomLaneFault(a, b *Host) {
	rates := &w.net.Rates
	longest, d := []int{0, 0, 1200, 1408, 9000}[w.lanes.IntN(5)], between(w.lanes, 0, 5*time.Second)
	if w.lanes.IntN(4) == 0 {
		d = time.Hour // forever
	}
	if back := w.lanes.IntN(2) == 0; chance(w.lanes, rates[LaneDead]) {
		w.net.KillLane(a, b, longest, d)
		if back {
			w.net.KillLane(b, a, longest, d)
		}
	}
	if chance(w.lanes, rates[LaneShut]) {
		a.ShutLane()
	}
}

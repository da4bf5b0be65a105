package sim

import (
	"math/rand/v2"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// Lane is a host's bulk lane (PROTOCOL §11.1): a socket beside its queues, which the first one reads and all write to. Its packets wait for no ring, and
// come with a delay and in an order of their own.
type Lane struct {
	port   uint16
	shut   bool // it sends no runs any more
	losing int  // packets that are still lost of a run that was
}

const (
	// firstLanePort is that of a host's first life; a host that starts anew opens another socket.
	firstLanePort = 40000
	// longestRun is how many packets are lost together at most: a run is one packet to whatever drops it.
	longestRun = 44
)

// openLane gives the host the socket of its present life, before its engines are made.
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

// lanePath is a path by the lane, as packets find it on their way.
func (h *Host) lanePath(to wire.Endpoint) pathEnds {
	return pathEnds{local: wire.Endpoint{IP: h.IP, Port: h.lane.port}, remote: to, bulk: true}
}

// BulkOpen implements provider.Laned.
func (q *queue) BulkOpen() bool { return q.host.lane != nil && !q.host.lane.shut }

// BulkPath implements provider.Laned.
func (q *queue) BulkPath(to wire.Endpoint) (provider.Path, bool) {
	if !q.BulkOpen() || q.host.net.strikes(q.host.rng, NoPath) {
		return 0, false
	}
	return q.bulk.add(q.host.lanePath(to)), true
}

// ForgetBulk implements provider.Laned.
func (q *queue) ForgetBulk(p provider.Path) { q.bulk.remove(p) }

// ShutLane makes the host's bulk path send no GSO batches any more, as when the kernel refuses one. Packets to the host still arrive.
func (h *Host) ShutLane() {
	if h.lane == nil || h.lane.shut {
		return
	}
	h.lane.shut = true
	h.net.Happened[LaneShut]++
	h.net.trace.note(h.net.now, "lane shut", h.name)
}

// transmitBulk sends a packet by the bulk path: no ring keeps it, and its frames come back at once. Packets that the socket refuses are
// lost.
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

// laneOutage is what happens to a lane from one host to another until a time: packets of more than so many bytes are lost.
type laneOutage struct {
	longest int
	until   clock.Time
}

// KillLane drops packets of more than longest bytes by the bulk path from one host to another, for d: like a firewall that drops its port,
// or a path that cannot carry packets this long.
func (n *Network) KillLane(from, to *Host, longest int, d time.Duration) {
	n.laneOutages[[2]*Host{from, to}] = laneOutage{longest, n.now.Add(d)}
	n.trace.note(n.now, "dead lane", from.name+"-"+to.name)
}

// losesInLane decides whether a packet by the lane gets lost there, beside what happens to all.
func (n *Network) losesInLane(from, to *Host, size int) bool {
	if o, ok := n.laneOutages[[2]*Host{from, to}]; ok && n.now < o.until && size > o.longest {
		n.Happened[LaneDead]++
		return true
	}
	l := from.lane
	switch {
	case l == nil: // of an earlier life
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

// drawLanes draws whether hosts have bulk paths, their faults, and how long their packets take: less than by the ND port, as much or more.
// These draws change nothing else of a world.
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

// toLane is the way by the lane of a packet for a host that has one.
func (h *Host) toLane(path pathEnds) (by pathEnds, ok bool) {
	to := h.net.byIP[path.remote.IP]
	if path.bulk || h.lane == nil || to == nil || to.lane == nil {
		return path, false
	}
	by = h.lanePath(wire.Endpoint{IP: to.IP, Port: to.lane.port})
	by.ecn = path.ecn
	return by, true
}

// drawLane draws whether a host has a lane, whether it takes it for all that it carries, whether that is its only port, and whether it knows when packets came.
func (w *world) drawLane(cfg *HostConfig) {
	has, always := w.lanes.IntN(4) > 0, w.lanes.IntN(2) == 0
	cfg.Stamps = w.lanes.IntN(2) == 0
	sockets := w.lanes.IntN(3) == 0
	if w.net.LaneDelay > 0 && has {
		cfg.Lane, cfg.Engine.BulkAlways, cfg.Sockets = true, always, sockets
	}
}

// randomLaneFault is something rare that happens to the lanes of two hosts.
func (w *world) randomLaneFault(a, b *Host) {
	rates := &w.net.Rates
	longest, d := []int{0, 0, 1200, 1408, 9000}[w.lanes.IntN(5)], between(w.lanes, 0, 5*time.Second)
	if w.lanes.IntN(4) == 0 {
		d = time.Hour // for good
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

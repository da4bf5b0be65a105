package sim

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// Network connects hosts. It is the only source of time and order in a simulation.
type Network struct {
	Conditions
	Happened Counts

	met            Met
	secrets        *secrets // of encrypted connections; nil for none
	fastRegistered uint64   // fast registrations that succeeded

	rng         *rand.Rand
	grants      *rand.Rand // generator for the end of grants
	now         clock.Time
	events      eventHeap
	seq         uint64
	hosts       []*Host
	byIP        map[[16]byte]*Host
	burst       clock.Time // everything is lost until then
	cut         map[[2]*Host]clock.Time
	narrow      map[[2]*Host]int  // largest packet that passes, if smaller than both hosts support
	noECT       map[[2]*Host]bool // ECN-capable packets are lost
	outages     map[[2]*Host]outage
	last        map[lastKey]clock.Time // arrival of the last packet of a path, with InOrder
	laneOutages map[[2]*Host]laneOutage
	splits      map[[2]*Host]bool // GSO batches from one host to another are split
	garbled     map[[2]*Host]garbling
	trace       tracer
	broken      []string // failures
	flows       map[flowKey]*flow
	shaken      map[flowKey]uint16 // end of the bytes that SHAKE in plain had
	tap         provider.Tap
	used        *usedPackets                    // checks the packets that engines use; nil without a hostile host
	watch       func(from *Host, ends pathEnds) // called for each packet with its path, if set
}

// NewNetwork makes an empty network.
func NewNetwork(seed uint64, cond Conditions, trace io.Writer) *Network {
	return &Network{
		Conditions: cond, rng: rand.New(rand.NewPCG(seed, 0x6e6574)), grants: rand.New(rand.NewPCG(seed, 0x6772616e74)), now: clock.Time(time.Second), byIP: map[[16]byte]*Host{},
		cut: map[[2]*Host]clock.Time{}, narrow: map[[2]*Host]int{}, noECT: map[[2]*Host]bool{}, outages: map[[2]*Host]outage{}, laneOutages: map[[2]*Host]laneOutage{}, splits: map[[2]*Host]bool{}, garbled: map[[2]*Host]garbling{}, last: map[lastKey]clock.Time{}, flows: map[flowKey]*flow{}, shaken: map[flowKey]uint16{}, trace: tracer{out: trace},
	}
}

// Fail records a failure, which ends the run soon.
func (n *Network) Fail(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	n.broken = append(n.broken, text)
	n.trace.note(n.now, "FAIL", text)
}

// Partition cuts both directions between two hosts for d.
func (n *Network) Partition(a, b *Host, d time.Duration) {
	n.cut[[2]*Host{a, b}] = n.now.Add(d)
	n.cut[[2]*Host{b, a}] = n.now.Add(d)
	n.trace.note(n.now, "partition", a.name+"-"+b.name)
}

// Narrow silently drops packets of more than size bytes from one host to another: the path's MTU in this direction. Zero removes
// the limit.
func (n *Network) Narrow(from, to *Host, size int) {
	n.narrow[[2]*Host{from, to}] = size
	n.trace.note(n.now, "path "+strconv.Itoa(size), from.name+"-"+to.name)
}

// LoseECT drops only ECN-capable packets from one host to another.
func (n *Network) LoseECT(from, to *Host) {
	n.noECT[[2]*Host{from, to}] = true
	n.trace.note(n.now, "unmarkable only", from.name+"-"+to.name)
}

// losesECT reports whether the path drops a packet because it is ECN-capable.
func (n *Network) losesECT(from, to *Host, ecn wire.ECN) bool {
	if ecn != wire.ECT0 || !n.noECT[[2]*Host{from, to}] {
		return false
	}
	n.Happened[OneWayLoss]++
	return true
}

// packetLife is the longest time that a packet is in flight. It is shorter than an ended connection lingers (PROTOCOL §8).
const packetLife = time.Second

// carry takes ownership of a packet from a host and delivers, loses, delays, duplicates or damages it.
func (n *Network) carry(from *Host, path pathEnds, packet []byte) {
	to := n.byIP[path.remote.IP]
	sent, delay := "send", n.Delay
	if path.bulk {
		sent, delay = "send bulk", n.LaneDelay
	}
	n.trace.packet(n.now, from, sent, packet)
	if n.watch != nil {
		n.watch(from, path)
	}
	if to == nil || n.tooLong(from, to, sizeOnLink(packet, path.segment)) || n.onDeadPath(from, to, path) || path.bulk && n.losesInLane(from, to, sizeOnLink(packet, path.segment)) || n.losesECT(from, to, path.ecn) || n.loses(from, to) {
		n.trace.packet(n.now, from, "lose", packet)
		n.meet(from, packet, true)
		return
	}
	n.meet(from, packet, false)
	copies := 1
	if n.strikes(n.rng, Duplicate) {
		copies = 2
	}
	for copies > 0 {
		p := packet
		if copies--; copies > 0 {
			p = append([]byte(nil), packet...)
		}
		p = n.garble(from, to, path.bulk, n.damage(from, p))
		d := delay + between(n.rng, 0, n.Jitter)
		if n.strikes(n.rng, Reorder) {
			d += between(n.rng, 0, 2*n.Delay+20*time.Microsecond)
		}
		if n.strikes(n.rng, Late) {
			d += n.late()
		}
		inlet := to.inlet
		if path.bulk && to.laneInlet != nil {
			inlet = to.laneInlet
		}
		queued, marked, ok := inlet.pass(n.now, len(p), path.ecn)
		if !ok {
			n.Happened[inlet.fault()]++
			n.trace.packet(n.now, from, "overflow", p)
			continue
		}
		if chance(n.rng, n.Rates[Mark]) && path.ecn == wire.ECT0 {
			n.Happened[Mark]++
			marked = true
		}
		n.After(n.inOrder(lastKey{from, to, path.bulk}, queued+d), func() { n.deliver(from, to, path, p, marked) })
	}
}

// late returns the delay of a late packet.
func (n *Network) late() time.Duration {
	if n.LateBy > 0 {
		return between(n.rng, 0, n.LateBy)
	}
	return min(100*n.Delay, packetLife)
}

// lastKey identifies packets whose order is kept: from one host to another, separately for the bulk path.
type lastKey struct {
	from, to *Host
	bulk     bool
}

// inOrder delays a packet until earlier packets of its path have arrived, if paths keep the order.
func (n *Network) inOrder(path lastKey, d time.Duration) time.Duration {
	if !n.InOrder {
		return d
	}
	at := n.now.Add(d)
	if last := n.last[path]; at < last {
		n.Happened[Held]++
		at = last
	}
	n.last[path] = at
	return at.Sub(n.now)
}

// tooLong reports whether the path drops a packet because of its size.
func (n *Network) tooLong(from, to *Host, size int) bool {
	limit := n.narrow[[2]*Host{from, to}]
	if limit == 0 || size <= limit {
		return false
	}
	n.Happened[PathMTU]++
	return true
}

// loses decides whether a packet is lost.
func (n *Network) loses(from, to *Host) bool {
	switch {
	case n.now < n.cut[[2]*Host{from, to}]:
		n.Happened[Partition]++
		return true
	case n.linkIsDown(from, to):
		return true
	case n.now < n.burst:
		n.Happened[Burst]++
		return true
	case chance(n.rng, from.cfg.SendLoss):
		n.Happened[OneWayLoss]++
		return true
	}
	if chance(n.rng, n.Rates[Burst]) {
		n.burst = n.now.Add(between(n.rng, 0, n.BurstLen))
		n.Happened[Burst]++
		return true
	}
	return n.strikes(n.rng, Loss)
}

// damage may change or truncate a packet.
func (n *Network) damage(from *Host, p []byte) []byte {
	if n.strikes(n.rng, Corrupt) {
		for range 1 + n.rng.IntN(3) {
			bit := n.rng.IntN(len(p) * 8)
			p[bit/8] ^= 1 << (bit % 8)
		}
		n.trace.packet(n.now, from, "corrupt", p)
	}
	if n.strikes(n.rng, Truncate) {
		p = p[:n.rng.IntN(len(p))]
		n.trace.note(n.now, "truncate", from.name)
	}
	return p
}

// hostIP returns the address of host number i, IPv4 in its mapped form: 10.0.x.x.
func hostIP(i int) [16]byte {
	ip := [16]byte{10: 0xff, 11: 0xff, 12: 10}
	binary.BigEndian.PutUint16(ip[14:], uint16(i+1))
	return ip
}

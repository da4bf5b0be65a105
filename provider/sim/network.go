package sim

import (
	"container/heap"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// Conditions are what a network does to packets. Chances are parts in 10,000.
type Conditions struct {
	Delay  time.Duration // one way
	Jitter time.Duration // added at random, so it also reorders

	Loss      int
	Burst     int           // chance that a burst of losses begins
	BurstLen  time.Duration // a burst takes all packets for this long at most
	Duplicate int
	Corrupt   int // one to three bits are turned over
	Truncate  int
	Late      int // chance of another 100 Delays: far out of order
}

// chance draws an event that happens in parts of 10,000 cases.
func chance(rng *rand.Rand, parts int) bool { return parts > 0 && rng.IntN(10000) < parts }

// between draws a duration from [lo, hi).
func between(rng *rand.Rand, lo, hi time.Duration) time.Duration {
	if hi <= lo {
		return lo
	}
	return lo + time.Duration(rng.Int64N(int64(hi-lo)))
}

// Network joins hosts, and is the only source of time and order in a simulation.
type Network struct {
	Conditions

	rng    *rand.Rand
	now    clock.Time
	events eventHeap
	seq    uint64
	hosts  []*Host
	byIP   map[[16]byte]*Host
	burst  clock.Time // everything is lost until then
	cut    map[[2]*Host]clock.Time
	trace  tracer
	broken []string // what was found to be wrong
	flows  map[flowKey]*flow
}

// NewNetwork makes an empty network.
func NewNetwork(seed uint64, cond Conditions, trace io.Writer) *Network {
	return &Network{
		Conditions: cond, rng: rand.New(rand.NewPCG(seed, 0x6e6574)), now: clock.Time(time.Second),
		byIP: map[[16]byte]*Host{}, cut: map[[2]*Host]clock.Time{}, flows: map[flowKey]*flow{}, trace: tracer{out: trace},
	}
}

// event is something that happens at a time; seq keeps the order of those at the same time.
type event struct {
	at  clock.Time
	seq uint64
	do  func()
}

type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = event{}
	*h = (*h)[:last]
	return e
}

// Now is the virtual time.
func (n *Network) Now() clock.Time { return n.now }

// After calls do when d has passed.
func (n *Network) After(d time.Duration, do func()) {
	n.seq++
	heap.Push(&n.events, event{n.now.Add(d), n.seq, do})
}

// Fail notes that something is wrong; the run ends soon.
func (n *Network) Fail(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	n.broken = append(n.broken, text)
	n.trace.note(n.now, "FAIL", text)
}

// Step lets the next thing happen. It reports false when nothing ever will.
func (n *Network) Step() bool {
	next := clock.Never
	var host *Host
	for _, h := range n.hosts {
		if at := max(h.runAt, h.pausedUntil); h.runAt != clock.Never && at < next {
			next, host = at, h
		}
	}
	if len(n.events) > 0 && n.events[0].at <= next {
		e := heap.Pop(&n.events).(event)
		n.now = max(n.now, e.at)
		e.do()
		return true
	}
	if host == nil {
		return false
	}
	n.now = max(n.now, next)
	host.run()
	return true
}

// RunUntil steps until done says so; it reports false when the time limit passed before, or something broke.
func (n *Network) RunUntil(limit time.Duration, done func() bool) bool {
	end := n.now.Add(limit)
	for !done() {
		if len(n.broken) > 0 || n.now > end || !n.Step() {
			return false
		}
	}
	return true
}

// Partition cuts both directions between two hosts for d.
func (n *Network) Partition(a, b *Host, d time.Duration) {
	n.cut[[2]*Host{a, b}] = n.now.Add(d)
	n.cut[[2]*Host{b, a}] = n.now.Add(d)
	n.trace.note(n.now, "partition", a.name+"-"+b.name)
}

// carry takes one packet from a host, and does to it what networks do.
func (n *Network) carry(from *Host, path pathEnds, packet []byte) {
	to := n.byIP[path.remote.IP]
	n.watchSent(from, path, packet)
	n.trace.packet(n.now, from, "send", packet)
	switch {
	case to == nil, n.now < n.cut[[2]*Host{from, to}], n.loses():
		n.trace.packet(n.now, from, "lose", packet)
		return
	}
	copies := 1
	if chance(n.rng, n.Duplicate) {
		copies = 2
	}
	for range copies {
		p := append([]byte(nil), packet...)
		p, whole := n.damage(from, p)
		d := n.Delay + between(n.rng, 0, n.Jitter)
		if chance(n.rng, n.Late) {
			d += 100 * n.Delay
		}
		wait, marked, ok := to.inlet.pass(n.now, len(p))
		if !ok {
			n.trace.packet(n.now, from, "overflow", packet)
			continue
		}
		n.After(wait+d, func() { to.arrive(path, p, whole, marked) })
	}
}

func (n *Network) loses() bool {
	if n.now < n.burst {
		return true
	}
	if chance(n.rng, n.Burst) {
		n.burst = n.now.Add(between(n.rng, 0, n.BurstLen))
		return true
	}
	return chance(n.rng, n.Loss)
}

// damage may change a packet; whole says that it did not.
func (n *Network) damage(from *Host, p []byte) (out []byte, whole bool) {
	whole = true
	if chance(n.rng, n.Corrupt) {
		for range 1 + n.rng.IntN(3) {
			bit := n.rng.IntN(len(p) * 8)
			p[bit/8] ^= 1 << (bit % 8)
		}
		n.trace.packet(n.now, from, "corrupt", p)
		whole = false
	}
	if chance(n.rng, n.Truncate) {
		p = p[:n.rng.IntN(len(p))]
		n.trace.note(n.now, "truncate", from.name)
		whole = false
	}
	return p, whole
}

// A flow is what one connection sent in one space. It is known by its sender and the sender's UDP port, which both
// directions show: packets to a connection carry its id, and the port follows from the id.
type flowKey struct {
	host  *Host
	port  uint16
	space wire.Space
}

type flow struct {
	sent, acked wire.PSN
	to          uint64 // the receiver's connection id
	shared      bool   // two connections have this port: nothing can be said
}

// watchSent checks that no sender has more packets out than the receiver holds (PROTOCOL §7.1).
func (n *Network) watchSent(from *Host, path pathEnds, packet []byte) {
	h, d := wire.ParseBaseHeader(packet)
	if d != wire.DropNone || h.OpCount() == 0 {
		return
	}
	key := flowKey{from, path.local.Port, h.Space()}
	f := n.flows[key]
	if f == nil {
		n.flows[key] = &flow{sent: h.PSN(), acked: h.PSN(), to: h.ConnID()}
		return
	}
	if f.shared = f.shared || f.to != h.ConnID(); f.shared {
		return
	}
	if f.sent.Less(h.PSN()) {
		if h.PSN().Sub(f.sent) != 1 {
			n.Fail("%s skips from PSN %d to %d", from.name, f.sent, h.PSN())
		}
		f.sent = h.PSN()
	}
	if out := f.sent.Sub(f.acked) + 1; out > provider.Window {
		n.Fail("%s has %d packets out in the %s space", from.name, out, h.Space())
	}
}

// watchArrived notes acknowledgements that reached a sender.
func (n *Network) watchArrived(to *Host, packet []byte) {
	h, d := wire.ParseBaseHeader(packet)
	if d != wire.DropNone || h.ConnID() == 0 || h.OpCount() == 0 && packet[wire.ControlOffset] != byte(wire.CtlAck) {
		return
	}
	for _, space := range []wire.Space{wire.RequestSpace, wire.ResponseSpace} {
		if f := n.flows[flowKey{to, wire.SourcePort(h.ConnID()), space}]; f != nil {
			if next := h.NextPSN(space); f.acked.Less(next) && next.Sub(f.sent) <= 1 {
				f.acked = next
			}
		}
	}
}

// tracer keeps the last events, and prints all of them when there is somewhere to print to.
type tracer struct {
	out  io.Writer
	ring [256]traceEntry
	n    uint64
}

type traceEntry struct {
	at         clock.Time
	who, what  string
	packet     bool
	ops        int
	psn        uint32
	space      wire.Space
	opcode     wire.Opcode
	id         uint64
	next       [wire.NumSpaces]wire.PSN
	size       int
	resent     bool
	ackRequest bool
}

func (t *tracer) add(e traceEntry) {
	t.ring[t.n%uint64(len(t.ring))] = e
	t.n++
	if t.out != nil {
		fmt.Fprintln(t.out, e)
	}
}

func (t *tracer) note(at clock.Time, what, who string) {
	t.add(traceEntry{at: at, what: what, who: who})
}

func (t *tracer) packet(at clock.Time, h *Host, what string, p []byte) {
	e := traceEntry{at: at, what: what, who: h.name, packet: true, size: len(p)}
	if b, d := wire.ParseBaseHeader(p); d == wire.DropNone {
		e.ops, e.psn, e.space, e.id = b.OpCount(), uint32(b.PSN()), b.Space(), b.ConnID()
		e.next = [wire.NumSpaces]wire.PSN{b.NextPSN(0), b.NextPSN(1)}
		e.resent, e.ackRequest = b.Flags()&wire.FlagRTX != 0, b.Flags()&wire.FlagAckReq != 0
		if len(p) > wire.ControlOffset {
			e.opcode = wire.Opcode(p[wire.ControlOffset])
		}
	}
	t.add(e)
}

// String prints one line.
func (e traceEntry) String() string {
	s := fmt.Sprintf("%12.6f %-9s %s", float64(e.at)/1e9, e.what, e.who)
	if !e.packet {
		return s
	}
	s += fmt.Sprintf(" -> %016x %5d B %s", e.id, e.size, e.opcode)
	if e.ops > 0 {
		s += fmt.Sprintf(" x%d %s psn %d", e.ops, e.space, e.psn)
	}
	if e.resent {
		s += " again"
	}
	if e.ackRequest {
		s += " ackreq"
	}
	return s + fmt.Sprintf(" next %d/%d", e.next[0], e.next[1])
}

// last prints the newest events, oldest first.
func (t *tracer) last(w io.Writer) {
	n := min(t.n, uint64(len(t.ring)))
	for i := t.n - n; i < t.n; i++ {
		fmt.Fprintln(w, t.ring[i%uint64(len(t.ring))])
	}
}

// hostIP is the address of host number i, IPv4 in its mapped form: 10.0.x.x.
func hostIP(i int) [16]byte {
	ip := [16]byte{10: 0xff, 11: 0xff, 12: 10}
	binary.BigEndian.PutUint16(ip[14:], uint16(i+1))
	return ip
}

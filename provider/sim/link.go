package sim

import (
	"errors"
	"strconv"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// queue is one queue of a host's NIC, with its rings, frames, paths and engine. A restarted host gets new queues.
type queue struct {
	host    *Host
	name    string
	engine  *provider.Engine
	busy    bool   // the engine wants to poll again at once
	base    uint64 // added to frame ids, so that they are unique within the host
	inbox   []provider.RxPacket
	rx      map[uint64][]byte // receive frames that the engine owns
	nextRx  uint64
	tx      [][]byte
	txFree  []uint64
	txOut   map[uint64]bool // transmit frames that the engine owns
	paths   pathTable
	bulk    pathTable  // paths by the host's bulk path
	stall   clock.Time // the device accepts nothing before
	backlog []func()   // packets that the device did not accept, in order
}

type pathEnds struct {
	local, remote wire.Endpoint
	ecn           wire.ECN // of a packet in flight; a path has none
	bulk          bool     // by the bulk path
	segment       int      // of a long packet in flight: where the network may split it
}

// newQueue makes queue i.
func (h *Host) newQueue(i, frames int) *queue {
	q := &queue{
		host: h, name: h.name, base: uint64(i) * memoryBase / provider.MaxEngines,
		rx: map[uint64][]byte{}, txOut: map[uint64]bool{}, paths: newPathTable(), bulk: newPathTable(),
	}
	if i > 0 {
		q.name += "." + strconv.Itoa(i)
	}
	memory := make([]byte, frames*provider.FrameSize)
	for id := range frames {
		q.tx = append(q.tx, memory[id*provider.FrameSize:][:provider.FrameSize:provider.FrameSize])
		q.txFree = append(q.txFree, q.base+uint64(id))
	}
	return q
}

// arrive takes a packet from the network, and owns it afterwards.
func (h *Host) arrive(path pathEnds, packet []byte, marked bool) {
	h.net.trace.packet(h.net.now, h, "arrive", packet)
	switch {
	case len(packet) == 0:
		return
	case path.segment > 0: // a socket takes packets of each size
	case len(packet) > h.cfg.MaxPacket && len(packet) <= h.widest:
		return // its sender was notified before
	case len(packet) > h.cfg.MaxPacket:
		h.net.Fail("%s gets %d bytes, it takes %d", h.name, len(packet), h.cfg.MaxPacket)
		return
	}
	at := h.queues[0] // this queue reads the bulk path
	switch {
	case !path.bulk:
		at = h.landOn(path)
	case h.lane == nil || h.lane.port != path.remote.Port:
		return // the socket is closed
	}
	if !at.put(path, packet, marked) {
		h.net.Happened[Overflow]++
		return
	}
	h.wake(h.net.now.Add(between(h.rng, 0, h.cfg.Wake)))
}

// put splits a packet into receive frames of the queue. It returns false if the ring is full.
func (q *queue) put(path pathEnds, packet []byte, marked bool) bool {
	h := q.host
	if h.cfg.RxRing > 0 && len(q.inbox) >= h.cfg.RxRing {
		return false
	}
	r := provider.RxPacket{From: path.local, To: path.remote, Len: len(packet), CE: marked, Bulk: path.bulk && !h.cfg.Sockets, Merged: path.bulk}
	if h.cfg.Stamps && h.net.now >= h.unstamped {
		r.Arrived = h.clock()
	}
	// Base header, blocks and control messages are never split, except for the padding of a PROBE, because real frames are much
	// larger.
	size := max(h.cfg.FragSize, (len(packet)-wire.BaseHeaderLen+provider.MaxFrags-2)/(provider.MaxFrags-1), 1)
	n := wire.MinPacket
	if h, d := wire.ParseBaseHeader(packet); d == wire.DropNone && !h.Control() {
		at, _ := wire.ContentOffset(packet)
		n = max(size, at, wire.BaseHeaderLen)
	}
	for len(packet) > 0 {
		n = min(n, len(packet))
		q.nextRx++
		frame, id := packet[:n:n], q.base+q.nextRx
		q.rx[id] = frame
		r.Frags[r.N] = provider.Frag{Data: frame, ID: id}
		r.N++
		packet = packet[n:]
		n = size
	}
	q.inbox = append(q.inbox, r)
	return true
}

// Receive implements provider.Link.
func (q *queue) Receive(pkts []provider.RxPacket) int {
	n := copy(pkts, q.inbox)
	q.inbox = append(q.inbox[:0], q.inbox[n:]...)
	return n
}

// Ready implements provider.Link.
func (q *queue) Ready() bool { return len(q.inbox) > 0 }

// Recycle implements provider.Link.
func (q *queue) Recycle(ids []uint64) {
	h := q.host
	for _, id := range ids {
		frame, ok := q.rx[id]
		if !ok {
			h.net.Fail("%s recycles receive frame %d, which it does not own", q.name, id)
			continue
		}
		copy(frame, poison)
		delete(q.rx, id)
	}
}

// Frames implements provider.Link.
func (q *queue) Frames(dst []provider.Frag) int {
	h := q.host
	if h.net.strikes(h.rng, RingFull) {
		return 0
	}
	n := min(len(dst), len(q.txFree))
	if n == 0 {
		h.net.Happened[RingFull]++
	}
	for i := range n {
		last := len(q.txFree) - 1
		id := q.txFree[last]
		q.txFree = q.txFree[:last]
		q.txOut[id] = true
		dst[i] = provider.Frag{Data: q.tx[id-q.base], ID: id}
	}
	return n
}

// Transmit implements provider.Link.
func (q *queue) Transmit(pkts []provider.TxPacket) {
	h := q.host
	if h.net.strikes(h.rng, Again) {
		q.stall = h.net.now.Add(between(h.rng, 0, time.Millisecond))
	}
	refused := h.net.strikes(h.rng, Busy)
	q.Push()
	for i := range pkts {
		p := &pkts[i]
		packet, ids := q.collect(p)
		known := &q.paths
		if p.Bulk {
			known = &q.bulk
		}
		path := known.ends[p.Path]
		if path == (pathEnds{}) {
			h.net.Fail("%s transmits to a path that it forgot", q.name)
		}
		path.ecn, path.segment = p.ECN, p.Segment
		if h.forger == nil {
			h.net.watchSent(h, packet)
		}
		if p.Bulk {
			q.transmitBulk(path, packet, refused)
			q.reap(ids)
			continue
		}
		q.backlog = append(q.backlog, func() {
			switch {
			case refused:
				h.net.trace.packet(h.net.now, h, "refuse", packet)
			case h.forger != nil:
				h.forger.send(path, packet)
			default:
				h.net.carry(h, path, packet)
			}
			h.net.After(between(h.rng, 0, h.cfg.TxHold), func() { q.reap(ids) })
		})
	}
	q.Push()
}

// Backlog implements provider.Backlogged.
func (q *queue) Backlog() int { return len(q.backlog) }

// Push implements provider.Backlogged.
func (q *queue) Push() {
	if q.host.net.now < q.stall {
		return
	}
	for _, leave := range q.backlog {
		leave()
	}
	q.backlog = q.backlog[:0]
}

// collect joins the fragments of a packet and takes back its frames.
func (q *queue) collect(p *provider.TxPacket) (packet []byte, ids []uint64) {
	h := q.host
	packet = make([]byte, 0, p.Len)
	ids = make([]uint64, 0, p.N)
	for j := range p.N {
		f := &p.Frags[j]
		packet = append(packet, f.Data...)
		if len(f.Data) == 0 {
			h.net.Fail("%s transmits an empty fragment", h.name)
		}
		if f.ID == provider.Lent {
			if !p.Bulk {
				h.net.Fail("%s transmits lent memory where it may not", h.name)
			}
			continue
		}
		if f.ID >= memoryBase { // referenced memory, not a frame
			if f.ID%provider.FrameSize+uint64(len(f.Data)) > provider.FrameSize || j == 0 {
				h.net.Fail("%s transmits a piece that crosses a frame", h.name)
			}
			continue
		}
		if !q.txOut[f.ID] {
			h.net.Fail("%s transmits frame %d, which it does not own", q.name, f.ID)
		}
		delete(q.txOut, f.ID)
		ids = append(ids, f.ID)
	}
	if len(packet) != p.Len {
		h.net.Fail("%s transmits %d bytes and says %d", q.name, len(packet), p.Len)
	}
	if size := sizeOnLink(packet, p.Segment); size > h.cfg.MaxPacket {
		h.net.Fail("%s transmits %d bytes, the limit is %d", q.name, len(packet), h.cfg.MaxPacket)
	}
	return packet, ids
}

// memoryBase is the lowest id of memory that packets reference. Lower ids are transmit frames.
const memoryBase = 1 << 32

// nameMemory assigns ids to n bytes of memory, at any alignment.
func (h *Host) nameMemory(n int) uint64 {
	h.named = max(h.named, memoryBase) + uint64(h.rng.IntN(2*provider.FrameSize))
	id := h.named
	h.named += uint64(n)
	return id
}

func (q *queue) reap(ids []uint64) {
	for _, id := range ids {
		copy(q.tx[id-q.base], poison)
	}
	q.txFree = append(q.txFree, ids...)
}

// errNoPath is the error of links that provide no path.
var errNoPath = errors.New("the simulated link gives no path")

// Connect implements provider.Link.
func (q *queue) Connect(local, remote wire.Endpoint) (provider.Path, error) {
	if q.host.isDown() || q.host.net.strikes(q.host.rng, NoPath) {
		return 0, errNoPath
	}
	return q.paths.add(pathEnds{local: local, remote: remote}), nil
}

// Reply implements provider.Link.
func (q *queue) Reply(p *provider.RxPacket, from, to uint16) (provider.Path, bool) {
	path, err := q.Connect(wire.Endpoint{IP: p.To.IP, Port: from}, wire.Endpoint{IP: p.From.IP, Port: to})
	return path, err == nil
}

// Hop implements provider.Link: the simulated network has no link-layer addresses.
func (*queue) Hop(provider.Path) (mac [6]byte) { return mac }

// Forget implements provider.Link.
func (q *queue) Forget(p provider.Path) { q.paths.remove(p) }

// MaxPacket implements provider.Link.
func (q *queue) MaxPacket() int { return q.host.cfg.MaxPacket }

var _ provider.Link = (*queue)(nil)

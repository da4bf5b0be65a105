package sim

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// link is a host's NIC queue: rings, frames and paths. A host that starts anew gets a new one.
type link struct {
	inbox  []provider.RxPacket
	rx     map[uint64][]byte // receive frames that the engine owns
	nextRx uint64
	tx     [][]byte
	txFree []uint64
	txOut  map[uint64]bool // transmit frames that the engine owns
	lent   uint64          // end of the memory that packets may refer to
	paths  []pathEnds
	free   []provider.Path
	open   int
	stall  clock.Time // the device takes nothing before
}

type pathEnds struct {
	local, remote wire.Endpoint
	ecn           wire.ECN // of a packet on its way; a path has none
}

func newLink(frames int) link {
	l := link{rx: map[uint64][]byte{}, txOut: map[uint64]bool{}, paths: make([]pathEnds, 1)}
	memory := make([]byte, frames*provider.FrameSize)
	for id := range frames {
		l.tx = append(l.tx, memory[id*provider.FrameSize:][:provider.FrameSize:provider.FrameSize])
		l.txFree = append(l.txFree, uint64(id))
	}
	return l
}

// arrive takes a packet from the network, which gives it away.
func (h *Host) arrive(path pathEnds, packet []byte, whole, marked bool) {
	h.net.trace.packet(h.net.now, h, "arrive", packet)
	switch {
	case len(packet) == 0:
		return
	case len(packet) > h.cfg.MaxPacket && len(packet) <= h.widest:
		return // its sender was told before
	case len(packet) > h.cfg.MaxPacket:
		h.net.Fail("%s gets %d bytes, it takes %d", h.name, len(packet), h.cfg.MaxPacket)
		return
	case h.cfg.RxRing > 0 && len(h.inbox) >= h.cfg.RxRing:
		h.net.Happened[Overflow]++
		return
	}
	if whole {
		h.net.watchArrived(h, packet)
	}
	r := provider.RxPacket{From: path.local, To: path.remote, Len: len(packet), CE: marked}
	// The base header and control messages are never cut, but for the padding of a PROBE: real frames are much larger.
	size := max(h.cfg.FragSize, (len(packet)-wire.BaseHeaderLen+provider.MaxFrags-2)/(provider.MaxFrags-1), 1)
	n := max(size, wire.BaseHeaderLen)
	if len(packet) < wire.BaseHeaderLen || packet[1] == 0 {
		n = min(len(packet), wire.MinPacket)
	}
	for len(packet) > 0 {
		n = min(n, len(packet))
		h.nextRx++
		frame := packet[:n:n]
		h.rx[h.nextRx] = frame
		r.Frags[r.N] = provider.Frag{Data: frame, ID: h.nextRx}
		r.N++
		packet = packet[n:]
		n = size
	}
	h.inbox = append(h.inbox, r)
	h.wake(h.net.now.Add(between(h.rng, 0, h.cfg.Wake)))
}

// Receive implements provider.Link.
func (h *Host) Receive(pkts []provider.RxPacket) int {
	n := copy(pkts, h.inbox)
	h.inbox = append(h.inbox[:0], h.inbox[n:]...)
	return n
}

// Ready implements provider.Link.
func (h *Host) Ready() bool { return len(h.inbox) > 0 }

// Recycle implements provider.Link.
func (h *Host) Recycle(ids []uint64) {
	for _, id := range ids {
		frame, ok := h.rx[id]
		if !ok {
			h.net.Fail("%s recycles receive frame %d, which it does not own", h.name, id)
			continue
		}
		copy(frame, poison)
		delete(h.rx, id)
	}
}

// Frames implements provider.Link.
func (h *Host) Frames(dst []provider.Frag) int {
	if h.net.strikes(h.rng, RingFull) {
		return 0
	}
	n := min(len(dst), len(h.txFree))
	if n == 0 {
		h.net.Happened[RingFull]++
	}
	for i := range n {
		last := len(h.txFree) - 1
		id := h.txFree[last]
		h.txFree = h.txFree[:last]
		h.txOut[id] = true
		dst[i] = provider.Frag{Data: h.tx[id], ID: id}
	}
	return n
}

// Transmit implements provider.Link.
func (h *Host) Transmit(pkts []provider.TxPacket) {
	if h.net.strikes(h.rng, Again) {
		h.stall = h.net.now.Add(between(h.rng, 0, time.Millisecond))
	}
	refused := h.net.strikes(h.rng, Busy)
	wait := max(h.stall.Sub(h.net.now), 0)
	for i := range pkts {
		p := &pkts[i]
		packet, ids := h.collect(p)
		path := h.paths[p.Path]
		path.ecn = p.ECN
		if h.forger == nil {
			h.net.watchSent(h, path, packet)
		}
		switch {
		case refused:
			h.net.trace.packet(h.net.now, h, "refuse", packet)
		case h.forger != nil:
			h.forger.send(path, packet, wait)
		default:
			h.net.carry(h, path, packet, wait)
		}
		life := h.life
		h.net.After(wait+between(h.rng, 0, h.cfg.TxHold), func() {
			if h.life == life {
				h.reap(ids)
			}
		})
	}
}

// collect puts the pieces of a packet together and takes back its frames.
func (h *Host) collect(p *provider.TxPacket) (packet []byte, ids []uint64) {
	packet = make([]byte, 0, p.Len)
	ids = make([]uint64, 0, p.N)
	for j := range p.N {
		f := &p.Frags[j]
		packet = append(packet, f.Data...)
		if f.ID >= lentBase { // referred to, not ours to take back
			if f.ID%provider.FrameSize+uint64(len(f.Data)) > provider.FrameSize || j == 0 {
				h.net.Fail("%s transmits a piece that crosses a frame", h.name)
			}
			continue
		}
		if !h.txOut[f.ID] {
			h.net.Fail("%s transmits frame %d, which it does not own", h.name, f.ID)
		}
		delete(h.txOut, f.ID)
		ids = append(ids, f.ID)
	}
	if len(packet) != p.Len {
		h.net.Fail("%s transmits %d bytes and says %d", h.name, len(packet), p.Len)
	}
	if len(packet) > h.cfg.MaxPacket {
		h.net.Fail("%s transmits %d bytes, the limit is %d", h.name, len(packet), h.cfg.MaxPacket)
	}
	return packet, ids
}

// lentBase is where the names of memory begin that packets refer to; below are transmit frames.
const lentBase = 1 << 32

// lend gives n bytes of memory a name, at any alignment.
func (h *Host) lend(n int) uint64 {
	h.lent = max(h.lent, lentBase) + uint64(h.rng.IntN(2*provider.FrameSize))
	id := h.lent
	h.lent += uint64(n)
	return id
}

func (h *Host) reap(ids []uint64) {
	for _, id := range ids {
		copy(h.tx[id], poison)
	}
	h.txFree = append(h.txFree, ids...)
}

// Connect implements provider.Link.
func (h *Host) Connect(local, remote wire.Endpoint) (provider.Path, bool) {
	h.open++
	if n := len(h.free); n > 0 {
		p := h.free[n-1]
		h.free = h.free[:n-1]
		h.paths[p] = pathEnds{local: local, remote: remote}
		return p, true
	}
	h.paths = append(h.paths, pathEnds{local: local, remote: remote})
	return provider.Path(len(h.paths) - 1), true
}

// Reply implements provider.Link.
func (h *Host) Reply(p *provider.RxPacket, localPort uint16) (provider.Path, bool) {
	return h.Connect(wire.Endpoint{IP: p.To.IP, Port: localPort}, wire.Endpoint{IP: p.From.IP, Port: p.To.Port})
}

// Hop implements provider.Link: the simulated network has neither link-layer addresses nor VLANs.
func (h *Host) Hop(provider.Path) (mac [6]byte, vlan uint16) { return mac, 0 }

// Forget implements provider.Link.
func (h *Host) Forget(p provider.Path) {
	h.open--
	h.paths[p] = pathEnds{}
	h.free = append(h.free, p)
}

// MaxPacket implements provider.Link.
func (h *Host) MaxPacket() int { return h.cfg.MaxPacket }

var _ provider.Link = (*Host)(nil)

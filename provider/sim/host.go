package sim

import (
	"bytes"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// poison fills frames whose owner gave them back: whoever still reads them will notice.
var poison = bytes.Repeat([]byte{0xdb}, wire.MaxPacket)

// HostConfig describes a host.
type HostConfig struct {
	Engine    provider.Config
	MaxPacket int
	// FragSize is how many bytes of a packet go into one receive frame. Small odd sizes make every header straddle.
	FragSize int
	// TxFrames bounds the transmit frames; the engine waits when they are used up.
	TxFrames int
	// TxHold is how long the device keeps a transmit frame at most.
	TxHold time.Duration
	// Turn and Wake are how long a turn takes, and a sleeping engine to notice a packet, at most.
	Turn, Wake time.Duration
}

// Host is one engine on the network, and its link.
type Host struct {
	Engine *provider.Engine
	Memory *provider.Memory
	IP     [16]byte

	cfg         HostConfig
	name        string
	net         *Network
	rng         *rand.Rand
	runAt       clock.Time
	pausedUntil clock.Time
	turns       uint64
	inlet       *Bottleneck // what packets to the host must pass; nil for nothing
	app         func() bool // called after every turn; true when it posted; nil for none

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
}

type pathEnds struct{ local, remote wire.Endpoint }

// AddHost adds a host.
func (n *Network) AddHost(cfg HostConfig) *Host {
	i := len(n.hosts)
	h := &Host{
		cfg: cfg, net: n, IP: hostIP(i), name: "host" + strconv.Itoa(i), runAt: n.now,
		rng: rand.New(rand.NewPCG(n.rng.Uint64(), uint64(i))),
		rx:  map[uint64][]byte{}, txOut: map[uint64]bool{}, paths: make([]pathEnds, 1),
	}
	for id := range cfg.TxFrames {
		h.tx = append(h.tx, make([]byte, provider.FrameSize))
		h.txFree = append(h.txFree, uint64(id))
	}
	h.Memory = provider.NewMemory(h.rng)
	h.Engine = provider.New(cfg.Engine, h, h.Memory, rand.New(rand.NewPCG(n.rng.Uint64(), uint64(i))))
	n.hosts = append(n.hosts, h)
	n.byIP[h.IP] = h
	return h
}

// Do runs f as the engine's owner, with the engine's time up to date.
func (h *Host) Do(f func(*provider.Engine)) {
	h.Engine.Run(h.net.now)
	f(h.Engine)
	h.Poke()
}

// Poke says that a doorbell was rung.
func (h *Host) Poke() { h.runAt = min(h.runAt, h.net.now) }

// Pause takes the host's core away for d.
func (h *Host) Pause(d time.Duration) {
	h.pausedUntil = h.net.now.Add(d)
	h.net.trace.note(h.net.now, "pause", h.name)
}

func (h *Host) run() {
	h.turns++
	now := h.net.now
	busy := h.Engine.Run(now)
	if h.app != nil && h.app() {
		busy = true
	}
	turn := between(h.rng, time.Microsecond, h.cfg.Turn)
	if busy || len(h.inbox) > 0 {
		h.runAt = now.Add(turn)
		return
	}
	h.runAt = h.Engine.NextDeadline()
	if h.runAt <= now {
		h.runAt = now.Add(turn)
	}
}

// arrive takes a packet from the network.
func (h *Host) arrive(path pathEnds, packet []byte, whole, marked bool) {
	h.net.trace.packet(h.net.now, h, "arrive", packet)
	if len(packet) == 0 {
		return
	}
	if whole {
		h.net.watchArrived(h, packet)
	}
	r := provider.RxPacket{From: path.local, To: path.remote, Len: len(packet), CE: marked}
	// The base header and control messages are never cut: real frames are much larger.
	size := max(h.cfg.FragSize, (len(packet)-wire.BaseHeaderLen+provider.MaxFrags-2)/(provider.MaxFrags-1), 1)
	n := max(size, wire.BaseHeaderLen)
	if len(packet) < wire.BaseHeaderLen || packet[1] == 0 {
		n = len(packet)
	}
	for len(packet) > 0 {
		n = min(n, len(packet))
		h.nextRx++
		frame := append([]byte(nil), packet[:n]...)
		h.rx[h.nextRx] = frame
		r.Frags[r.N] = provider.Frag{Data: frame, ID: h.nextRx}
		r.N++
		packet = packet[n:]
		n = size
	}
	h.inbox = append(h.inbox, r)
	h.runAt = min(h.runAt, h.net.now.Add(between(h.rng, 0, h.cfg.Wake)))
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
	n := min(len(dst), len(h.txFree))
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
	for i := range pkts {
		p := &pkts[i]
		var packet []byte
		ids := make([]uint64, 0, p.N)
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
		h.net.carry(h, h.paths[p.Path], packet)
		h.net.After(between(h.rng, 0, h.cfg.TxHold), func() { h.reap(ids) })
	}
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
		h.paths[p] = pathEnds{local, remote}
		return p, true
	}
	h.paths = append(h.paths, pathEnds{local, remote})
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

// Audit checks that every frame and path came back, once nothing is connected and nothing is under way.
func (h *Host) Audit() {
	transmit, receive := h.Engine.FramesHeld()
	if len(h.rx) != receive || receive != 0 {
		h.net.Fail("%s: %d receive frames out, %d held", h.name, len(h.rx), receive)
	}
	if len(h.txOut) != transmit {
		h.net.Fail("%s: %d transmit frames out, the engine has %d", h.name, len(h.txOut), transmit)
	}
	if len(h.txFree)+len(h.txOut) != len(h.tx) {
		h.net.Fail("%s: %d of %d transmit frames are lost", h.name, len(h.tx)-len(h.txFree)-len(h.txOut), len(h.tx))
	}
	if h.open != 0 {
		h.net.Fail("%s: %d paths left", h.name, h.open)
	}
	if s := h.Engine.Stats(); s.IllegalTransitions != 0 || s.Connections != 0 {
		h.net.Fail("%s: %d illegal transitions, %d connections left", h.name, s.IllegalTransitions, s.Connections)
	}
	if use := h.Engine.PoolUse(); use != (provider.PoolUse{}) {
		h.net.Fail("%s: connections that are gone have %+v", h.name, use)
	}
}

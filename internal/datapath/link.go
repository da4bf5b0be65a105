package datapath

import (
	"errors"
	"sync/atomic"

	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/datapath/sleep"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
	"github.com/ndxdp/ndxdp/xdp"
)

// queue is one receive queue of a NIC and the transmit queue of the same number. It has the socket that is bound to them, and the paths
// of the connections whose home engine it serves. It is a Port. If no XDP program redirects packets to the socket, packets arrive by a
// ring.
type queue struct {
	*sleep.Sleeper // of the socket
	device         *xdpDevice
	sock           *xdp.Socket
	ring           *ringReader // for plan.TCX; nil for other datapaths

	// The owner's.
	mac       [6]byte // the interface's
	maxPacket int
	paths     []path
	freePaths []provider.Path
	rxDescs   [plan.RxBatch]xdp.Desc
	txDescs   []xdp.Desc
	refill    bool
	backlog   int             // descriptors that the device did not take; the kernel sends them at the next Kick
	touched   byte            // result of touch, so that the compiler keeps its loads
	beside    []*socketReader // only in the first queue: the sockets that it reads beside the ring
	bulkIn    *bulkReader     // the socket of the bulk path, also in beside; nil without a bulk path
	bulkOut   bulkWriter
	localOut  localWriter
	loop      loop
	lentOut   int // packets that stay in the ring until they are recycled

	lost    atomic.Uint64 // packets the device or the ring refused
	foreign atomic.Uint64 // frames that the steering program redirected and that are no ND packets
}

const cacheLine = 64

type path struct {
	header wire.FrameTemplate // empty for a path to an address of this machine, and for a free path
	local  *udpPath           // for a path to an address of this machine, also to the adapter itself; nil for other paths
	heard  *source            // source of ICMP errors about the path, in a broker's client; else nil
}

func (p *path) used() bool { return p.header.Len() > 0 || p.local != nil }

// Receive implements provider.Link. It converts frames to ND packets, and recycles all other frames.
func (q *queue) Receive(pkts []provider.RxPacket) int {
	if !q.loop.some() {
		return q.receiveOthers(pkts)
	}
	n := q.receiveOthers(pkts[:len(pkts)/2])
	return n + q.loop.receive(pkts[n:])
}

// receiveOthers is Receive for packets that are not looped.
func (q *queue) receiveOthers(pkts []provider.RxPacket) int {
	switch {
	case q.ring != nil:
		return q.receiveTCX(pkts)
	case len(q.beside) == 0:
		return q.receiveXDP(pkts)
	}
	room := len(pkts)
	for _, r := range q.beside {
		if r.hot() {
			room -= besideShare
		}
	}
	n := q.receiveXDP(pkts[:room])
	for _, r := range q.beside {
		n += r.receive(pkts[n:])
	}
	return n
}

// receiveXDP is Receive for the AF_XDP socket.
func (q *queue) receiveXDP(pkts []provider.RxPacket) int {
	n := 0
	// A call may return few packets of many frames, so it is repeated while there is room.
	for len(pkts)-n >= xdp.MaxFrags {
		want := min(len(q.rxDescs), len(pkts)-n)
		got := q.sock.Receive(q.rxDescs[:want])
		q.touch(q.rxDescs[:got])
		for rest := q.rxDescs[:got]; len(rest) > 0; {
			var packet []xdp.Desc
			packet, rest = xdp.NextPacket(rest)
			if q.parse(packet, &pkts[n]) {
				n++
				continue
			}
			q.foreign.Add(1)
			for i := range packet {
				q.sock.Recycle(packet[i].Addr)
			}
			q.refill = true
		}
		if got < want {
			break
		}
	}
	if q.refill {
		q.refill = false
		q.sock.Refill()
	}
	return n
}

// touch loads the cache lines with the headers of all packets at once. So the transfer from the core that wrote them is waited for once,
// and not once for each line.
func (q *queue) touch(descs []xdp.Desc) {
	for i := range descs {
		b := q.device.umem.Frame(descs[i].Addr)
		q.touched += b[0]
		if len(b) > 2*cacheLine {
			q.touched += b[cacheLine] + b[2*cacheLine]
		}
	}
}

// Ready implements provider.Link.
func (q *queue) Ready() bool {
	if len(q.loop.waiting) > 0 || q.ring != nil && q.ring.Unread() || q.ring == nil && q.sock.RxReady() {
		return true
	}
	for _, r := range q.beside {
		if r.ready() {
			return true
		}
	}
	return false
}

// parse fills p from the frames of one packet. It returns false if the frames are no ND packet for this adapter.
func (q *queue) parse(packet []xdp.Desc, p *provider.RxPacket) bool {
	if len(packet) > provider.MaxFrags {
		return false
	}
	first := q.device.umem.Frame(packet[0].Addr)[:packet[0].Len]
	var f wire.Frame
	if wire.ParseFrame(first, xdp.PacketLen(packet), &f) != wire.DropNone || f.Dst.Port != q.device.cfg.UDPPort || f.Length < wire.BaseHeaderLen ||
		len(first) < f.Offset+wire.BaseHeaderLen {
		return false
	}
	p.From, p.To, p.MAC, p.CE = f.Src, f.Dst, f.SrcMAC, f.CE
	p.N, p.Len, p.Merged, p.Bulk, p.Arrived = len(packet), f.Length, false, false, 0
	// The frame may be longer than the packet: link padding.
	left := f.Length
	skip := f.Offset
	for i := range packet {
		b := q.device.umem.Frame(packet[i].Addr)[skip:packet[i].Len]
		skip = 0
		b = b[:min(len(b), left)]
		left -= len(b)
		p.Frags[i] = provider.Frag{Data: b, ID: packet[i].Addr}
	}
	return true
}

// Recycle implements provider.Link.
func (q *queue) Recycle(ids []uint64) {
	for _, id := range ids {
		switch {
		case id&loopFrame != 0:
			q.loop.recycle(id)
		case id&besideFrame != 0:
			q.beside[id&^besideFrame>>besideBits].receiver.Release(uint32(id))
		case q.ring != nil:
			q.recycleTCX()
		default:
			q.sock.Recycle(id)
		}
	}
	if q.ring == nil {
		q.sock.Refill()
	}
}

// Frames implements provider.Link.
func (q *queue) Frames(dst []provider.Frag) int {
	if q.loop.full() {
		return 0
	}
	q.sock.Complete(nil)
	for i := range dst {
		addr, ok := q.sock.AllocTx()
		if !ok {
			q.kick() // the kernel may keep frames that it did not take earlier
			return i
		}
		dst[i] = provider.Frag{Data: q.device.umem.Frame(addr), ID: addr}
	}
	return len(dst)
}

// Transmit implements provider.Link. It writes the headers in front of every packet and sends the batch with one system call.
func (q *queue) Transmit(pkts []provider.TxPacket) {
	descs, bulk, local := q.txDescs[:0], false, false
	for i := range pkts {
		p := &pkts[i]
		if p.Bulk {
			bulk = true
			continue
		}
		if q.paths[p.Path].local != nil {
			local = true
			continue
		}
		t := &q.paths[p.Path].header
		start := p.Frags[0].ID + provider.Headroom - uint64(t.Len())
		header := q.device.umem.Frame(start)[:t.Len()]
		t.Put(header, p.Len, p.ECN)
		if t.Is6() {
			t.SetUDPChecksum(header, sumOf(p.Frags[:p.N]), p.Len)
		}
		descs = append(descs, xdp.Desc{Addr: start, Len: uint32(t.Len() + len(p.Frags[0].Data)), Options: xdp.PacketContinues})
		for j := 1; j < p.N; j++ {
			// For frames and arena memory alike, the ID is a UMEM address.
			descs = append(descs, xdp.Desc{Addr: p.Frags[j].ID, Len: uint32(len(p.Frags[j].Data)), Options: xdp.PacketContinues})
		}
		descs[len(descs)-1].Options = 0
	}
	if bulk {
		q.transmitBulk(pkts)
	}
	if local {
		q.transmitLocal(pkts)
	}
	if len(descs) == 0 {
		return
	}
	taken := q.sock.Transmit(descs)
	for _, desc := range descs[taken:] {
		if desc.Addr < q.device.arena.base {
			q.sock.FreeTx(desc.Addr)
		}
		if desc.Options == 0 {
			q.lost.Add(1)
		}
	}
	q.kick()
	// Completions are read after the system call and not before it: most of the batch is complete by then, and nothing waits for them.
	q.sock.Complete(nil)
}

// sumOf sums a packet's pieces for the UDP checksum. Memory of an application may begin at an odd address, and its first piece may have
// an odd length.
func sumOf(pieces []provider.Frag) (sum uint32) {
	at := 0
	for i := range pieces {
		sum = wire.PartialSumAt(sum, at, pieces[i].Data)
		at += len(pieces[i].Data)
	}
	return sum
}

// TransmitDone implements Port. A completion says that the kernel no longer reads the memory, in every mode. A driver in zero-copy mode
// reads the memory until then. So does virtio-net in copy mode, because its packets refer to pages of this process; other drivers send
// copies. An empty transmit ring does not say this (TestTransmitDoneWaitsForTheDevice). If completions come too early, applications get
// no memory that the kernel reads (completesLate).
func (q *queue) TransmitDone() bool {
	q.Push()
	q.sock.Complete(nil)
	return q.sock.TxPending() == 0
}

// kick makes the kernel send the descriptors of the ring. An interface that is removed or down loses packets like any network. The
// transport's liveness timers detect it.
func (q *queue) kick() {
	var err error
	if q.backlog, err = q.sock.Kick(); err != nil {
		q.lost.Add(1)
	}
}

// Backlog implements provider.Backlogged.
func (q *queue) Backlog() int { return q.backlog }

// Push implements provider.Backlogged. Packets lost on an interface that is down were counted when Transmit sent them.
func (q *queue) Push() { q.backlog, _ = q.sock.Kick() }

// errForgotten says that the next hop that Resolve found for a peer is not known now.
var errForgotten = errors.New("the next hop to the peer is not known now, although it was resolved: connect again")

// Connect implements provider.Link. Resolve must have found the next hop of the peer before.
func (q *queue) Connect(local, remote wire.Endpoint) (provider.Path, error) {
	peer := remote.AddrPort()
	if q.device.state.IsHere(peer.Addr()) {
		return q.localPath(local.Port, peer)
	}
	mac, ok := q.device.state.Cached(peer.Addr())
	if !ok {
		return 0, errForgotten
	}
	return q.newPath(path{header: wire.NewFrameTemplate(q.mac, mac, local, remote), heard: q.device.listenAt(local.Port)}), nil
}

// Reply implements provider.Link. The answer goes to the link-layer address of the packet's sender, without the neighbour table. A packet
// without a link-layer address came from a plain socket.
func (q *queue) Reply(p *provider.RxPacket, from, to uint16) (provider.Path, bool) {
	local, remote := wire.Endpoint{IP: p.To.IP, Port: from}, wire.Endpoint{IP: p.From.IP, Port: to}
	mac := p.MAC
	if mac == [6]byte{} && q.device.local != nil {
		known := false
		if q.ring != nil { // packets that are too long for the ring, or find it full, arrive at the socket
			mac, known = q.device.state.Cached(remote.AddrPort().Addr())
		}
		if !known {
			path, err := q.localPath(from, remote.AddrPort())
			return path, err == nil
		}
	}
	return q.newPath(path{header: wire.NewFrameTemplate(q.mac, mac, local, remote), heard: q.device.listenAt(from)}), true
}

func (q *queue) newPath(added path) provider.Path {
	q.device.pathsMade.Add(1)
	if n := len(q.freePaths); n > 0 {
		p := q.freePaths[n-1]
		q.freePaths = q.freePaths[:n-1]
		q.paths[p] = added
		return p
	}
	q.paths = append(q.paths, added)
	return provider.Path(len(q.paths) - 1)
}

// Hop implements provider.Link. It returns none for a path to an address of this machine.
func (q *queue) Hop(p provider.Path) (mac [6]byte) {
	if q.paths[p].local != nil {
		return mac
	}
	return q.paths[p].header.Destination()
}

// Forget implements provider.Link.
func (q *queue) Forget(p provider.Path) {
	if was := q.paths[p]; was.used() {
		q.paths[p] = path{}
		q.freePaths = append(q.freePaths, p)
		switch {
		case was.local != nil && was.local.looped != 0:
		case was.local != nil:
			q.device.local.sources.put(was.local.from)
		case was.heard != nil:
			q.device.heard.sources.put(was.heard)
		}
	}
}

// MaxPacket implements provider.Link.
func (q *queue) MaxPacket() int { return q.maxPacket }

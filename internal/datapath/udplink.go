package datapath

import (
	"context"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/internal/host"
	"github.com/ndxdp/ndxdp/internal/udp"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// keptFrames is the number of receive frames that stay allocated when nothing is under way: two batches of merged packets, 1 MiB.
const keptFrames = 2 * udpBatchBytes / mergedSize

// longSleep is the length of a sleep of the progress goroutine that occurs only when no connection has anything under way.
const longSleep = 2 * time.Second

// Wait implements provider.Waiter. Memory that packets behind gaps took is returned to the kernel with the first batch after a long
// sleep, because only the owner may use the pool. A keep-alive causes this batch.
func (d *socketDevice) Wait(until clock.Time, spin bool) {
	if until == clock.Never || until.Sub(clock.Machine()) >= longSleep {
		d.trim.Store(true)
		d.loop.rests.Store(true)
		d.in.LetGo()
	}
	d.Sleeper.Wait(until, spin)
}

// Ready implements provider.Link.
func (d *socketDevice) Ready() bool {
	return len(d.loop.waiting) > 0 || d.arrived() || d.ring != nil && d.ring.Waiting()
}

// arrived reports whether the socket has packets. Without a ring it receives them. A check by system call costs as much as a receive
// without result, and Receive returns the packets later.
func (d *socketDevice) arrived() bool {
	switch {
	case d.receiver.Waiting():
		return true
	case d.ring == nil:
		return d.receiver.Receive(d.in)
	case !d.ring.socketDue():
		return false
	}
	yes := d.receiver.Receive(d.in)
	d.ring.looked(d.receiver.Arrived(), d.receiver.Full())
	return yes
}

// Receive implements provider.Link.
func (d *socketDevice) Receive(pkts []provider.RxPacket) int {
	if d.trim.Load() {
		d.trim.Store(false)
		_ = d.rxPool.Trim(keptFrames) // memory that the kernel does not take back is kept
	}
	switch {
	case !d.loop.some():
		return d.receiveOthers(pkts)
	case d.ring == nil && d.loop.skips():
		return d.loop.receive(pkts)
	}
	n := d.receiveOthers(pkts[:len(pkts)/2])
	return n + d.loop.receive(pkts[n:])
}

// receiveOthers is Receive for packets that are not looped.
func (d *socketDevice) receiveOthers(pkts []provider.RxPacket) int {
	if d.ring != nil {
		d.arrived()
		return d.ring.merge(pkts, d.receiver, d.receiveCopies, d.receiveSocket)
	}
	n := 0
	for n < len(pkts) && d.arrived() {
		n += d.receiveSocket(pkts[n:])
		if !d.receiver.Full() { // the system call found the end of the socket's queue, and another one would delay these packets
			break
		}
	}
	return n
}

// receiveSocket fills pkts with packets of the last poll of the socket.
func (d *socketDevice) receiveSocket(pkts []provider.RxPacket) int {
	n, merged, foreign := 0, uint64(0), uint64(0)
	d.calendar.look()
	var arrived udp.Datagram
	for n < len(pkts) && d.receiver.Next(&arrived) {
		if len(arrived.Data) < wire.BaseHeaderLen { // the last part of a merged packet
			d.receiver.Release(arrived.Frame)
			foreign++
			continue
		}
		p := &pkts[n]
		p.From, p.To, p.CE = wire.Endpoint{IP: arrived.IP, Port: arrived.Port}, d.local, arrived.Marked
		p.Frags[0] = provider.Frag{Data: arrived.Data, ID: uint64(arrived.Frame)}
		p.N, p.Len, p.Merged, p.Bulk, p.Arrived = 1, len(arrived.Data), arrived.Merged, false, d.calendar.at(arrived.Stamp)
		n++
		if arrived.Merged {
			merged++
		}
	}
	foreign += d.receiver.Unfit()
	if merged > 0 {
		d.merged.Add(merged)
	}
	if foreign > 0 {
		d.foreign.Add(foreign)
	}
	return n
}

// Recycle implements provider.Link.
func (d *socketDevice) Recycle(ids []uint64) {
	for _, id := range ids {
		if id&loopFrame != 0 {
			d.loop.recycle(id)
		} else {
			d.receiver.Release(uint32(id))
		}
	}
}

// Frames implements provider.Link.
func (d *socketDevice) Frames(dst []provider.Frag) int {
	if d.loop.full() {
		return 0
	}
	for i := range dst {
		id, ok := d.txPool.Get()
		if !ok {
			return i
		}
		dst[i] = provider.Frag{Data: d.txPool.Frame(id), ID: uint64(id)}
	}
	return len(dst)
}

// Copies implements provider.Copier: the kernel copies what it sends.
func (d *socketDevice) Copies() {}

// Transmit implements provider.Link. It makes one system call for each run of packets from the same source port.
func (d *socketDevice) Transmit(pkts []provider.TxPacket) {
	var from *source
	gathered, runs := 0, d.BulkOpen()
	for i := range pkts {
		p := &pkts[i]
		path := &d.paths[p.Path]
		if path.looped != 0 {
			d.loop.add(p, path.looped)
			continue
		}
		if path.from != from || gathered == udpBatch {
			if gathered > 0 {
				d.send(from)
			}
			from, gathered = path.from, 0
		}
		d.sender.Begin(&path.to, p.ECN == wire.ECT0, p.Len, p.Joins && runs)
		for j := range p.N {
			d.sender.Add(p.Frags[j].Data)
		}
		gathered++
	}
	if gathered > 0 {
		d.send(from)
	}
	// The kernel has copied all packets when it returns.
	for i := range pkts {
		for j := range pkts[i].N {
			if f := &pkts[i].Frags[j]; f.ID == provider.Lent {
				f.Data = nil
			} else {
				d.txPool.Put(uint32(f.ID))
			}
		}
	}
}

// send sends the gathered packets, and counts packets that the kernel refused.
func (d *socketDevice) send(from *source) {
	if lost, tooLong := d.sender.Send(from.socket); lost > 0 {
		d.lost.Add(uint64(lost))
		d.tooLong.Add(uint64(tooLong))
	}
	if n := d.sender.InRuns(); n > 0 {
		d.inRuns.Add(n)
	}
}

// Resolve implements Device. The kernel resolves a neighbour by itself when a packet goes to it, but reports nothing if there is none. So
// Resolve waits for the neighbour, as over AF_XDP. An address of this machine has no neighbour.
func (d *socketDevice) Resolve(ctx context.Context, dst netip.Addr) error {
	t := &d.resolver
	dst = dst.Unmap()
	if d.state.Fresh(dst, t.Now()) {
		return nil
	}
	if d.kernel.Netlink == nil {
		return d.resolveUnseen(dst)
	}
	r, err := t.Route(dst)
	if err != nil {
		return err
	}
	if err := t.LoopbackUp(r, dst); err != nil {
		return err
	}
	mtu := t.MTUOf(r, dst)
	if err := carries(mtu, dst); err != nil {
		return err
	}
	d.state.RouteMTUIs(dst, mtu, t.Now())
	hop, mac := dst, [6]byte{}
	if d.ethernet && d.kernel.SeesNeighbours() && r.Type != unix.RTN_LOCAL {
		hop = host.HopOf(r, dst)
		if mac, err = t.Resolve(ctx, hop, d.info.Interface, func() { d.probeNeighbour(dst) }); err != nil {
			return err
		}
	}
	d.state.Found(dst, hop, mac, t.Now())
	return nil
}

// probeNeighbour sends an empty datagram to a peer, which makes the kernel resolve the neighbour. A direct request needs CAP_NET_ADMIN. If
// the datagram is lost, the neighbour does not appear.
func (d *socketDevice) probeNeighbour(dst netip.Addr) {
	d.statsMu.Lock()
	defer d.statsMu.Unlock()
	if !d.closed {
		to := d.addrOf(netip.AddrPortFrom(dst, d.cfg.UDPPort))
		s := udp.NewSender(1, 1)
		s.From(d.cfg.Address, d.nic.Index)
		s.Begin(&to, false, 0, false)
		s.Send(d.in)
	}
}

// Connect implements provider.Link. It fails if the source port cannot be opened.
func (d *socketDevice) Connect(local, remote wire.Endpoint) (provider.Path, error) {
	return d.connect(local.Port, remote)
}

// connect makes a path. The socket of the port receives ICMP errors, unless it is the receiving socket, or only answers packets without a
// connection.
func (d *socketDevice) connect(localPort uint16, remote wire.Endpoint) (provider.Path, error) {
	if d.loop.loops(remote) {
		return d.newPath(udpPath{looped: localPort}), nil
	}
	from, err := d.sources.get(localPort, d.BulkOpen())
	if err != nil {
		return 0, err
	}
	if from.socket != d.in && localPort != wire.SourcePort(0) {
		d.errors.hear(from)
	}
	return d.newPath(udpPath{from: from, to: d.addrOf(remote.AddrPort())}), nil
}

// addrOf returns the destination address of packets to a peer. For other machines it names the interface of the adapter's address. The
// kernel could choose another interface that is in the same network.
func (d *socketDevice) addrOf(peer netip.AddrPort) udp.Addr {
	to := udp.AddrOf(peer, d.nic.Index)
	if d.ethernet && d.state.Elsewhere(peer.Addr()) {
		to.Direct()
	}
	return to
}

// Reply implements provider.Link.
func (d *socketDevice) Reply(p *provider.RxPacket, from, to uint16) (provider.Path, bool) {
	path, err := d.connect(from, wire.Endpoint{IP: p.From.IP, Port: to})
	return path, err == nil
}

// BulkOpen implements provider.Laned. The port at which the sockets receive is their bulk port for peers that read raw frames (PROTOCOL
// §11.1).
func (d *socketDevice) BulkOpen() bool { return d.info.Alone == "" }

// BulkPath implements provider.Laned.
func (d *socketDevice) BulkPath(to wire.Endpoint) (provider.Path, bool) {
	if !d.BulkOpen() || d.loop.loops(to) {
		return 0, false
	}
	path, err := d.connect(d.local.Port, to)
	return path, err == nil
}

// ForgetBulk implements provider.Laned.
func (d *socketDevice) ForgetBulk(p provider.Path) { d.Forget(p) }

func (d *socketDevice) newPath(u udpPath) provider.Path {
	if n := len(d.freePaths); n > 0 {
		p := d.freePaths[n-1]
		d.freePaths = d.freePaths[:n-1]
		d.paths[p] = u
		return p
	}
	d.paths = append(d.paths, u)
	return provider.Path(len(d.paths) - 1)
}

// Hop implements provider.Link. The kernel finds the next hop by address.
func (d *socketDevice) Hop(provider.Path) (mac [6]byte) { return mac }

// Forget implements provider.Link.
func (d *socketDevice) Forget(p provider.Path) {
	was := d.paths[p]
	if was == (udpPath{}) {
		return
	}
	d.paths[p] = udpPath{}
	d.freePaths = append(d.freePaths, p)
	if was.from != nil {
		d.sources.put(was.from)
	}
}

// MaxPacket implements provider.Link.
func (d *socketDevice) MaxPacket() int { return d.maxPacket }

// resolveUnseen is Resolve. The kernel resolves the neighbour by itself, and a peer that does not answer is detected by its silence.
func (d *socketDevice) resolveUnseen(dst netip.Addr) error {
	if err := host.Reachable(d.network, dst, d.nic.Index); err != nil {
		return err
	}
	d.state.Found(dst, dst, [6]byte{}, d.resolver.Now())
	return nil
}

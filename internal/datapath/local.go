package datapath

import (
	"fmt"
	"net/netip"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/udp"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// localWay carries packets between an adapter on AF_XDP and addresses of its own machine, which never pass an interface. They leave and
// arrive by plain sockets. The receiving socket reserves the UDP port in any case. It also handles packets for this socket that arrive on
// another interface, and answers them in the same way.
//
// The owner of the first queue reads the socket. It polls the socket only after a packet arrived or a path to this machine was made,
// because each poll is a system call. A goroutine waits for the first packet.
type localWay struct {
	socketReader
	sources sources
	wake    *os.File // the socket, for the goroutine that waits for the first packet
	device  *xdpDevice

	out     atomic.Uint64 // packets that left
	lost    atomic.Uint64
	tooLong atomic.Uint64
	strange atomic.Uint64 // packets that were no ND packets
}

// addLocal makes d.udp carry packets from and to addresses of this machine.
func (d *xdpDevice) addLocal() error {
	here := netip.AddrPortFrom(d.cfg.Address.Unmap(), d.cfg.UDPPort)
	l := &localWay{device: d}
	l.socketReader = socketReader{
		socket: d.udp, local: wire.EndpointFrom(here), merged: new(atomic.Uint64), foreign: &l.strange,
		calendar: today(), frames: receiveFrames, fail: func(string) {}, // the next path makes it poll again; packets that overflow the socket until then count as dropped
	}
	if ring := d.queues[0].ring; ring != nil {
		l.counted = &ring.counted
	}
	l.asleep.Store(l.counted == nil) // with a ring, packets may be left for the socket at any time
	l.sources = sources{
		network: d.network, in: d.udp, opened: map[uint16]*source{},
		cfg: udp.Config{Local: here, Scope: d.index, Device: d.resolver.VRF, SendBuffer: plan.SocketBuffer},
	}
	fd, err := unix.FcntlInt(uintptr(d.udp.FD()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("watch the socket of the UDP port: %w", err)
	}
	l.wake = os.NewFile(uintptr(fd), "UDP port")
	d.local = l
	d.queues[0].readBeside(&l.socketReader)
	return nil
}

// await makes the first queue's owner poll the socket once a packet has arrived. It ends when the socket is closed.
func (l *localWay) await() {
	raw, err := l.wake.SyscallConn()
	if err == nil {
		err = raw.Read(func(fd uintptr) bool { return !l.asleep.Load() || udp.Readable(int(fd)) })
	}
	if err == nil {
		l.begin()
	}
	l.wake.Close()
}

// begin makes the first queue's owner poll the socket from now on. Any goroutine may call it.
func (l *localWay) begin() {
	if l.asleep.Load() && l.asleep.Swap(false) {
		l.device.queues[0].Wake()
	}
}

// stop ends await.
func (l *localWay) stop() { l.wake.Close() } // await may have closed it already

// addTo adds the counters to the counters of a device.
func (l *localWay) addTo(s *Stats) {
	in := l.packets.Load()
	dropped, _ := l.socket.Drops() // Drops fails while the device closes
	if l.counted != nil {
		passed := l.counted.count() // packets that the program left to the socket, which arrived on the interface, as most dropped packets did
		in -= min(in, passed-min(passed, dropped))
	}
	s.LocalIn += in
	s.LocalOut += l.out.Load()
	s.Lost += l.lost.Load()
	s.TooLong += l.tooLong.Load()
	s.Foreign += l.strange.Load()
	l.sources.addTo(s)
	s.Socket.RxDropped += dropped
}

// localPath returns a path to an address of this machine. If the interface were named, the kernel would take the address for a
// neighbour's.
func (q *queue) localPath(from uint16, to netip.AddrPort) (provider.Path, error) {
	l := q.device.local
	if l == nil {
		return 0, errForgotten
	}
	if q.loop.loops(wire.EndpointFrom(to)) {
		return q.newPath(path{local: &udpPath{looped: from}}), nil
	}
	s, err := l.sources.get(from, false)
	if err != nil {
		return 0, err
	}
	l.begin()
	return q.newPath(path{local: &udpPath{from: s, to: udp.AddrOf(to, q.device.index)}}), nil
}

// localWriter is the state with which one queue sends to addresses of this machine. It belongs to the queue's owner, and takes no memory
// before the first packet.
type localWriter struct{ sender *udp.Sender }

// transmitLocal sends the packets of a batch to addresses of this machine, from their frames: the kernel has copied them when it returns.
func (q *queue) transmitLocal(pkts []provider.TxPacket) {
	w := &q.localOut
	if w.sender == nil {
		w.sender = udp.NewSender(provider.TxBatch, provider.MaxFrags)
	}
	var from *source
	sent := uint64(0)
	for i := range pkts {
		p := &pkts[i]
		if p.Bulk || q.paths[p.Path].local == nil {
			continue
		}
		to := q.paths[p.Path].local
		if to.looped != 0 {
			q.loop.add(p, to.looped)
			continue
		}
		if from != nil && from != to.from {
			q.sendLocal(from)
		}
		from = to.from
		w.sender.Begin(&to.to, p.ECN == wire.ECT0, p.Len, false)
		for j := range p.N {
			w.sender.Add(p.Frags[j].Data)
		}
		sent++
	}
	if from != nil {
		q.sendLocal(from)
		q.device.local.out.Add(sent)
	}
	for i := range pkts {
		p := &pkts[i]
		if !p.Bulk && q.paths[p.Path].local != nil {
			q.putBack(p)
		}
	}
}

// sendLocal sends the gathered packets, and counts packets that the kernel refused.
func (q *queue) sendLocal(from *source) {
	if lost, tooLong := q.localOut.sender.Send(from.socket); lost > 0 {
		q.device.local.lost.Add(uint64(lost))
		q.device.local.tooLong.Add(uint64(tooLong))
	}
}

// putBack frees the transmit frames of a packet that did not leave over AF_XDP, and drops references to the caller's memory.
func (q *queue) putBack(p *provider.TxPacket) {
	for j := range p.N {
		switch f := &p.Frags[j]; {
		case f.ID == provider.Lent:
			f.Data = nil
		case f.ID < q.device.arena.base:
			q.sock.FreeTx(f.ID)
		}
	}
}

package datapath

import (
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
	"github.com/ndxdp/ndxdp/xdp"
)

// Receive implements provider.Link: it turns frames into ND packets, and gives back those that are none.
func (d *Datapath) Receive(pkts []provider.RxPacket) int {
	n := 0
	// A call may bring few packets of many frames: ask again while there is room.
	for len(pkts)-n >= xdp.MaxFrags {
		want := min(len(d.rxDescs), len(pkts)-n)
		got := d.sock.Receive(d.rxDescs[:want])
		for rest := d.rxDescs[:got]; len(rest) > 0; {
			var packet []xdp.Desc
			packet, rest = xdp.NextPacket(rest)
			if d.parse(packet, &pkts[n]) {
				n++
				continue
			}
			d.foreign.Add(1)
			for i := range packet {
				d.sock.Recycle(packet[i].Addr)
			}
			d.refill = true
		}
		if got < want {
			break
		}
	}
	if d.refill {
		d.refill = false
		d.sock.Refill()
	}
	return n
}

// Ready implements provider.Link.
func (d *Datapath) Ready() bool { return d.sock.RxReady() }

// parse fills p from the frames of one packet. It reports false when that is no ND packet for us.
func (d *Datapath) parse(packet []xdp.Desc, p *provider.RxPacket) bool {
	if len(packet) > provider.MaxFrags {
		return false
	}
	total := 0
	for i := range packet {
		total += int(packet[i].Len)
	}
	first := d.umem.Frame(packet[0].Addr)[:packet[0].Len]
	var f wire.Frame
	if wire.ParseFrame(first, total, &f) != wire.DropNone || f.Dst.Port != d.cfg.UDPPort || f.Length < wire.BaseHeaderLen ||
		len(first) < f.Offset+wire.BaseHeaderLen {
		return false
	}
	p.From, p.To, p.MAC, p.VLAN, p.CE = f.Src, f.Dst, f.SrcMAC, f.VLAN, f.CE
	p.N, p.Len = len(packet), f.Length
	// The frame may be longer than the packet: link padding.
	left := f.Length
	skip := f.Offset
	for i := range packet {
		b := d.umem.Frame(packet[i].Addr)[skip:packet[i].Len]
		skip = 0
		b = b[:min(len(b), left)]
		left -= len(b)
		p.Frags[i] = provider.Frag{Data: b, ID: packet[i].Addr}
	}
	return true
}

// Recycle implements provider.Link.
func (d *Datapath) Recycle(ids []uint64) {
	for _, id := range ids {
		d.sock.Recycle(id)
	}
	d.sock.Refill()
	if d.sock.RxWakeupNeeded() {
		d.sock.WakeRx()
	}
}

// Frames implements provider.Link.
func (d *Datapath) Frames(dst []provider.Frag) int {
	d.sock.Complete(nil)
	for i := range dst {
		addr, ok := d.sock.AllocTx()
		if !ok {
			d.kick() // the kernel may have frames in its hands that it would not take earlier
			return i
		}
		dst[i] = provider.Frag{Data: d.umem.Frame(addr), ID: addr}
	}
	return len(dst)
}

// Transmit implements provider.Link: it writes the headers in front of every packet and sends the batch with one system
// call.
func (d *Datapath) Transmit(pkts []provider.TxPacket) {
	descs := d.txDescs[:0]
	for i := range pkts {
		p := &pkts[i]
		t := &d.paths[p.Path].header
		start := p.Frags[0].ID + provider.Headroom - uint64(t.Len())
		header := d.umem.Frame(start)[:t.Len()]
		t.Put(header, p.Len)
		if t.Is6() {
			sum := uint32(0)
			for j := range p.N {
				sum = wire.PartialSum(sum, p.Frags[j].Data)
			}
			t.SetUDPChecksum(header, sum, p.Len)
		}
		descs = append(descs, xdp.Desc{Addr: start, Len: uint32(t.Len() + len(p.Frags[0].Data)), Options: xdp.PacketContinues})
		for j := 1; j < p.N; j++ {
			// Frames and arena memory alike: the ID is a UMEM address.
			descs = append(descs, xdp.Desc{Addr: p.Frags[j].ID, Len: uint32(len(p.Frags[j].Data)), Options: xdp.PacketContinues})
		}
		descs[len(descs)-1].Options = 0
	}
	taken := d.sock.Transmit(descs)
	for _, desc := range descs[taken:] {
		if desc.Addr < d.arena.base {
			d.sock.FreeTx(desc.Addr)
		}
		if desc.Options == 0 {
			d.lost.Add(1)
		}
	}
	d.kick()
	// Behind the system call and not before it: what was sent is mostly done by now, and nobody waits for this.
	d.sock.Complete(nil)
}

// Settled implements Device. In copy mode the kernel copies what it takes from the ring; a driver in zero-copy mode reads
// it until it completes.
func (d *Datapath) Settled() bool {
	d.kick()
	d.sock.Complete(nil)
	if d.info.Socket.ZeroCopy {
		return d.sock.TxPending() == 0
	}
	return d.sock.TxUnsent() == 0
}

// kick makes the kernel send. An interface that is gone or down loses packets like any other network; the transport's
// liveness timers report it.
func (d *Datapath) kick() {
	if err := d.sock.Kick(); err != nil {
		d.lost.Add(1)
	}
}

// Connect implements provider.Link. Resolve must have found the peer before.
func (d *Datapath) Connect(local, remote wire.Endpoint) (provider.Path, bool) {
	mac, ok := d.neighbors.cached(remote.AddrPort().Addr())
	if !ok {
		return 0, false
	}
	return d.newPath(path{header: wire.NewFrameTemplate(d.mac, mac, local, remote, 0), peer: remote.AddrPort().Addr()}), true
}

// Reply implements provider.Link: the answer goes where the packet came from, without a look at the neighbour table.
func (d *Datapath) Reply(p *provider.RxPacket, localPort uint16) (provider.Path, bool) {
	local := wire.Endpoint{IP: p.To.IP, Port: localPort}
	remote := wire.Endpoint{IP: p.From.IP, Port: d.cfg.UDPPort}
	return d.newPath(path{header: wire.NewFrameTemplate(d.mac, p.MAC, local, remote, p.VLAN), peer: remote.AddrPort().Addr()}), true
}

func (d *Datapath) newPath(added path) provider.Path {
	added.used = true
	if n := len(d.freePaths); n > 0 {
		p := d.freePaths[n-1]
		d.freePaths = d.freePaths[:n-1]
		d.paths[p] = added
		return p
	}
	d.paths = append(d.paths, added)
	return provider.Path(len(d.paths) - 1)
}

// Forget implements provider.Link.
func (d *Datapath) Forget(p provider.Path) {
	if d.paths[p].used {
		d.paths[p].used = false
		d.freePaths = append(d.freePaths, p)
	}
}

// MaxPacket implements provider.Link.
func (d *Datapath) MaxPacket() int { return d.maxPacket }

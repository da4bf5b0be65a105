package datapath

import (
	"net/netip"

	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// pathsAtOnce bounds how long an engine is kept from its work when something about all paths changes: some microseconds.
const pathsAtOnce = 1024

// Watch implements Device.
func (d *Datapath) Watch(gone func(error), own func(port int, f func(*provider.Engine))) {
	d.watch.unseen = d.pathsMade.Load
	if d.heard != nil {
		d.heard.own = own
	}
	d.watch.start(d, own, gone)
	d.shared.Start(own)
	if d.icmp != nil {
		d.watch.ended.Go(func() { d.receiveErrors(own) })
	}
	if d.local != nil {
		d.watch.ended.Go(d.local.await)
	}
	if d.lease != nil {
		d.watch.ended.Go(func() {
			if d.lease.Gone() {
				d.watch.tell(d.state.left())
			}
		})
	}
}

func (d *Datapath) portCount() int { return len(d.queues) }

// react implements watched.
func (d *Datapath) react(port int, e *provider.Engine, c *change, from int) (done, more bool) {
	q := d.queues[port]
	switch c.what {
	case provider.InterfaceMTU:
		if size := d.resized(c.mtu); q.maxPacket != size {
			q.maxPacket = size
			e.Resized()
		}
	case provider.InterfaceMAC:
		q.mac = c.mac
		return true, q.walk(from, func(p *path) {
			if p.local == nil {
				p.header.SetSource(c.mac)
			}
		})
	case provider.InterfaceNeighbour, provider.InterfaceRoute:
		if c.resized {
			e.Resized()
			return true, false
		}
		more = q.walk(from, func(p *path) {
			if p.local != nil {
				return
			}
			if mac, moved := c.to[p.header.To()]; moved && p.header.Destination() != mac {
				p.header.SetDestination(mac)
				done = true
			}
		})
		return done, more
	default: // nothing to do but to note it
	}
	return true, false
}

// walk calls f for the paths in use among pathsAtOnce of them, and says whether there are more.
func (q *queue) walk(from int, f func(*path)) (more bool) {
	end := min(from+pathsAtOnce, len(q.paths))
	for i := from; i < end; i++ {
		if p := &q.paths[i]; p.used() {
			f(p)
		}
	}
	return end < len(q.paths)
}

// used implements watched.
func (d *Datapath) used(port, from int, peers map[netip.Addr]struct{}) int {
	more := d.queues[port].walk(from, func(p *path) {
		if p.local == nil {
			peers[p.header.To()] = struct{}{}
		}
	})
	if !more {
		return 0
	}
	return from + pathsAtOnce
}

// detached implements watched. A broker looks after the program that it has.
func (d *Datapath) detached() bool {
	attached, err := true, error(nil)
	switch {
	case d.steering != nil:
		attached, err = d.steering.Attached()
	case d.filling != nil:
		attached, err = d.filling.Attached()
	}
	return err == nil && !attached
}

// refresh implements watched. Asking for a neighbour takes CAP_NET_ADMIN, which a broker's client lacks: it sends a datagram instead.
func (d *Datapath) refresh(hop, peer netip.Addr) {
	if d.lease != nil {
		d.probeNeighbour(peer)
		return
	}
	d.resolver.Ask(hop)
}

// resized is the largest packet after the interface's MTU became mtu. It does not grow beyond what the steering program was
// loaded for when the datapath was opened, nor shrink below what every path must carry (PROTOCOL §7.1): on an interface that
// does not, packets are lost until it does again, or the peers give up.
func (d *Datapath) resized(mtu int) int {
	if d.single {
		mtu = min(mtu, maxFrame-frameOverhead)
	}
	return max(packetOf(mtu, d.cfg.Address), wire.MinPacket)
}

// Watch implements Device. Plain sockets follow routes and neighbours by themselves.
func (d *plainUDP) Watch(gone func(error), own func(port int, f func(*provider.Engine))) {
	d.errors.own = own
	d.watch.start(d, own, gone)
	d.shared.Start(own)
	if d.ring != nil && d.ring.lease != nil {
		d.watch.ended.Go(d.followRing)
	}
}

func (d *plainUDP) portCount() int { return 1 }

// react implements watched. The MTU has to be told to the engine; packets may not become larger than what the receive buffers were
// made for.
func (d *plainUDP) react(_ int, e *provider.Engine, c *change, _ int) (done, more bool) {
	switch {
	case c.what == provider.InterfaceMTU:
		if size := min(max(packetOf(c.mtu, d.cfg.Address), wire.MinPacket), d.opened); d.maxPacket != size {
			d.maxPacket = size
			e.Resized()
		}
	case c.resized:
		e.Resized()
	}
	return true, false
}

// used implements watched.
func (d *plainUDP) used(_, from int, peers map[netip.Addr]struct{}) int {
	end := min(from+pathsAtOnce, len(d.paths))
	for i := from; i < end; i++ {
		if p := &d.paths[i]; p.from != nil {
			peers[p.to.IP()] = struct{}{}
		}
	}
	if end == len(d.paths) {
		return 0
	}
	return end
}

func (d *plainUDP) detached() bool { return false }

func (d *plainUDP) refresh(_, peer netip.Addr) { d.probeNeighbour(peer) }

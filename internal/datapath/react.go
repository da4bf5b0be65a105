package datapath

import (
	"net/netip"

	"github.com/ndxdp/ndxdp/internal/datapath/follow"
	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// Watch implements Device.
func (d *xdpDevice) Watch(gone func(error), own func(port int, f func(*provider.Engine))) {
	d.follower.Unseen = d.pathsMade.Load
	if d.heard != nil {
		d.heard.own = own
	}
	d.follower.Start(d, own, gone)
	d.shared.Start(own)
	if d.icmp != nil {
		d.follower.Running.Go(func() { d.receiveErrors(own) })
	}
	if d.local != nil {
		d.follower.Running.Go(d.local.await)
	}
	if d.lease != nil {
		d.follower.Running.Go(func() {
			if d.lease.Gone() {
				d.follower.Tell(d.state.Left())
			}
		})
	}
}

func (d *xdpDevice) PortCount() int { return len(d.queues) }

// React implements follow.Followed.
func (d *xdpDevice) React(port int, e *provider.Engine, c *follow.Change, from int) (done, more bool) {
	q := d.queues[port]
	switch c.What {
	case provider.InterfaceMTU:
		if size := d.resized(c.MTU); q.maxPacket != size {
			q.maxPacket = size
			e.Resized()
		}
	case provider.InterfaceMAC:
		q.mac = c.MAC
		return true, q.walk(from, func(p *path) {
			if p.local == nil {
				p.header.SetSource(c.MAC)
			}
		})
	case provider.InterfaceNeighbour, provider.InterfaceRoute:
		if c.Resized {
			e.Resized()
			return true, false
		}
		more = q.walk(from, func(p *path) {
			if p.local != nil {
				return
			}
			if mac, moved := c.To[p.header.To()]; moved && p.header.Destination() != mac {
				p.header.SetDestination(mac)
				done = true
			}
		})
		return done, more
	default: // the change is only noted
	}
	return true, false
}

// walk calls f for the used paths among PathsAtOnce paths, and reports whether there are more.
func (q *queue) walk(from int, f func(*path)) (more bool) {
	end := min(from+follow.PathsAtOnce, len(q.paths))
	for i := from; i < end; i++ {
		if p := &q.paths[i]; p.used() {
			f(p)
		}
	}
	return end < len(q.paths)
}

// Used implements follow.Followed.
func (d *xdpDevice) Used(port, from int, peers map[netip.Addr]struct{}) int {
	more := d.queues[port].walk(from, func(p *path) {
		if p.local == nil {
			peers[p.header.To()] = struct{}{}
		}
	})
	if !more {
		return 0
	}
	return from + follow.PathsAtOnce
}

// Detached implements follow.Followed. A broker watches its own program.
func (d *xdpDevice) Detached() bool {
	attached, err := true, error(nil)
	switch {
	case d.steering != nil:
		attached, err = d.steering.Attached()
	case d.filling != nil:
		attached, err = d.filling.Attached()
	}
	return err == nil && !attached
}

// Refresh implements follow.Followed. A request for a neighbour needs CAP_NET_ADMIN. A broker's client lacks it, and sends a datagram
// instead.
func (d *xdpDevice) Refresh(hop, peer netip.Addr) {
	if d.lease != nil {
		d.probeNeighbour(peer)
		return
	}
	d.resolver.Ask(hop)
}

// resized returns the largest packet for the new MTU of the interface. It does not exceed the size at the open, for which the steering
// program was loaded. It is not less than every path must carry (PROTOCOL §7.1): while the MTU is too small, packets are lost.
func (d *xdpDevice) resized(mtu int) int {
	if d.single {
		mtu = min(mtu, plan.SingleBufferMTU)
	}
	return max(plan.PacketOf(mtu, d.cfg.Address), wire.MinPacket)
}

// Watch implements Device. The kernel follows routes and neighbours for plain sockets.
func (d *socketDevice) Watch(gone func(error), own func(port int, f func(*provider.Engine))) {
	d.errors.own = own
	d.follower.Start(d, own, gone)
	d.shared.Start(own)
	if d.ring != nil && d.ring.lease != nil {
		d.follower.Running.Go(d.followRing)
	}
}

func (d *socketDevice) PortCount() int { return 1 }

// React implements follow.Followed. Only the MTU must be told to the engine. Packets may not become larger than the receive buffers.
func (d *socketDevice) React(_ int, e *provider.Engine, c *follow.Change, _ int) (done, more bool) {
	switch {
	case c.What == provider.InterfaceMTU:
		if size := min(max(plan.PacketOf(c.MTU, d.cfg.Address), wire.MinPacket), d.opened); d.maxPacket != size {
			d.maxPacket = size
			e.Resized()
		}
	case c.Resized:
		e.Resized()
	}
	return true, false
}

// Used implements follow.Followed.
func (d *socketDevice) Used(_, from int, peers map[netip.Addr]struct{}) int {
	end := min(from+follow.PathsAtOnce, len(d.paths))
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

func (d *socketDevice) Detached() bool { return false }

func (d *socketDevice) Refresh(_, peer netip.Addr) { d.probeNeighbour(peer) }

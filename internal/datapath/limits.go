package datapath

import (
	"fmt"
	"net/netip"

	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/host"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// This file applies the MTU of a route (ip route ... mtu N, mtu lock N): the adapter sends no larger packets over the route, and no
// probes.

// carries returns an error if the MTU of a route (0: none) is smaller than every path must carry.
func carries(mtu int, peer netip.Addr) error {
	if mtu == 0 || plan.PacketOf(mtu, peer) >= wire.MinPacket {
		return nil
	}
	return fmt.Errorf("%w to %s: its route has an MTU of %d, and every packet needs one of %d: raise it (ip route get %[2]s shows the route)",
		host.ErrNoRoute, peer, mtu, plan.LeastMTU(peer))
}

// limit returns the largest ND packet that the route to a peer takes, or 0 if the route has no MTU, and whether the answer is known.
func (b *base) limit(peer netip.Addr) (size int, known bool) {
	mtu, known := b.follower.RouteMTU(peer)
	if mtu == 0 {
		return 0, known
	}
	return plan.PacketOf(mtu, peer), known
}

// Limit implements provider.Limited. Packets to an address of this machine are limited only by the link.
func (q *queue) Limit(p provider.Path) (size int, known bool) {
	if q.paths[p].local != nil {
		return 0, true
	}
	return q.device.limit(q.paths[p].header.To())
}

// Limit implements provider.Limited.
func (d *socketDevice) Limit(p provider.Path) (size int, known bool) {
	if d.paths[p].looped != 0 {
		return 0, true
	}
	return d.limit(d.paths[p].to.IP())
}

package datapath

import (
	"fmt"
	"net/netip"

	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/host"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// This file applies the MTU that an administrator gives a route (ip route ... mtu N, mtu lock N): no larger packets leave for it, and no probes.

// carries fails for a route whose MTU, 0 for none of its own, is smaller than that of every path must be.
func carries(mtu int, peer netip.Addr) error {
	if mtu == 0 || plan.PacketOf(mtu, peer) >= wire.MinPacket {
		return nil
	}
	return fmt.Errorf("%w to %s: its route has an MTU of %d, and every packet needs one of %d: raise it (ip route get %[2]s shows the route)",
		host.ErrNoRoute, peer, mtu, plan.LeastMTU(peer))
}

// limit is the largest ND packet that the route to a peer takes, 0 when nobody gave it an MTU, and whether that is known.
func (b *base) limit(peer netip.Addr) (size int, known bool) {
	mtu, known := b.follower.RouteMTU(peer)
	if mtu == 0 {
		return 0, known
	}
	return plan.PacketOf(mtu, peer), known
}

// Limit implements provider.Limited. Packets to an address of this machine have no limit but the link's.
func (q *queue) Limit(p provider.Path) (size int, known bool) {
	if q.paths[p].local != nil {
		return 0, true
	}
	return q.device.limit(q.paths[p].header.To())
}

// Limit implements provider.Limited.
func (d *socketDevice) Limit(p provider.Path) (size int, known bool) {
	return d.limit(d.paths[p].to.IP())
}

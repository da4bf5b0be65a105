package datapath

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/internal/host"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// This file applies the MTU that an administrator gives a route (ip route ... mtu N, mtu lock N): no larger packets leave for it, and no probes.

// limitKept is how long the limit of a route is used. Plain sockets do not follow routes.
const limitKept = time.Minute

// routesWaiting is how many peers may wait until their routes are looked at. Further ones ask again.
const routesWaiting = 16

// routeLimit is the largest ND packet of a peer's route, 0 for none, and when the kernel was asked.
type routeLimit struct {
	size int
	at   clock.Time
}

// limitOf is the largest ND packet that a route to a peer takes; 0 when nobody gave it an MTU.
func limitOf(t *host.Resolver, r *netlink.Route, peer netip.Addr) int {
	if mtu := t.MTUOf(r, peer); mtu != 0 {
		return packetOf(mtu, peer)
	}
	return 0
}

// carries fails for a route whose MTU is smaller than that of every path must be.
func carries(limit int, peer netip.Addr) error {
	if limit == 0 || limit >= wire.MinPacket {
		return nil
	}
	headers := headersOf(peer)
	return fmt.Errorf("%w to %s: its route has an MTU of %d, and every packet needs one of %d: raise it (ip route get %[2]s shows the route)",
		host.ErrNoRoute, peer, limit+headers, wire.MinPacket+headers)
}

// limitIs notes the limit of a peer's route, and says whether it was another one.
func (s *netState) limitIs(peer netip.Addr, size int, now clock.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.limits[peer]
	s.limits[peer] = routeLimit{size, now}
	return before.size != size
}

// limit is that of a peer's route, and whether it is known.
func (s *netState) limit(peer netip.Addr) (size int, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, known := s.limits[peer]
	return l.size, known
}

// limited are the peers whose limits are known.
func (s *netState) limited() (peers []netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for peer := range s.limits {
		peers = append(peers, peer)
	}
	return peers
}

// forgetLimits forgets limits that are old.
func (s *netState) forgetLimits(now clock.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for peer, l := range s.limits {
		if now.Sub(l.at) >= limitKept {
			delete(s.limits, peer)
		}
	}
}

// limit is the limit of the route to a peer. The goroutine looks at the route of a peer that called this adapter. Engines call limit.
func (w *watch) limit(peer netip.Addr) (size int, known bool) {
	if w.feed == nil {
		return 0, true // nobody looks
	}
	if size, known = w.state.limit(peer); !known {
		select {
		case w.routes <- peer:
		default:
		}
	}
	return size, known
}

// lookAtRoute asks for the limit of the route to a peer, and says whether it was another one.
func (w *watch) lookAtRoute(peer netip.Addr) bool {
	size := 0
	if r, err := w.asker.Route(peer); err == nil {
		size = limitOf(w.asker, r, peer)
	}
	return w.state.limitIs(peer, size, clock.Machine())
}

// relimit asks for all limits again, because routes changed.
func (w *watch) relimit() {
	changed := false
	for _, peer := range w.state.limited() {
		changed = w.lookAtRoute(peer) || changed
	}
	if changed {
		w.note(&change{what: provider.InterfaceRoute, resized: true})
	}
}

// Limit implements provider.Limited. Packets to an address of this machine have no limit but the link's.
func (q *queue) Limit(p provider.Path) (size int, known bool) {
	if q.paths[p].local != nil {
		return 0, true
	}
	return q.device.watch.limit(q.paths[p].header.To())
}

// Limit implements provider.Limited.
func (d *plainUDP) Limit(p provider.Path) (size int, known bool) {
	return d.watch.limit(d.paths[p].to.IP())
}

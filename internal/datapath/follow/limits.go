package follow

import (
	"net/netip"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider"
)

// limitKept is how long the limit of a route is used. Plain sockets do not follow routes.
const limitKept = time.Minute

// routesWaiting is how many peers may wait until their routes are looked at. Further ones ask again.
const routesWaiting = 16

// routeLimit is the MTU that an administrator gave a peer's route, 0 for none, and when the kernel was asked.
type routeLimit struct {
	mtu int
	at  clock.Time
}

// RouteMTUIs notes the MTU of a peer's route, and says whether it was another one.
func (s *State) RouteMTUIs(peer netip.Addr, mtu int, now clock.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.limits[peer]
	s.limits[peer] = routeLimit{mtu, now}
	return before.mtu != mtu
}

// routeMTU is the MTU of a peer's route, 0 for none of its own, and whether it is known.
func (s *State) routeMTU(peer netip.Addr) (mtu int, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, known := s.limits[peer]
	return l.mtu, known
}

// limited are the peers whose limits are known.
func (s *State) limited() (peers []netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for peer := range s.limits {
		peers = append(peers, peer)
	}
	return peers
}

// forgetLimits forgets limits that are old.
func (s *State) forgetLimits(now clock.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for peer, l := range s.limits {
		if now.Sub(l.at) >= limitKept {
			delete(s.limits, peer)
		}
	}
}

// RouteMTU is the MTU that an administrator gave the route to a peer, 0 for none. If it is not known, the goroutine looks at the route, as of a
// peer that called this adapter. Engines call RouteMTU.
func (w *Follower) RouteMTU(peer netip.Addr) (mtu int, known bool) {
	if w.Feed == nil {
		return 0, true // nobody looks
	}
	if mtu, known = w.state.routeMTU(peer); !known {
		select {
		case w.routes <- peer:
		default:
		}
	}
	return mtu, known
}

// lookAtRoute asks for the limit of the route to a peer, and says whether it was another one.
func (w *Follower) lookAtRoute(peer netip.Addr) bool {
	mtu := 0
	if r, err := w.asker.Route(peer); err == nil {
		mtu = w.asker.MTUOf(r, peer)
	}
	return w.state.RouteMTUIs(peer, mtu, clock.Machine())
}

// relimit asks for all limits again, because routes changed.
func (w *Follower) relimit() {
	changed := false
	for _, peer := range w.state.limited() {
		changed = w.lookAtRoute(peer) || changed
	}
	if changed {
		w.note(&Change{What: provider.InterfaceRoute, Resized: true})
	}
}

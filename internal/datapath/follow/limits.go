package follow

import (
	"net/netip"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider"
)

// limitKept is how long a known MTU of a route is used. Plain sockets do not follow routes.
const limitKept = time.Minute

// routesWaiting is the number of peers that may wait for a look-up of their routes. Further peers ask again later.
const routesWaiting = 16

// routeLimit is the MTU that an administrator gave a peer's route, 0 for none, and when the kernel was asked.
type routeLimit struct {
	mtu int
	at  clock.Time
}

// RouteMTUIs records the MTU of a peer's route, and reports whether it changed.
func (s *State) RouteMTUIs(peer netip.Addr, mtu int, now clock.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.limits[peer]
	s.limits[peer] = routeLimit{mtu, now}
	return before.mtu != mtu
}

// routeMTU returns the MTU of a peer's route, or 0 if the route has none, and whether it is known.
func (s *State) routeMTU(peer netip.Addr) (mtu int, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, known := s.limits[peer]
	return l.mtu, known
}

// limited returns the peers whose route MTU is known.
func (s *State) limited() (peers []netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for peer := range s.limits {
		peers = append(peers, peer)
	}
	return peers
}

// forgetLimits forgets MTUs that are old.
func (s *State) forgetLimits(now clock.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for peer, l := range s.limits {
		if now.Sub(l.at) >= limitKept {
			delete(s.limits, peer)
		}
	}
}

// RouteMTU returns the MTU that an administrator gave the route to a peer, or 0 for none. If it is not known, the goroutine looks up the
// route. Engines call RouteMTU.
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

// lookAtRoute looks up the MTU of the route to a peer, and reports whether it changed.
func (w *Follower) lookAtRoute(peer netip.Addr) bool {
	mtu := 0
	if r, err := w.asker.Route(peer); err == nil {
		mtu = w.asker.MTUOf(r, peer)
	}
	return w.state.RouteMTUIs(peer, mtu, clock.Machine())
}

// relimit looks up the MTUs of all routes again, because routes changed.
func (w *Follower) relimit() {
	changed := false
	for _, peer := range w.state.limited() {
		changed = w.lookAtRoute(peer) || changed
	}
	if changed {
		w.note(&Change{What: provider.InterfaceRoute, Resized: true})
	}
}

package follow

import (
	"net/netip"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/internal/host"
	"github.com/ndxdp/ndxdp/provider"
)

// This file is the part of State that knows the next hops of peers.

// resolvedFor is how long an answer of the kernel is reused. The kernel takes 50 to 100 µs for an answer, which would limit a host that
// opens many connections to one peer. Within a second the answer rarely changes. If it does, the handshake gets no answer.
const resolvedFor = time.Second

// Cached returns the link-layer address for packets to a peer.
func (s *State) Cached(peer netip.Addr) ([6]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, ok := s.peers[peer.Unmap()]
	return w.mac, ok
}

// Fresh reports whether the kernel was asked for the route to a peer within resolvedFor.
func (s *State) Fresh(peer netip.Addr, now clock.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, ok := s.peers[peer]
	if !ok {
		w.at = s.here[peer]
	}
	return w.at != 0 && now.Sub(w.at) < resolvedFor
}

// IsHere reports whether a peer is an address of this machine, according to the kernel's last answer.
func (s *State) IsHere(peer netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.here[peer]
	return ok
}

// FoundHere records that the kernel has just answered that a peer is an address of this machine.
func (s *State) FoundHere(peer netip.Addr, now clock.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(peer)
	s.here[peer] = now
}

// Found records the next hop of a peer from an answer of the kernel. It returns a change if existing paths to the peer have another next
// hop now.
func (s *State) Found(peer, by netip.Addr, mac [6]byte, now clock.Time) []Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, known := s.peers[peer]
	delete(s.here, peer)
	s.put(peer, way{hop: by, mac: mac, at: now})
	if !known || before.hop == by && before.mac == mac {
		return nil
	}
	return []Change{{What: provider.InterfaceRoute, value: tail(by.AsSlice()), To: map[netip.Addr][6]byte{peer: mac}}}
}

// leads records the next hop of a known peer. While the link-layer address of the new next hop is unknown, packets still go to the
// previous one.
func (s *State) leads(peer, by netip.Addr, mac [6]byte, known bool) []Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, ok := s.peers[peer]
	if !ok || w.hop == by && !w.cut {
		return nil
	}
	c := Change{What: provider.InterfaceRoute, value: tail(by.AsSlice()), To: map[netip.Addr][6]byte{}}
	if known {
		w.mac = mac
		c.To[peer] = mac
	} else {
		c.ask = map[netip.Addr]netip.Addr{by: peer}
	}
	w.hop, w.cut = by, false
	s.put(peer, w)
	return []Change{c}
}

// put records the route to a peer. The caller holds mu.
func (s *State) put(peer netip.Addr, w way) {
	s.forget(peer)
	s.peers[peer] = w
	h := s.hops[w.hop]
	if h == nil {
		h = &hop{peers: map[netip.Addr]struct{}{}}
		s.hops[w.hop] = h
	}
	h.peers[peer] = struct{}{}
}

// notFound records that the kernel has no route to a peer now. Packets still go to the last next hop until the connections end or a route
// appears, because a route that is being replaced is missing for a moment.
func (s *State) notFound(peer netip.Addr) []Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, ok := s.peers[peer]
	if !ok || w.cut {
		return nil
	}
	w.cut, w.at = true, 0
	s.peers[peer] = w
	return []Change{{What: provider.InterfaceNoRoute, value: tail(peer.AsSlice())}}
}

// forget removes a peer. The caller holds mu.
func (s *State) forget(peer netip.Addr) {
	w, ok := s.peers[peer]
	if !ok {
		return
	}
	delete(s.peers, peer)
	h := s.hops[w.hop]
	if delete(h.peers, peer); len(h.peers) == 0 {
		delete(s.hops, w.hop)
	}
}

// keepOnly forgets peers that have no path and were not looked up recently. It returns peers that have a path but no known route, because
// they connected to this adapter. So there are no more peers than paths and Connects of the last second.
func (s *State) keepOnly(used map[netip.Addr]struct{}, now clock.Time) (unknown []netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for peer, w := range s.peers {
		if _, needed := used[peer]; !needed && (w.at == 0 || now.Sub(w.at) >= resolvedFor) {
			s.forget(peer)
		}
	}
	for peer, at := range s.here {
		if _, needed := used[peer]; !needed && (at == 0 || now.Sub(at) >= resolvedFor) {
			delete(s.here, peer)
		}
	}
	for peer := range used {
		_, known := s.peers[peer]
		if _, here := s.here[peer]; !known && !here {
			unknown = append(unknown, peer)
		}
	}
	return unknown
}

// Stale returns all peers, and makes none of them fresh, because routes changed.
func (s *State) Stale() (peers []netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for peer, w := range s.peers {
		w.at = 0
		s.peers[peer] = w
		peers = append(peers, peer)
	}
	for peer := range s.here {
		s.here[peer] = 0
	}
	return peers
}

// Addresses fills to with the link-layer addresses for packets to each peer.
func (s *State) Addresses(to map[netip.Addr][6]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(to)
	for peer, w := range s.peers {
		to[peer] = w.mac
	}
}

// HopsInUse fills hops with the neighbours that packets go to, each with one of its peers.
func (s *State) HopsInUse(hops map[netip.Addr]netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(hops)
	s.inUse(hops)
}

// inUse is HopsInUse for an empty map. The caller holds mu.
func (s *State) inUse(hops map[netip.Addr]netip.Addr) {
	for at, h := range s.hops {
		for hops[at] = range h.peers {
			break
		}
	}
}

// uses reports whether packets go to a neighbour.
func (s *State) uses(at netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hops[at] != nil
}

// neighbour handles that the kernel knows the link-layer address of a neighbour.
func (s *State) neighbour(index int, at netip.Addr, mac [6]byte) []Change {
	h := s.hops[at]
	if index != s.index || h == nil {
		return nil
	}
	h.asked = false
	var moved map[netip.Addr][6]byte // mostly none
	for peer := range h.peers {
		if w := s.peers[peer]; w.mac != mac {
			if moved == nil {
				moved = map[netip.Addr][6]byte{}
			}
			w.mac = mac
			s.peers[peer] = w
			moved[peer] = mac
		}
	}
	if len(moved) == 0 {
		return nil
	}
	return []Change{{What: provider.InterfaceNeighbour, value: tail(at.AsSlice()), To: moved}}
}

// neighbourIs compares the kernel's entry of a neighbour with the previous entry.
func (s *State) neighbourIs(at netip.Addr, now *host.Neighbour) []Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.compareNeighbour(at, now)
}

func (s *State) compareNeighbour(at netip.Addr, now *host.Neighbour) []Change {
	if now.Known {
		return s.neighbour(s.index, at, now.MAC)
	}
	return s.neighbourLost(s.index, at, false)
}

// neighbourLost handles that the kernel lost the entry of a neighbour: it was collected or deleted, or the neighbour did not answer. The
// kernel has to be asked, because packets that we send over AF_XDP do not make it resolve the neighbour.
func (s *State) neighbourLost(index int, at netip.Addr, silent bool) []Change {
	h := s.hops[at]
	if index != s.index || h == nil {
		return nil
	}
	c := Change{What: provider.InterfaceNeighbourLost, value: tail(at.AsSlice())}
	if !silent && !h.asked && s.link.Up {
		h.asked = true
		for peer := range h.peers {
			c.ask = map[netip.Addr]netip.Addr{at: peer}
			break
		}
	}
	return []Change{c}
}

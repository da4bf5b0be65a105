package follow

import (
	"net/netip"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/internal/host"
	"github.com/ndxdp/ndxdp/provider"
)

// This file is the part of State that knows the ways to peers.

// resolvedFor is how long an answer is valid. The kernel takes 50 to 100 µs for an answer, which would limit a host that opens many
// connections to one peer. Within a second the answer is mostly the same; if it is not, the handshake gets no answer.
const resolvedFor = time.Second

// Cached returns the link-layer address that leads to a peer.
func (s *State) Cached(peer netip.Addr) ([6]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, ok := s.peers[peer.Unmap()]
	return w.mac, ok
}

// Fresh says whether the kernel was asked for the way to a peer a moment ago.
func (s *State) Fresh(peer netip.Addr, now clock.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, ok := s.peers[peer]
	if !ok {
		w.at = s.here[peer]
	}
	return w.at != 0 && now.Sub(w.at) < resolvedFor
}

// IsHere says that a peer is this machine, as the kernel said when it was asked.
func (s *State) IsHere(peer netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.here[peer]
	return ok
}

// FoundHere records that the kernel has just named this machine as the peer.
func (s *State) FoundHere(peer netip.Addr, now clock.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(peer)
	s.here[peer] = now
}

// Found records the next hop of a peer that the kernel has just named. It returns a change if paths to the peer have another next hop.
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

// leads notes where the route to a peer that is known leads now. When the link-layer address of the neighbour is not known yet, packets
// go where they went until it is.
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

// put notes the way to a peer. The caller holds mu.
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

// notFound notes that the kernel has no way to a peer any more. Packets to it still go the old way until its connections end or there
// is a way again: a route that is being replaced is missing for a moment.
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

// keepOnly forgets peers that have no path and were not recently asked for. It returns peers with a path whose way is unknown, because
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

// Stale returns all peers, because routes changed; none of them is fresh any more.
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

// Addresses makes to the link-layer addresses that lead to each peer.
func (s *State) Addresses(to map[netip.Addr][6]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(to)
	for peer, w := range s.peers {
		to[peer] = w.mac
	}
}

// HopsInUse makes hops the neighbours that packets go to, each with a peer behind it.
func (s *State) HopsInUse(hops map[netip.Addr]netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(hops)
	s.inUse(hops)
}

// inUse is HopsInUse of an empty map. The caller holds mu.
func (s *State) inUse(hops map[netip.Addr]netip.Addr) {
	for at, h := range s.hops {
		for hops[at] = range h.peers {
			break
		}
	}
}

// uses says whether packets go to a neighbour.
func (s *State) uses(at netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hops[at] != nil
}

// neighbour says that the kernel knows the link-layer address of a neighbour.
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

// neighbourIs compares what the kernel knows of a neighbour with what was known.
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

// neighbourLost says that the kernel does not know a neighbour any more: it was collected or deleted, or it did not answer. The kernel
// has to be asked, because packets that we send do not make it ask by itself.
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

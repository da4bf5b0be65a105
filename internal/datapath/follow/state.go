package follow

import (
	"fmt"
	"net/netip"
	"sync"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/internal/host"
	"github.com/ndxdp/ndxdp/provider"
)

// State is the only place that knows the interface of an adapter and the next hops of its peers. Events and answers of the kernel go in.
// Changes that the device has to apply come out. It makes no queries, and has no socket. Its methods may be called from any goroutine.
type State struct {
	index  int
	addr   netip.Addr // the adapter's
	Native bool       // the steering program runs in the driver
	Ways   bool       // the adapter finds the next hops of peers; with plain sockets the kernel does

	mu       sync.Mutex
	link     host.LinkFacts
	own      map[host.Assigned]struct{} // addresses of the interface that equal the adapter's
	locals   map[located]struct{}       // all addresses of the machine; nil until they are known
	lowers   map[int]string             // interfaces whose master is the adapter's interface
	channels *host.Channels             // nil until they are known
	over     bool                       // the adapter has ended; its end is reported once
	peers    map[netip.Addr]way         // by peer
	hops     map[netip.Addr]*hop        // by address: exactly the next hops of peers
	limits   map[netip.Addr]routeLimit  // by peer
	here     map[netip.Addr]clock.Time  // peers that are addresses of this machine, with the time when the kernel said so
}

// located is an address of an interface.
type located struct {
	index int
	host.Assigned
}

// way is the route to a peer.
type way struct {
	hop netip.Addr // the peer itself, or a router
	mac [6]byte
	at  clock.Time // when the kernel was asked; 0 if it must be asked again
	cut bool       // the kernel has no route now; packets still use the last one
}

// hop is a neighbour that packets are sent to.
type hop struct {
	peers map[netip.Addr]struct{}
	// asked is set after the kernel was asked for this neighbour because it forgot the neighbour, until it finds the neighbour. The
	// kernel is not asked again each time that it gives up, but at the next check of the neighbours in use.
	asked bool
}

// Change is an event, and what to do about it.
type Change struct {
	What    provider.InterfaceChange
	value   uint32                    // for the flight recorder: the MTU, a number of queues, the last four bytes of an address
	MTU     int                       // of InterfaceMTU
	MAC     [6]byte                   // of InterfaceMAC
	To      map[netip.Addr][6]byte    // for InterfaceNeighbour and InterfaceRoute: the link-layer address for packets to each peer
	Resized bool                      // for InterfaceRoute: routes have other MTUs now
	ask     map[netip.Addr]netip.Addr // next hops that the kernel must be asked for, each with one of its peers
	cause   error                     // of InterfaceEnded
}

func NewState(index int, addr netip.Addr, link host.LinkFacts) *State {
	return &State{
		index: index, addr: addr.Unmap(), link: link, own: map[host.Assigned]struct{}{}, lowers: map[int]string{},
		peers: map[netip.Addr]way{}, hops: map[netip.Addr]*hop{}, here: map[netip.Addr]clock.Time{},
		limits: map[netip.Addr]routeLimit{},
	}
}

// apply handles one event. Events must come in the order in which they happened.
func (s *State) apply(e *host.Event) []Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch e.Kind {
	case host.EventLink:
		return s.linkIs(e.Index, &e.Link)
	case host.EventLinkGone:
		return s.linkGone(e.Index)
	case host.EventAddress, host.EventAddressGone:
		return s.address(e.Index, host.Assigned{Prefix: e.Prefix, Peer: e.Peer}, e.Kind == host.EventAddress)
	case host.EventNeighbour:
		return s.neighbour(e.Index, e.Hop, e.MAC)
	case host.EventNeighbourGone, host.EventNeighbourSilent:
		return s.neighbourLost(e.Index, e.Hop, e.Kind == host.EventNeighbourSilent)
	case host.EventChannels:
		return s.channelsAre(e.Index, e.Channels)
	case host.EventRoutes, host.EventOverflow, host.EventBroken: // the follower handles these: it has to ask the kernel
	}
	return nil
}

// end returns the change that ends the adapter, once.
func (s *State) end(format string, args ...any) []Change {
	if s.over {
		return nil
	}
	s.over = true
	return []Change{{What: provider.InterfaceEnded, cause: fmt.Errorf(format, args...)}}
}

func (s *State) linkGone(index int) []Change {
	if index == s.index {
		return s.end("interface %s was removed, or moved to another network namespace", s.link.Name)
	}
	return s.lower(index, &host.LinkFacts{})
}

// linkIs compares the state of an interface with the previous state.
func (s *State) linkIs(index int, now *host.LinkFacts) (changes []Change) {
	if index != s.index {
		return s.lower(index, now)
	}
	before := s.link
	s.link = *now
	if now.Up != before.Up {
		what := provider.InterfaceDown
		if now.Up {
			what = provider.InterfaceUp
		}
		c := Change{What: what}
		if now.Up {
			c.ask = map[netip.Addr]netip.Addr{}
			s.inUse(c.ask) // the kernel forgot its neighbours when it went down
		}
		changes = append(changes, c)
	}
	if now.MTU != before.MTU {
		changes = append(changes, Change{What: provider.InterfaceMTU, value: uint32(now.MTU), MTU: now.MTU})
	}
	if now.MAC != before.MAC {
		changes = append(changes, Change{What: provider.InterfaceMAC, value: tail(now.MAC[:]), MAC: now.MAC})
	}
	if now.Master != before.Master {
		changes = append(changes, Change{What: provider.InterfaceMaster, value: uint32(now.Master)})
	}
	return changes
}

// lower follows the lower interfaces of the adapter's interface.
func (s *State) lower(index int, now *host.LinkFacts) []Change {
	_, was := s.lowers[index]
	is := now.Master == s.index
	switch {
	case is == was:
		return nil
	case !is:
		delete(s.lowers, index)
	default:
		s.lowers[index] = now.Name
		if s.Native {
			return s.end("%s has %s as its master now: packets arrive there, where native mode loses them: open the adapter again, "+
				"which takes generic mode then", now.Name, s.link.Name)
		}
	}
	return []Change{{What: provider.InterfaceLower, value: uint32(len(s.lowers))}}
}

// address follows the adapter's own address.
func (s *State) address(index int, a host.Assigned, there bool) []Change {
	if s.locals != nil {
		if there {
			s.locals[located{index, a}] = struct{}{}
		} else {
			delete(s.locals, located{index, a})
		}
	}
	if index != s.index || !covers(a.Prefix, s.addr) {
		return nil
	}
	if there {
		s.own[a] = struct{}{}
		return nil
	}
	delete(s.own, a)
	if len(s.own) > 0 {
		return nil
	}
	return s.end("address %s was removed from interface %s", s.addr, s.link.Name)
}

// covers reports whether an address of an interface is addr, or is in a loopback network that contains addr. The kernel answers to all
// addresses of a loopback network.
func covers(prefix netip.Prefix, addr netip.Addr) bool {
	return prefix.Addr() == addr || prefix.Addr().IsLoopback() && addr.Is4() && prefix.Contains(addr)
}

// channelsAre compares the number of queues in use with the previous number. A new queue has no socket, so packets on it are lost. A
// removed queue cannot send.
func (s *State) channelsAre(index int, now host.Channels) []Change {
	if index != s.index {
		return nil
	}
	before := s.channels
	s.channels = &now
	switch {
	case before == nil || *before == now:
		return nil
	case now.Rx != before.Rx || now.Tx < before.Tx:
		return s.end("interface %s has %d receive and %d transmit queues now, and had %d and %d: open the adapter again, which serves "+
			"them all then", s.link.Name, now.Rx, now.Tx, before.Rx, before.Tx)
	}
	return []Change{{What: provider.InterfaceQueues, value: uint32(now.Tx)}}
}

// KnowsQueues reports whether the kernel has told the number of queues of the interface.
func (s *State) KnowsQueues() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.channels != nil
}

// Left handles the end of the broker that opened the interface for this adapter. The steering program ended with it.
func (s *State) Left() []Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end("the broker that opened interface %s ended", s.link.Name)
}

// unsteered handles that another process detached the steering program from the interface.
func (s *State) unsteered() []Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end("the steering program was taken off interface %s (bpftool link detach): open the adapter again", s.link.Name)
}

// snapshot is the state that was read from the kernel at once, because events were lost or none came yet.
type snapshot struct {
	link       *host.LinkFacts // nil if the interface was removed
	lowers     map[int]host.LinkFacts
	own        map[host.Assigned]struct{}    // all addresses of the interface
	locals     map[located]struct{}          // all addresses of all interfaces
	channels   *host.Channels                // nil if the kernel does not report queues
	neighbours map[netip.Addr]host.Neighbour // neighbours in use
}

// synced compares a snapshot with the previous state.
func (s *State) synced(now *snapshot) (changes []Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.link == nil {
		return s.linkGone(s.index)
	}
	changes = s.linkIs(s.index, now.link)
	for index, l := range now.lowers {
		changes = append(changes, s.lower(index, &l)...)
	}
	for index := range s.lowers {
		if _, still := now.lowers[index]; !still {
			changes = append(changes, s.lower(index, &host.LinkFacts{})...)
		}
	}
	s.locals = now.locals
	clear(s.own)
	for a := range now.own {
		changes = append(changes, s.address(s.index, a, true)...)
	}
	if len(s.own) == 0 {
		changes = append(changes, s.address(s.index, host.Assigned{Prefix: netip.PrefixFrom(s.addr, s.addr.BitLen())}, false)...)
	}
	if now.channels != nil {
		changes = append(changes, s.channelsAre(s.index, *now.channels)...)
	}
	for at, n := range now.neighbours {
		changes = append(changes, s.compareNeighbour(at, &n)...)
	}
	return changes
}

// broken ends the adapter because the kernel can report no changes now.
func (s *State) broken(err error) []Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end("the state of interface %s cannot be followed any more: %w", s.link.Name, err)
}

// Elsewhere reports whether a peer is another machine. It returns false while the addresses of this machine are unknown.
func (s *State) Elsewhere(peer netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.locals {
		if l.Prefix.Addr() == peer {
			return false
		}
	}
	return s.locals != nil
}

// Identity returns our link-layer address, and the interface's names in the form of LinkFacts.
func (s *State) Identity() (mac [6]byte, names string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.link.MAC, s.link.Names
}

// tail returns the last four bytes of an address, for the flight recorder.
func tail(address []byte) (n uint32) {
	for _, b := range address[len(address)-4:] {
		n = n<<8 | uint32(b)
	}
	return n
}

package follow

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/internal/host"
	"github.com/ndxdp/ndxdp/provider"
)

const (
	ourIndex   = 7
	otherIndex = 9
)

var (
	ourAddr = netip.MustParseAddr("10.99.0.1")
	peerOne = netip.MustParseAddr("10.99.0.2")
	macA    = [6]byte{2, 0, 0, 0, 0, 0xa}
	macB    = [6]byte{2, 0, 0, 0, 0, 0xb}
)

func ourLink() host.LinkFacts { return host.LinkFacts{Name: "nd0", Up: true, MTU: 1500, MAC: macA} }

// known is a state with one address and one number of queues.
func known() *State {
	s := NewState(ourIndex, ourAddr, ourLink())
	s.Ways = true
	s.own[host.Assigned{Prefix: netip.MustParsePrefix("10.99.0.1/24")}] = struct{}{}
	s.channels = &host.Channels{Rx: 2, Tx: 2}
	return s
}

// kinds returns the kinds of changes.
func kinds(changes []Change) (list []provider.InterfaceChange) {
	for i := range changes {
		list = append(list, changes[i].What)
	}
	return list
}

func linkEvent(index int, change func(*host.LinkFacts)) host.Event {
	l := ourLink()
	change(&l)
	return host.Event{Kind: host.EventLink, Index: index, Link: l}
}

var ownPrefix = netip.MustParsePrefix("10.99.0.1/24")

// eventCases has one event each, for a state without faults.
var eventCases = []struct {
	name   string
	native bool
	event  host.Event
	want   []provider.InterfaceChange
	cause  string // the error if the adapter ends
}{
	{"nothing new", false, linkEvent(ourIndex, func(*host.LinkFacts) {}), nil, ""},
	{"another name", false, linkEvent(ourIndex, func(l *host.LinkFacts) { l.Name = "eth7" }), nil, ""},
	{"down", false, linkEvent(ourIndex, func(l *host.LinkFacts) { l.Up = false }), []provider.InterfaceChange{provider.InterfaceDown}, ""},
	{"MTU", false, linkEvent(ourIndex, func(l *host.LinkFacts) { l.MTU = 9000 }), []provider.InterfaceChange{provider.InterfaceMTU}, ""},
	{"link-layer address", false, linkEvent(ourIndex, func(l *host.LinkFacts) { l.MAC = macB }), []provider.InterfaceChange{provider.InterfaceMAC}, ""},
	{"master", false, linkEvent(ourIndex, func(l *host.LinkFacts) { l.Master = 3 }), []provider.InterfaceChange{provider.InterfaceMaster}, ""},
	{
		"two at once", false, linkEvent(ourIndex, func(l *host.LinkFacts) { l.MTU, l.MAC = 9000, macB }),
		[]provider.InterfaceChange{provider.InterfaceMTU, provider.InterfaceMAC},
		"",
	},
	{"another interface", false, linkEvent(otherIndex, func(l *host.LinkFacts) { l.MTU, l.Up = 9000, false }), nil, ""},
	{"removed", false, host.Event{Kind: host.EventLinkGone, Index: ourIndex}, []provider.InterfaceChange{provider.InterfaceEnded}, "interface nd0 was removed"},
	{"another one removed", false, host.Event{Kind: host.EventLinkGone, Index: otherIndex}, nil, ""},
	{
		"one comes beneath", false, linkEvent(otherIndex, func(l *host.LinkFacts) { l.Master = ourIndex }),
		[]provider.InterfaceChange{provider.InterfaceLower},
		"",
	},
	{
		"one comes beneath native mode", true, linkEvent(otherIndex, func(l *host.LinkFacts) { l.Name, l.Master = "vf0", ourIndex }),
		[]provider.InterfaceChange{provider.InterfaceEnded},
		"vf0 has nd0 as its master now",
	},
	{
		"own address removed", false,
		host.Event{Kind: host.EventAddressGone, Index: ourIndex, Prefix: ownPrefix},
		[]provider.InterfaceChange{provider.InterfaceEnded},
		"address 10.99.0.1 was removed from interface nd0",
	},
	{"another address removed", false, host.Event{Kind: host.EventAddressGone, Index: ourIndex, Prefix: netip.MustParsePrefix("10.99.0.7/24")}, nil, ""},
	{"own address of another interface removed", false, host.Event{Kind: host.EventAddressGone, Index: otherIndex, Prefix: ownPrefix}, nil, ""},
	{
		"queue added", false,
		host.Event{Kind: host.EventChannels, Index: ourIndex, Channels: host.Channels{Rx: 4, Tx: 4}},
		[]provider.InterfaceChange{provider.InterfaceEnded},
		"has 4 receive and 4 transmit queues now, and had 2 and 2",
	},
	{
		"queue removed", false,
		host.Event{Kind: host.EventChannels, Index: ourIndex, Channels: host.Channels{Rx: 1, Tx: 2}},
		[]provider.InterfaceChange{provider.InterfaceEnded},
		"has 1 receive",
	},
	{
		"transmit queue removed", false,
		host.Event{Kind: host.EventChannels, Index: ourIndex, Channels: host.Channels{Rx: 2, Tx: 1}},
		[]provider.InterfaceChange{provider.InterfaceEnded},
		"1 transmit",
	},
	{
		"transmit queue added", false,
		host.Event{Kind: host.EventChannels, Index: ourIndex, Channels: host.Channels{Rx: 2, Tx: 4}},
		[]provider.InterfaceChange{provider.InterfaceQueues},
		"",
	},
	{"same queues", false, host.Event{Kind: host.EventChannels, Index: ourIndex, Channels: host.Channels{Rx: 2, Tx: 2}}, nil, ""},
	{"queues of another interface", false, host.Event{Kind: host.EventChannels, Index: otherIndex, Channels: host.Channels{Rx: 4, Tx: 4}}, nil, ""},
	{"a neighbour that nobody uses", false, host.Event{Kind: host.EventNeighbour, Index: ourIndex, Hop: peerOne, MAC: macB}, nil, ""},
}

// TestEvents passes each event to a state of its own.
func TestEvents(t *testing.T) {
	for _, c := range eventCases {
		s := known()
		s.Native = c.native
		changes := s.apply(&c.event)
		if got := kinds(changes); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
			continue
		}
		cause := ""
		for i := range changes {
			if changes[i].cause != nil {
				cause = changes[i].cause.Error()
			}
		}
		if !strings.Contains(cause, c.cause) || (cause == "") != (c.cause == "") {
			t.Errorf("%s: ended because %q, want %q", c.name, cause, c.cause)
		}
		if again := s.apply(&c.event); len(again) != 0 {
			t.Errorf("%s, reported twice: %v", c.name, kinds(again))
		}
	}
}

// TestOwnAddressTwice: an address with two prefix lengths exists until both are removed. All addresses of a loopback network are
// local.
func TestOwnAddressTwice(t *testing.T) {
	s := known()
	wide, narrow := netip.MustParsePrefix("10.99.0.1/16"), netip.MustParsePrefix("10.99.0.1/24")
	s.apply(&host.Event{Kind: host.EventAddress, Index: ourIndex, Prefix: wide})
	if got := s.apply(&host.Event{Kind: host.EventAddressGone, Index: ourIndex, Prefix: narrow}); len(got) != 0 {
		t.Errorf("ended with an address left: %v", kinds(got))
	}
	if got := s.apply(&host.Event{Kind: host.EventAddressGone, Index: ourIndex, Prefix: wide}); len(got) != 1 || got[0].cause == nil {
		t.Errorf("not ended: %v", kinds(got))
	}
	loopback := NewState(1, netip.MustParseAddr("127.0.0.2"), ourLink())
	lo := netip.MustParsePrefix("127.0.0.1/8")
	loopback.apply(&host.Event{Kind: host.EventAddress, Index: 1, Prefix: lo})
	if got := loopback.apply(&host.Event{Kind: host.EventAddressGone, Index: 1, Prefix: lo}); len(got) != 1 || got[0].cause == nil {
		t.Errorf("not ended: %v", kinds(got))
	}
}

// waysRig is a state in which two peers are reached through one router.
type waysRig struct {
	*State
	t            *testing.T
	router, next netip.Addr
	far          []netip.Addr
}

func newWaysRig(t *testing.T) *waysRig {
	r := &waysRig{
		known(), t, netip.MustParseAddr("10.99.0.100"), netip.MustParseAddr("10.99.0.101"),
		[]netip.Addr{netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("198.51.100.2")},
	}
	for _, peer := range r.far {
		if got := r.Found(peer, r.router, macA, clock.Time(1e9)); len(got) != 0 {
			t.Errorf("a peer that was not known changes %v", kinds(got))
		}
	}
	return r
}

func (r *waysRig) hear(kind host.EventKind, at netip.Addr, mac [6]byte) []Change {
	return r.apply(&host.Event{Kind: kind, Index: ourIndex, Hop: at, MAC: mac})
}

// wantTo checks the link-layer address for packets to these peers from now on.
func (r *waysRig) wantTo(what string, got []Change, mac [6]byte, peers ...netip.Addr) {
	r.t.Helper()
	want := map[netip.Addr][6]byte{}
	for _, p := range peers {
		want[p] = mac
	}
	to := map[netip.Addr][6]byte{}
	for i := range got {
		maps.Copy(to, got[i].To)
	}
	if !maps.Equal(to, want) {
		r.t.Errorf("%s: packets go to %v, want %v", what, to, want)
	}
}

// wantAsk checks whether the kernel is asked to resolve a neighbour.
func (r *waysRig) wantAsk(what string, got []Change, at netip.Addr, want bool) {
	r.t.Helper()
	asked := false
	for i := range got {
		peer, ok := got[i].ask[at]
		asked = asked || ok && r.peers[peer].hop == at
	}
	if asked != want {
		r.t.Errorf("%s: asked for %s: %t", what, at, asked)
	}
}

// TestNeighbours: the link-layer address of a router to two peers changes.
func TestNeighbours(t *testing.T) {
	r := newWaysRig(t)
	router := r.router
	r.wantTo("the same address", r.hear(host.EventNeighbour, router, macA), macA)
	r.wantTo("the router moves", r.hear(host.EventNeighbour, router, macB), macB, r.far...)
	r.wantTo("told twice", r.hear(host.EventNeighbour, router, macB), macB)
	if mac, ok := r.Cached(r.far[0]); !ok || mac != macB {
		t.Errorf("cached %x", mac)
	}
	r.wantAsk("collected", r.hear(host.EventNeighbourGone, router, macA), router, true)
	r.wantAsk("no answer", r.hear(host.EventNeighbourSilent, router, macA), router, false)
	r.wantAsk("given up", r.hear(host.EventNeighbourGone, router, macA), router, false)
	r.wantTo("it answers after all", r.hear(host.EventNeighbour, router, macA), macA, r.far...)
	r.wantAsk("collected again", r.hear(host.EventNeighbourGone, router, macA), router, true)
	r.hear(host.EventNeighbour, router, macA)
	down, up := linkEvent(ourIndex, func(l *host.LinkFacts) { l.Up = false }), linkEvent(ourIndex, func(*host.LinkFacts) {})
	r.apply(&down)
	r.wantAsk("collected while down", r.hear(host.EventNeighbourGone, router, macA), router, false)
	r.wantAsk("up again", r.apply(&up), router, true)
}

// TestRoutes: the routes to two peers change.
func TestRoutes(t *testing.T) {
	r := newWaysRig(t)
	far, next := r.far, r.next
	r.wantTo("the same route", r.leads(far[0], r.router, macA, true), macA)
	r.wantTo("another router", r.leads(far[0], next, macB, true), macB, far[0])
	r.wantTo("the first one moves", r.hear(host.EventNeighbour, r.router, macB), macB, far[1])
	got := r.leads(far[1], next, [6]byte{}, false)
	r.wantAsk("a router that is not known yet", got, next, true)
	r.wantTo("a router that is not known yet", got, macB)
	r.wantTo("which is known then", r.hear(host.EventNeighbour, next, macA), macA, far...)
	if len(r.hops) != 1 {
		t.Errorf("%d neighbours in use, want 1", len(r.hops))
	}

	if got := kinds(r.notFound(far[0])); !slices.Equal(got, []provider.InterfaceChange{provider.InterfaceNoRoute}) {
		t.Errorf("no route: %v", got)
	}
	if got := r.notFound(far[0]); len(got) != 0 {
		t.Errorf("no route, twice: %v", kinds(got))
	}
	if mac, ok := r.Cached(far[0]); !ok || mac != macA || r.Fresh(far[0], clock.Time(1e9)) {
		t.Error("without a route packets go on, and the next Connect asks")
	}
	r.wantTo("the route is back", r.leads(far[0], next, macA, true), macA, far[0])
	r.wantTo("a peer that nobody asked for", r.leads(netip.MustParseAddr("198.51.100.3"), next, macB, true), macB)
}

// TestWaysAreBounded: peers without paths are forgotten after a second. Peers with paths are kept, and peers that connected to us
// are marked.
func TestWaysAreBounded(t *testing.T) {
	s := known()
	start := clock.Time(1e9)
	peer := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 99, byte(i >> 8), byte(i)}) }
	for i := range 1000 {
		s.Found(peer(i), peer(i), macA, start)
	}
	if unknown := s.keepOnly(nil, start.Add(resolvedFor-1)); len(s.peers) != 1000 || len(unknown) != 0 {
		t.Errorf("%d peers, %d unknown", len(s.peers), len(unknown))
	}
	used := map[netip.Addr]struct{}{peer(1): {}, peer(2): {}, peer(5000): {}}
	unknown := s.keepOnly(used, start.Add(resolvedFor))
	if len(s.peers) != 2 || len(s.hops) != 2 || !slices.Equal(unknown, []netip.Addr{peer(5000)}) {
		t.Errorf("%d peers, %d neighbours, unknown %v", len(s.peers), len(s.hops), unknown)
	}
	if peers := s.Stale(); len(peers) != 2 || s.Fresh(peer(1), start) {
		t.Errorf("after the routes changed: %v", peers)
	}
}

// A peer on this machine is remembered as local while it is needed. It is resolved again when routes change or its address moves.
func TestPeersOnThisMachine(t *testing.T) {
	s := known()
	start := clock.Time(1e9)
	peer, other := netip.MustParseAddr("10.99.0.100"), netip.MustParseAddr("10.99.0.101")
	s.FoundHere(peer, start)
	s.FoundHere(other, start)
	if !s.IsHere(peer) || !s.Fresh(peer, start.Add(resolvedFor-1)) || s.Fresh(peer, start.Add(resolvedFor)) {
		t.Error("the kernel's answer is not kept for a second")
	}
	if unknown := s.keepOnly(map[netip.Addr]struct{}{peer: {}}, start.Add(resolvedFor)); len(unknown) != 0 || !s.IsHere(peer) || s.IsHere(other) {
		t.Errorf("unknown %v; kept %v", unknown, s.here)
	}
	s.Stale()
	if s.Fresh(peer, start) {
		t.Error("routes changed, and the kernel is not asked")
	}
	s.Found(peer, peer, macA, start)
	if mac, ok := s.Cached(peer); s.IsHere(peer) || !ok || mac != macA {
		t.Error("a peer that went to another machine is here")
	}
	s.FoundHere(peer, start)
	if _, ok := s.Cached(peer); ok || !s.IsHere(peer) || len(s.hops) != 0 {
		t.Error("a peer that came to this machine is elsewhere")
	}
}

// TestSynced: a full read from the kernel causes the same changes as events.
func TestSynced(t *testing.T) {
	full := func() *snapshot {
		l := ourLink()
		return &snapshot{
			link: &l, own: map[host.Assigned]struct{}{{Prefix: netip.MustParsePrefix("10.99.0.1/24")}: {}, {Prefix: netip.MustParsePrefix("10.99.0.9/24")}: {}},
			channels: &host.Channels{Rx: 2, Tx: 2}, neighbours: map[netip.Addr]host.Neighbour{peerOne: {MAC: macA, Known: true}},
		}
	}
	for _, c := range []struct {
		name  string
		spoil func(*snapshot)
		want  []provider.InterfaceChange
	}{
		{"nothing", func(*snapshot) {}, nil},
		{"the interface is gone", func(n *snapshot) { n.link = nil }, []provider.InterfaceChange{provider.InterfaceEnded}},
		{"MTU", func(n *snapshot) { n.link.MTU = 1400 }, []provider.InterfaceChange{provider.InterfaceMTU}},
		{"address", func(n *snapshot) { delete(n.own, host.Assigned{Prefix: netip.MustParsePrefix("10.99.0.1/24")}) }, []provider.InterfaceChange{provider.InterfaceEnded}},
		{"address with another prefix", func(n *snapshot) {
			n.own = map[host.Assigned]struct{}{{Prefix: netip.MustParsePrefix("10.99.0.1/16")}: {}}
		}, nil},
		{"queues", func(n *snapshot) { n.channels = &host.Channels{Rx: 3, Tx: 3} }, []provider.InterfaceChange{provider.InterfaceEnded}},
		{"queues unknown", func(n *snapshot) { n.channels = nil }, nil},
		{"a neighbour moved", func(n *snapshot) { n.neighbours[peerOne] = host.Neighbour{MAC: macB, Known: true} }, []provider.InterfaceChange{provider.InterfaceNeighbour}},
		{"a neighbour is gone", func(n *snapshot) { n.neighbours[peerOne] = host.Neighbour{} }, []provider.InterfaceChange{provider.InterfaceNeighbourLost}},
		{
			"one beneath", func(n *snapshot) { n.lowers = map[int]host.LinkFacts{otherIndex: {Name: "eth1", Master: ourIndex}} },
			[]provider.InterfaceChange{provider.InterfaceLower},
		},
	} {
		s := known()
		s.Found(peerOne, peerOne, macA, clock.Time(1e9))
		now := full()
		c.spoil(now)
		if got := kinds(s.synced(now)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	s := known()
	s.lowers[otherIndex] = "eth1"
	if got := kinds(s.synced(full())); !slices.Equal(got, []provider.InterfaceChange{provider.InterfaceLower}) || len(s.lowers) != 0 {
		t.Errorf("the one beneath left: %v", got)
	}
}

// TestEndsOnce: an adapter ends for one reason, whatever happens afterwards.
func TestEndsOnce(t *testing.T) {
	s := known()
	if got := s.Left(); len(got) != 1 || !strings.Contains(got[0].cause.Error(), "broker") {
		t.Errorf("%+v", got)
	}
	if got := append(s.broken(errUnknown), s.apply(&host.Event{Kind: host.EventLinkGone, Index: ourIndex})...); len(got) != 0 {
		t.Errorf("ended again: %v", kinds(got))
	}
	if got := known().broken(errUnknown); len(got) != 1 || !strings.Contains(got[0].cause.Error(), "interface nd0 cannot be followed any more: no route") {
		t.Errorf("%+v", got)
	}
}

var errUnknown = host.ErrNoRoute // any error

// An address whose prefix length changes, as when a network is enlarged, is local all the time.
func TestOwnAddressGetsAnotherLength(t *testing.T) {
	s := known()
	s.locals = map[located]struct{}{}
	wide, narrow := netip.MustParsePrefix("10.99.0.1/16"), netip.MustParsePrefix("10.99.0.1/24")
	s.apply(&host.Event{Kind: host.EventAddress, Index: ourIndex, Prefix: narrow})
	s.apply(&host.Event{Kind: host.EventAddress, Index: ourIndex, Prefix: wide})
	s.apply(&host.Event{Kind: host.EventAddressGone, Index: ourIndex, Prefix: narrow})
	if s.Elsewhere(ourAddr) {
		t.Error("an own address is another machine's")
	}
	s.apply(&host.Event{Kind: host.EventAddressGone, Index: ourIndex, Prefix: wide})
	if !s.Elsewhere(ourAddr) {
		t.Error("an address that is gone is still this machine's")
	}
}

// If an adapter's own address is removed, the adapter ends although its interface has other addresses.
func TestOwnAddressRemovedBesideOthers(t *testing.T) {
	s := known()
	s.apply(&host.Event{Kind: host.EventAddress, Index: ourIndex, Prefix: netip.MustParsePrefix("10.99.0.7/24")})
	if got := s.apply(&host.Event{Kind: host.EventAddressGone, Index: ourIndex, Prefix: ownPrefix}); len(got) != 1 || got[0].cause == nil {
		t.Errorf("not ended: %v", kinds(got))
	}
}

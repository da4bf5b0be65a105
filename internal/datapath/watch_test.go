package datapath

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/genetlink"
	"github.com/ndxdp/ndxdp/internal/host"
	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// rig is a device on side A of a pair that follows its interface. Its engines are not run.
type rig struct {
	t       *testing.T
	pair    *netlab.Pair
	device  Device
	engines []*provider.Engine
	owner   sync.Mutex // locks all engines
	gone    chan error
}

func newRig(t *testing.T, datapath plan.Datapath) *rig {
	t.Helper()
	r := &rig{t: t, pair: netlabtest.Pair(t, netlab.PairConfig{}), gone: make(chan error, 2)}
	must(t, r.pair.A.Do(func() (err error) {
		r.device, err = Open(plan.Config{Address: r.pair.AddrA.Addr(), Datapath: datapath})
		return err
	}))
	t.Cleanup(func() { must(t, r.device.Close()) })
	r.watch()
	return r
}

func (r *rig) watch() {
	for _, port := range r.device.Ports() {
		rng := rand.New(rand.NewPCG(1, 1))
		r.engines = append(r.engines, provider.NewGroup(provider.Config{}, []provider.Link{port}, provider.NewMemory(rng), rng)[0])
	}
	r.device.Watch(func(cause error) { r.gone <- cause }, func(port int, f func(*provider.Engine)) {
		r.owner.Lock()
		defer r.owner.Unlock()
		f(r.engines[port])
	})
}

// inA runs f in the namespace of the device.
func (r *rig) inA(f func() error) {
	r.t.Helper()
	must(r.t, r.pair.A.Do(f))
}

// await waits until f returns true. It calls f with the engines locked.
func (r *rig) await(what string, f func() bool) {
	r.t.Helper()
	look := func() bool {
		r.owner.Lock()
		defer r.owner.Unlock()
		return f()
	}
	for deadline := time.Now().Add(patience); !look(); {
		if time.Now().After(deadline) {
			r.t.Fatalf("not within %v: %s", patience, what)
		}
		time.Sleep(time.Millisecond) // between polls
	}
}

// awaitNote waits until the flight recorder of the first engine has a change.
func (r *rig) awaitNote(c provider.InterfaceChange) {
	r.t.Helper()
	r.await("flight recorder: "+c.String(), func() bool {
		record := r.engines[0].FlightRecord()
		return slices.ContainsFunc(record.Events, func(v provider.FlightEvent) bool {
			return v.Kind == provider.FlightInterface && v.From == uint32(c)
		})
	})
}

// awaitGone waits until the adapter gets the cause of its end, exactly once.
func (r *rig) awaitGone(say string) {
	r.t.Helper()
	select {
	case cause := <-r.gone:
		if !strings.Contains(cause.Error(), say) || strings.Contains(cause.Error(), "\n") {
			r.t.Errorf("it ended with %q, want %q", cause, say)
		}
	case <-time.After(patience):
		r.t.Fatalf("not ended within %v: %s", patience, say)
	}
	r.awaitNote(provider.InterfaceEnded)
	must(r.t, r.device.Close())
	if len(r.gone) != 0 {
		r.t.Error("it ended twice")
	}
}

func (r *rig) queue() *queue { return r.device.(*xdpDevice).queues[0] }

// connect resolves a peer and makes a path to it.
func (r *rig) connect(peer netip.Addr) provider.Path {
	r.t.Helper()
	must(r.t, r.device.Resolve(r.t.Context(), peer))
	r.owner.Lock()
	defer r.owner.Unlock()
	p, err := r.queue().Connect(wire.EndpointFrom(netip.AddrPortFrom(r.pair.AddrA.Addr(), 50000)),
		wire.EndpointFrom(netip.AddrPortFrom(peer, wire.DefaultPort)))
	if err != nil {
		r.t.Fatalf("no path to %s, which was resolved", peer)
	}
	return p
}

// answer makes a path to a peer that connected to us, through a neighbour.
func (r *rig) answer(peer netip.Addr, mac [6]byte) provider.Path {
	r.t.Helper()
	r.owner.Lock()
	defer r.owner.Unlock()
	p, ok := r.queue().Reply(&provider.RxPacket{
		From: wire.EndpointFrom(netip.AddrPortFrom(peer, 50000)), To: wire.EndpointFrom(netip.AddrPortFrom(r.pair.AddrA.Addr(), wire.DefaultPort)), MAC: mac,
	}, 50001, wire.DefaultPort)
	if !ok {
		r.t.Fatalf("no path back to %s", peer)
	}
	return p
}

// awaitHop waits until the packets of a path go to this link-layer address.
func (r *rig) awaitHop(p provider.Path, want [6]byte) {
	r.t.Helper()
	r.await("path to "+net.HardwareAddr(want[:]).String(), func() bool {
		frame := make([]byte, 128)
		r.queue().paths[p].header.Put(frame, 22, wire.NotECT)
		return [6]byte(frame[:6]) == want
	})
}

func (r *rig) neighbour(at netip.Addr, mac [6]byte) {
	r.t.Helper()
	r.inA(func() error {
		return netlink.NeighSet(&netlink.Neigh{
			LinkIndex: r.pair.IfindexA, IP: net.IP(at.AsSlice()), HardwareAddr: mac[:], State: unix.NUD_PERMANENT,
		})
	})
}

// route changes the route to farAway.
func (r *rig) route(change func(*netlink.Route) error, via netip.Addr) {
	r.t.Helper()
	r.inA(func() error {
		_, dst, err := net.ParseCIDR("198.51.100.0/24")
		return errors.Join(err, change(&netlink.Route{LinkIndex: r.pair.IfindexA, Dst: dst, Gw: via.AsSlice()}))
	})
}

func device(index int) netlink.Link {
	return &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index}}
}

var (
	macX    = [6]byte{0x02, 0, 0, 0, 0xbe, 0xef}
	macY    = [6]byte{0x02, 0, 0, 0, 0xbe, 0xf0}
	farAway = netip.MustParseAddr("198.51.100.7")
	second  = netip.MustParseAddr("10.99.0.3")
)

// TestNeighbourMoves: if a peer gets another link-layer address, its resolution and every path to it follow.
func TestNeighbourMoves(t *testing.T) {
	t.Parallel()
	r := newRig(t, plan.Generic)
	peer := r.pair.AddrB.Addr()
	out, in := r.connect(peer), r.answer(peer, [6]byte(r.pair.MACB))
	r.neighbour(peer, macX)
	r.awaitHop(out, macX)
	r.awaitHop(in, macX)
	r.awaitNote(provider.InterfaceNeighbour)
	if mac, _ := r.device.(*xdpDevice).state.Cached(peer); mac != macX {
		t.Errorf("a new connection would go to %x", mac)
	}
}

// TestNeighbourOfCallerMoves: a peer behind a router connected to us. If the router gets another link-layer address, the answers
// follow.
func TestNeighbourOfCallerMoves(t *testing.T) {
	t.Parallel()
	r := newRig(t, plan.Generic)
	gateway := r.pair.AddrB.Addr()
	r.neighbour(gateway, macX)
	r.route(netlink.RouteAdd, gateway)
	p := r.answer(farAway, macX)
	r.neighbour(gateway, macY)
	r.awaitHop(p, macY)
}

// TestNeighbourIsCollected: the kernel removes a neighbour entry in use, because it does not see the packets. The adapter asks for
// it at once, and detects that the peer has another link-layer address meanwhile.
func TestNeighbourIsCollected(t *testing.T) {
	t.Parallel()
	r := newRig(t, plan.Generic)
	peer := r.pair.AddrB.Addr()
	p := r.connect(peer)
	must(t, r.pair.B.Do(func() error { return netlink.LinkSetHardwareAddr(device(r.pair.IfindexB), macX[:]) }))
	r.inA(func() error { return netlink.NeighDel(&netlink.Neigh{LinkIndex: r.pair.IfindexA, IP: peer.AsSlice()}) })
	r.awaitHop(p, macX)
	r.awaitNote(provider.InterfaceNeighbourLost)
}

// TestRouteChanges: if another router leads to a peer, connections in both directions follow. Without a route they keep the old
// router.
func TestRouteChanges(t *testing.T) {
	t.Parallel()
	r := newRig(t, plan.Generic)
	r.neighbour(r.pair.AddrB.Addr(), macX)
	r.neighbour(second, macY)
	r.route(netlink.RouteAdd, r.pair.AddrB.Addr())
	out, in := r.connect(farAway), r.answer(farAway.Next(), macX)
	r.route(netlink.RouteReplace, second)
	r.awaitHop(out, macY)
	r.awaitHop(in, macY)
	r.awaitNote(provider.InterfaceRoute)
	r.route(netlink.RouteDel, second)
	r.awaitNote(provider.InterfaceNoRoute)
	r.awaitHop(out, macY)
	if err := r.device.Resolve(t.Context(), farAway); !errors.Is(err, host.ErrNoRoute) {
		t.Errorf("a new connection: %v", err)
	}
	// The kernel has to resolve the link-layer address of this router first.
	r.route(netlink.RouteAdd, r.pair.AddrB.Addr())
	r.awaitHop(in, macX)
}

// TestOwnLinkAddressChanges: packets have the interface's present link-layer address as source, also on existing paths.
func TestOwnLinkAddressChanges(t *testing.T) {
	t.Parallel()
	r := newRig(t, plan.Generic)
	p := r.connect(r.pair.AddrB.Addr())
	r.inA(func() error { return netlink.LinkSetHardwareAddr(device(r.pair.IfindexA), macX[:]) })
	source := func(p provider.Path) [6]byte {
		frame := make([]byte, 128)
		r.queue().paths[p].header.Put(frame, 22, wire.NotECT)
		return [6]byte(frame[6:12])
	}
	r.await("source address of the path", func() bool { return source(p) == macX })
	r.awaitNote(provider.InterfaceMAC)
	p = r.answer(r.pair.AddrB.Addr(), [6]byte(r.pair.MACB))
	r.await("source address of a new path", func() bool { return source(p) == macX })
	if got := r.device.Info().MAC; got != macX {
		t.Errorf("the device has address %x", got)
	}
	// The kernel removed all neighbour entries. Entries in use are resolved again.
	r.await("neighbours in use are known again", func() bool {
		n, err := r.device.(*xdpDevice).resolver.Look(r.pair.AddrB.Addr())
		must(t, err)
		return n.Known && n.MAC == [6]byte(r.pair.MACB)
	})
}

// TestOwnAddressRemoved: an adapter whose address is removed ends and gives the reason. If the interface has the address twice, the
// adapter stays after one removal.
func TestOwnAddressRemoved(t *testing.T) {
	t.Parallel()
	for _, datapath := range []plan.Datapath{plan.Generic, plan.TCX, plan.UDP} {
		t.Run(datapath.String(), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, datapath)
			twice, err := netlink.ParseAddr("10.99.0.1/16")
			must(t, err)
			once, err := netlink.ParseAddr("10.99.0.1/24")
			must(t, err)
			r.inA(func() error {
				d := device(r.pair.IfindexA)
				return errors.Join(netlink.AddrAdd(d, twice), netlink.AddrDel(d, twice), netlink.LinkSetMTU(d, 1400))
			})
			r.awaitNote(provider.InterfaceMTU) // all earlier events were processed by then
			if len(r.gone) != 0 {
				t.Fatal("it ended with an address left")
			}
			r.inA(func() error { return netlink.AddrDel(device(r.pair.IfindexA), once) })
			r.awaitGone("address 10.99.0.1 was removed from interface nd0")
		})
	}
}

// TestInterfaceIsRemoved: the removal is reported once, and everything can still be closed.
func TestInterfaceIsRemoved(t *testing.T) {
	t.Parallel()
	for _, datapath := range []plan.Datapath{plan.Generic, plan.TCX, plan.UDP} {
		t.Run(datapath.String(), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, datapath)
			r.inA(func() error { return netlink.LinkDel(device(r.pair.IfindexA)) })
			select {
			case cause := <-r.gone: // the kernel may remove the address or the interface first
				if !strings.Contains(cause.Error(), "removed") {
					t.Errorf("it ended with %q", cause)
				}
			case <-time.After(patience):
				t.Error("the removal was not noticed")
			}
			must(t, r.device.Close())
			if len(r.gone) != 0 {
				t.Error("the removal was reported twice")
			}
		})
	}
}

// TestBridgePort: an interface that joins a bridge and leaves it again was not removed, although the bridge reports its port as
// removed.
func TestBridgePort(t *testing.T) {
	t.Parallel()
	r := newRig(t, plan.Generic)
	r.inA(func() error {
		nl, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		must(t, err)
		defer nl.Close()
		bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}
		d := device(r.pair.IfindexA)
		return errors.Join(nl.LinkAdd(bridge), nl.LinkSetMaster(d, bridge), nl.LinkSetNoMaster(d), nl.LinkSetMTU(d, 1400))
	})
	r.awaitNote(provider.InterfaceMaster)
	r.awaitNote(provider.InterfaceMTU)
	if len(r.gone) != 0 {
		t.Errorf("it ended: %v", <-r.gone)
	}
}

// TestInterfaceGoesDown: if the interface goes down and comes up again, nothing ends, the flight recorder has both events, and
// neighbours in use are resolved again.
func TestInterfaceGoesDown(t *testing.T) {
	t.Parallel()
	r := newRig(t, plan.Generic)
	peer := r.pair.AddrB.Addr()
	p := r.connect(peer)
	r.inA(func() error { return netlink.LinkSetDown(device(r.pair.IfindexA)) })
	r.awaitNote(provider.InterfaceDown)
	must(t, r.pair.B.Do(func() error { return netlink.LinkSetHardwareAddr(device(r.pair.IfindexB), macX[:]) }))
	r.inA(func() error { return netlink.LinkSetUp(device(r.pair.IfindexA)) })
	r.awaitNote(provider.InterfaceUp)
	r.awaitHop(p, macX)
	if len(r.gone) != 0 {
		t.Errorf("it ended: %v", <-r.gone)
	}
}

// setChannels does the same as ethtool -L.
func (r *rig) setChannels(index, rx, tx int) error {
	return r.pair.A.Do(func() error {
		const set, rxCount, txCount = 18, 6, 7
		header := nl.NewRtAttr(1|unix.NLA_F_NESTED, nil)  // ETHTOOL_A_CHANNELS_HEADER
		header.AddRtAttr(1, nl.Uint32Attr(uint32(index))) // ETHTOOL_A_HEADER_DEV_INDEX
		_, err := genetlink.Execute("ethtool", set, unix.NLM_F_ACK, header,
			nl.NewRtAttr(rxCount, nl.Uint32Attr(uint32(rx))), nl.NewRtAttr(txCount, nl.Uint32Attr(uint32(tx))))
		return err
	})
}

// TestQueuesChange: a new queue has no socket, so the adapter ends and gives the reason. The kernel refuses to remove a queue with
// a socket.
func TestQueuesChange(t *testing.T) {
	t.Parallel()
	r := &rig{t: t, pair: netlabtest.Pair(t, netlab.PairConfig{Queues: 4}), gone: make(chan error, 2)}
	must(t, r.setChannels(r.pair.IfindexA, 2, 3))
	r.inA(func() (err error) {
		r.device, err = Open(plan.Config{Address: r.pair.AddrA.Addr(), Datapath: plan.Generic})
		return err
	})
	t.Cleanup(func() { must(t, r.device.Close()) })
	r.watch()
	if n := len(r.device.Ports()); n != 2 {
		t.Fatalf("%d ports for 2 queues", n)
	}
	r.await("the queues are known", func() bool {
		s := r.device.(*xdpDevice).state
		return s.KnowsQueues()
	})
	if err := r.setChannels(r.pair.IfindexA, 1, 3); !errors.Is(err, unix.EINVAL) {
		t.Errorf("a queue with a socket was taken away: %v", err)
	}
	must(t, r.setChannels(r.pair.IfindexA, 2, 4))
	r.awaitNote(provider.InterfaceQueues)
	must(t, r.setChannels(r.pair.IfindexA, 3, 4))
	r.awaitGone("nd0 has 3 receive and 4 transmit queues now, and had 2 and 4")
}

// TestEventsAreLost: the kernel has more events than are read in time. Everything is read anew, and no old state remains.
func TestEventsAreLost(t *testing.T) {
	t.Parallel()
	r := newRig(t, plan.Generic)
	peer := r.pair.AddrB.Addr()
	p := r.connect(peer)
	must(t, r.device.(*xdpDevice).follower.Feed.SetBuffer(1)) // the minimum of the kernel
	r.owner.Lock()                                            // the goroutine that follows the interface waits for the engine
	r.inA(func() error {
		nl, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		must(t, err)
		defer nl.Close()
		must(t, nl.LinkSetMTU(device(r.pair.IfindexA), 1400))
		for i := range 500 {
			must(t, nl.NeighSet(&netlink.Neigh{
				LinkIndex: r.pair.IfindexA, IP: net.IPv4(10, 99, 1, byte(i)), HardwareAddr: []byte{2, 0, 0, 0, byte(i >> 8), byte(i)}, State: unix.NUD_PERMANENT,
			}))
		}
		must(t, nl.NeighSet(&netlink.Neigh{LinkIndex: r.pair.IfindexA, IP: peer.AsSlice(), HardwareAddr: macX[:], State: unix.NUD_PERMANENT}))
		return nil
	})
	r.owner.Unlock()
	r.awaitNote(provider.InterfaceResync)
	r.awaitHop(p, macX)
}

// TestMTUChanges: the link's packet size follows the interface's MTU, between the minimum of every path and the limit of the
// steering program and the buffers.
func TestMTUChanges(t *testing.T) {
	t.Parallel()
	for _, datapath := range []plan.Datapath{plan.Generic, plan.TCX, plan.UDP} {
		t.Run(datapath.String(), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, datapath)
			largest := plan.SingleBufferMTU - 28 // the limit of a single-buffer program
			switch datapath {
			case plan.UDP:
				largest = 1472 // the limit of the receive buffers
			case plan.TCX:
				largest = 8972 // longer packets arrive at the socket
			}
			link := r.device.Ports()[0]
			for _, c := range []struct{ mtu, want int }{{1400, 1372}, {9000, largest}, {1000, wire.MinPacket}, {1500, 1472}} {
				must(t, r.pair.SetMTU(c.mtu))
				r.await("packets for the MTU", func() bool { return link.MaxPacket() == c.want })
			}
			r.awaitNote(provider.InterfaceMTU)
		})
	}
}

package datapath

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/host"
	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/udp"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// TestSocketsBelongToAnInterface: the sockets that reserve the port and the sockets that send can be bound to a VRF. The test uses an
// ordinary interface in place of the VRF.
func TestSocketsBelongToAnInterface(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	must(t, pair.A.Do(func() error {
		network, err := udp.NewNetwork()
		must(t, err)
		defer network.Close()
		s, err := network.Open(udp.Config{Local: netip.AddrPortFrom(pair.AddrA.Addr(), 0), Device: pair.IfindexA})
		must(t, err)
		if index, err := unix.GetsockoptInt(s.FD(), unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX); index != pair.IfindexA || err != nil {
			t.Errorf("bound to interface %d (%v), want %d", index, err, pair.IfindexA)
		}
		must(t, s.Close())
		_, err = network.Open(udp.Config{Local: netip.AddrPortFrom(pair.AddrA.Addr(), 0), Device: -1})
		if !errors.Is(err, unix.EINVAL) || !strings.Contains(err.Error(), "bind to interface -1") {
			t.Errorf("bound to a name that is no interface: %v", err)
		}
		if index, err := host.BoundTo(pair.IfindexA); index != 0 || err != nil {
			t.Errorf("without a VRF, sockets are bound to interface %d (%v)", index, err)
		}
		return nil
	}))
}

// The sockets of adapters are bound as a broker requires for its rings: to no interface, or to the interface of a link-local
// address.
func TestBrokersTakeTheSocketsOfAdapters(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{Addr6A: netip.MustParsePrefix("fe80::a/64")})
	must(t, pair.A.Do(func() error {
		for _, addr := range []netip.Addr{pair.AddrA.Addr(), pair.Addr6A.Addr()} {
			opened, err := Open(plan.Config{Address: addr, Datapath: plan.UDP})
			must(t, err)
			d := opened.(*socketDevice)
			if err := belongs(d.in.FD(), d.kernel.Netlink, pair.IfindexA, addr); err != nil {
				t.Errorf("%s: %v", addr, err)
			}
			must(t, d.Close())
		}
		return nil
	}))
}

// addSecond adds another link between the namespaces of a pair, in the network of the first link: 10.99.0.11 on nd1 of A,
// 10.99.0.12 on q1 of B.
func addSecond(t *testing.T, pair *netlab.Pair) (near, far netip.Addr, farMAC [6]byte) {
	t.Helper()
	nl := func(at *netlab.Namespace, f func(nl *netlink.Handle) error) {
		must(t, at.Do(func() error {
			h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
			must(t, err)
			defer h.Close()
			return f(h)
		}))
	}
	set := func(name, addr string) func(*netlink.Handle) error {
		return func(h *netlink.Handle) error {
			l, err := h.LinkByName(name)
			must(t, err)
			a, err := netlink.ParseAddr(addr)
			must(t, err)
			if name == "q1" {
				farMAC = [6]byte(l.Attrs().HardwareAddr)
			}
			return errors.Join(h.AddrAdd(l, a), h.LinkSetUp(l))
		}
	}
	nl(pair.A, func(h *netlink.Handle) error {
		veth := netlink.NewVeth(netlink.LinkAttrs{Name: "nd1", MTU: 1500, TxQLen: -1})
		veth.PeerName, veth.PeerNamespace = "q1", netlink.NsFd(pair.B.FD())
		return h.LinkAdd(veth)
	})
	nl(pair.B, set("q1", "10.99.0.12/24"))
	nl(pair.A, set("nd1", "10.99.0.11/24"))
	return netip.MustParseAddr("10.99.0.11"), netip.MustParseAddr("10.99.0.12"), farMAC
}

// TestTwoInterfacesInOneNetwork: the kernel's routes use the first interface for every peer, and an adapter on the second one uses
// its own.
func TestTwoInterfacesInOneNetwork(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	near, far, farMAC := addSecond(t, pair)
	for _, datapath := range []plan.Datapath{plan.Generic, plan.TCX, plan.UDP} {
		var d Device
		must(t, pair.A.Do(func() (err error) {
			d, err = Open(plan.Config{Address: near, Datapath: datapath})
			return err
		}))
		must(t, d.Resolve(t.Context(), far))
		local := wire.EndpointFrom(netip.AddrPortFrom(near, 50000))
		d.Watch(func(error) {}, func(int, func(*provider.Engine)) {})
		if u, plain := d.(*socketDevice); plain { // plain sockets know the machine's addresses once they have a path
			if to := u.addrOf(netip.AddrPortFrom(pair.AddrA.Addr(), wire.DefaultPort)); u.addrOf(netip.AddrPortFrom(far, wire.DefaultPort)) == to || to != udp.AddrOf(netip.AddrPortFrom(pair.AddrA.Addr(), wire.DefaultPort), 0) {
				t.Errorf("to an own address %+v", to)
			}
		}
		p, err := d.Ports()[0].Connect(local, wire.EndpointFrom(netip.AddrPortFrom(far, wire.DefaultPort)))
		if mac := d.Ports()[0].Hop(p); err != nil || datapath != plan.UDP && mac != farMAC {
			t.Errorf("%s: packets go to %x, want %x", datapath, mac, farMAC)
		}
		// The address of the other interface is local, although it lies in the network as well.
		must(t, d.Resolve(t.Context(), pair.AddrA.Addr()))
		if x, ok := d.(*xdpDevice); ok && (!x.state.IsHere(pair.AddrA.Addr()) || x.state.IsHere(far)) {
			t.Errorf("%s: which address is an own one is not known", datapath)
		}
		if err := d.Resolve(t.Context(), netip.MustParseAddr("192.0.2.1")); !errors.Is(err, host.ErrNoRoute) {
			t.Errorf("%s: without a route: %v", datapath, err)
		}
		must(t, d.Close())
	}
}

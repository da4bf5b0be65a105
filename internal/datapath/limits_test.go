package datapath

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/host"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// The MTU of a route, locked or not, limits the packets of its paths: at once after Connect, and in accepted connections after the
// next look-up of the route. A route without an MTU sets no limit. Packet sizes follow changes of the route.
func TestRouteWithAnMTU(t *testing.T) {
	t.Parallel()
	for _, datapath := range []plan.Datapath{plan.Generic, plan.UDP} {
		t.Run(datapath.String(), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, datapath)
			port := r.device.Ports()[0]
			route := func(mtu int, lock bool) {
				r.route(func(to *netlink.Route) error {
					to.MTU, to.MTULock = mtu, lock
					return netlink.RouteReplace(to)
				}, r.pair.AddrB.Addr())
			}
			limit := func(p provider.Path) (int, bool) { return port.(provider.Limited).Limit(p) }
			to := func(peer netip.Addr) (p provider.Path) {
				must(t, r.device.Resolve(t.Context(), peer))
				r.owner.Lock()
				defer r.owner.Unlock()
				p, err := port.Connect(wire.EndpointFrom(netip.AddrPortFrom(r.pair.AddrA.Addr(), 50000)), wire.EndpointFrom(netip.AddrPortFrom(peer, wire.DefaultPort)))
				must(t, err)
				return p
			}
			route(1400, true)
			out := to(farAway)
			if size, known := limit(out); size != 1400-28 || !known {
				t.Errorf("a route of 1400: %d, %t", size, known)
			}
			r.owner.Lock()
			in, _ := port.Reply(&provider.RxPacket{
				From: wire.EndpointFrom(netip.AddrPortFrom(farAway.Next(), 50000)), To: wire.EndpointFrom(netip.AddrPortFrom(r.pair.AddrA.Addr(), wire.DefaultPort)),
				MAC: [6]byte(r.pair.MACB),
			}, 50001, wire.DefaultPort)
			r.owner.Unlock()
			r.await("limit of a peer that called", func() bool {
				size, known := limit(in)
				return size == 1400-28 && known
			})
			if size, known := limit(to(r.pair.AddrB.Addr())); size != 0 || !known {
				t.Errorf("a route without an MTU: %d, %t", size, known)
			}
			if datapath == plan.Generic {
				route(1300, false)
				r.await("limits of a route that was changed", func() bool {
					size, _ := limit(out)
					other, _ := limit(in)
					return size == 1300-28 && other == size
				})
			}
			route(1000, true)
			if err := r.device.Resolve(t.Context(), netip.MustParseAddr("198.51.100.99")); !errors.Is(err, host.ErrNoRoute) || !strings.Contains(err.Error(), "an MTU of 1000, and every packet needs one of 1228") {
				t.Errorf("a route that is too small: %v", err)
			}
		})
	}
}

// A path MTU that the kernel learned from ICMP errors does not limit packets, because anyone can send these errors.
func TestLearnedMTUIsNoLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t, plan.UDP)
	peer := r.pair.AddrB.Addr()
	r.inA(func() error {
		c, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(r.pair.AddrA.Addr(), 40000)), net.UDPAddrFromAddrPort(netip.AddrPortFrom(peer, 40001)))
		if err != nil {
			return err
		}
		t.Cleanup(func() { must(t, c.Close()) })
		return nil
	})
	must(t, r.pair.B.Do(func() error { return sayTooBig(peer, r.pair.AddrA.Addr(), 600) }))
	resolver := &r.device.(*socketDevice).resolver
	r.await("the kernel has learned", func() bool {
		way, err := resolver.Route(peer)
		must(t, err)
		if way.MTU != 600 {
			return false
		}
		if n := resolver.MTUOf(way, peer); n != 0 {
			t.Errorf("an MTU of %d", n)
		}
		return true
	})
}

// sayTooBig sends an ICMP error "packet too big" with an MTU, about a datagram from port 40000 of to to port 40001 of from.
func sayTooBig(from, to netip.Addr, mtu uint16) error {
	b := []byte{3, 4, 0, 0, 0, 0, byte(mtu >> 8), byte(mtu), 0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, unix.IPPROTO_UDP, 0, 0}
	b = append(append(b, to.AsSlice()...), from.AsSlice()...)
	b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, 40000), 40001)
	b = append(b, 0, 8, 0, 0)
	binary.BigEndian.PutUint16(b[2:], ^uint16(wire.PartialSum(0, b)))
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
	if err != nil {
		return err
	}
	return errors.Join(unix.Sendto(fd, b, 0, &unix.SockaddrInet4{Addr: to.As4()}), unix.Close(fd))
}

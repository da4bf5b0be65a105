package host

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// routeRefusals are the errors with which the kernel refuses to look up a route, and the routes and rules (ip-route(8), ip-rule(8)) that
// cause them.
var routeRefusals = []struct {
	err error
	why string
}{
	{unix.ENETUNREACH, "no route matches, or a throw route or an unreachable rule does: is the interface up, and does ip route list a way"},
	{unix.EHOSTUNREACH, "a route of the type unreachable matches"},
	{unix.EACCES, "a route or a rule of the type prohibit matches"},
	{unix.EINVAL, "a route or a rule of the type blackhole matches"},
}

// routeRefusal returns the reason why the kernel has no route to an address. It is empty for all other errors.
func routeRefusal(err error) string {
	for _, r := range routeRefusals {
		if errors.Is(err, r.err) {
			return r.why
		}
	}
	return ""
}

// Route asks the routing table for the route to one host over our interface, or to an address of this machine.
func (t *Resolver) Route(dst netip.Addr) (*netlink.Route, error) {
	by := " over the interface of that address"
	if t.Anywhere {
		by = ""
	}
	r, err := t.routeBy(dst, t.interfaceOf())
	if err != nil || r.Type == unix.RTN_UNICAST {
		if own, failed := t.routeBy(dst, t.VRF); failed == nil && own.Type == unix.RTN_LOCAL {
			r, err = own, nil
		}
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w to %s from %s%s: %s: see ip route get", ErrNoRoute, dst, t.local, by, t.whyNoRoute(dst, err))
	case r.Type == unix.RTN_BROADCAST || r.Type == unix.RTN_MULTICAST:
		return nil, fmt.Errorf("%s is %w on the network of %s", dst, ErrNotOneHost, t.local)
	case r.Type != unix.RTN_LOCAL && r.LinkIndex != t.index && !t.Anywhere:
		return nil, fmt.Errorf("%w to %s over the interface of %s: the kernel would use %s", ErrNoRoute, dst, t.local, t.nameOf(r.LinkIndex))
	case r.Type == unix.RTN_UNICAST && dst.Is4() && r.Table == unix.RT_TABLE_UNSPEC:
		// If an interface is named and no route matches, the kernel takes every IPv4 address for a neighbour.
		return nil, fmt.Errorf("%w to %s from %s%s: %s: see ip route get", ErrNoRoute, dst, t.local, by, t.whyNoRoute(dst, unix.ENETUNREACH))
	}
	return r, nil
}

// whyNoRoute returns the reason why there is no route over our interface, for which the kernel returned err. The kernel's answer without
// an interface is more specific: with an interface it reports all routeRefusals as a missing route.
func (t *Resolver) whyNoRoute(dst netip.Addr, err error) string {
	switch r, refused := t.routeBy(dst, t.VRF); {
	case refused != nil:
		err = refused
	case r.LinkIndex != t.index:
		return "the kernel would use " + t.nameOf(r.LinkIndex)
	}
	if why := routeRefusal(err); why != "" {
		return why
	}
	return err.Error()
}

// nameOf returns the name of an interface for errors.
func (t *Resolver) nameOf(index int) string {
	if link, err := t.Kernel.Netlink.LinkByIndex(index); err == nil {
		return "interface " + link.Attrs().Name
	}
	return fmt.Sprintf("another interface (index %d)", index)
}

// interfaceOf returns the index of the interface with which routes are looked up. Without an interface the kernel may prefer another
// interface in the same network. With the VRF, the kernel knows the addresses of all interfaces in the VRF.
func (t *Resolver) interfaceOf() int {
	if t.Anywhere {
		return t.VRF
	}
	return t.index
}

// routeBy looks up the route over an interface, or over any interface for 0.
func (t *Resolver) routeBy(dst netip.Addr, index int) (*netlink.Route, error) {
	return t.routeWith(dst, &netlink.RouteGetOptions{OifIndex: index})
}

// routeWith looks up the route from the adapter's address.
func (t *Resolver) routeWith(dst netip.Addr, how *netlink.RouteGetOptions) (*netlink.Route, error) {
	how.SrcAddr = net.IP(t.local.Unmap().AsSlice())
	routes, err := t.Kernel.Netlink.RouteGetWithOptions(net.IP(dst.AsSlice()), how)
	if err == nil && len(routes) == 0 {
		err = unix.ENETUNREACH
	}
	if err != nil {
		return nil, err
	}
	return &routes[0], nil
}

// MTUOf returns the MTU that an administrator gave the route to a host, or 0 for none. The answer of a route look-up also has what the
// kernel learned from ICMP errors, which anyone can send. The entry in the routing table does not.
func (t *Resolver) MTUOf(r *netlink.Route, dst netip.Addr) int {
	if r.MTU == 0 || r.Type != unix.RTN_UNICAST {
		return 0
	}
	set, err := t.routeWith(dst, &netlink.RouteGetOptions{OifIndex: t.interfaceOf(), FIBMatch: true})
	if err != nil {
		return 0
	}
	return set.MTU
}

// LoopbackUp returns an error if a route leads to an address of this machine and the interface for its packets is down. The kernel drops
// the packets silently. The interface is the loopback interface, or the device of a VRF.
func (t *Resolver) LoopbackUp(r *netlink.Route, dst netip.Addr) error {
	if r.Type != unix.RTN_LOCAL {
		return nil
	}
	link, err := t.Kernel.Netlink.LinkByIndex(r.LinkIndex)
	if err != nil || link.Attrs().RawFlags&unix.IFF_UP != 0 {
		return nil //nolint:nilerr // nothing speaks against it
	}
	return fmt.Errorf("%w to %s: it is an address of this machine, packets to it go over interface %s, and that is down: set it up (ip link set %[3]s up)",
		ErrNoRoute, dst, link.Attrs().Name)
}

// HopTo returns the neighbour that packets to a peer are sent to.
func (t *Resolver) HopTo(peer netip.Addr) (netip.Addr, error) {
	r, err := t.Route(peer)
	if err != nil {
		return netip.Addr{}, err
	}
	if r.Type == unix.RTN_LOCAL {
		return netip.Addr{}, fmt.Errorf("%w to %s: it is an own address", ErrNoRoute, peer)
	}
	return HopOf(r, peer), nil
}

// HopOf returns the neighbour that packets of a route are sent to. It is the gateway, which may be of another family than the destination
// (RFC 5549), or the destination itself.
func HopOf(r *netlink.Route, dst netip.Addr) netip.Addr {
	if gw, ok := netip.AddrFromSlice(r.Gw); ok {
		return gw.Unmap()
	}
	if via, ok := r.Via.(*netlink.Via); ok {
		if gw, ok := netip.AddrFromSlice(via.Addr); ok {
			return gw.Unmap()
		}
	}
	return dst
}

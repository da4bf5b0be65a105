package datapath

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// The bounds of neighbour resolution (ND specification 7.4: an unresolved neighbour is unreachable after 3 s).
const (
	resolveTimeout = 3 * time.Second
	resolveFirst   = time.Millisecond
	resolveMax     = 50 * time.Millisecond
	// resolvedFor is how long an answer stands. The kernel takes 50 to 100 µs for it, which limited a host that opens many
	// connections to one peer; within a second it would mostly say the same, and if not, the handshake gets no answer.
	resolvedFor = time.Second
)

// ErrNoRoute and ErrNoNeighbour are the two ways in which a peer cannot be reached; ErrNotOneHost says that the address
// can be no peer.
var (
	ErrNoRoute     = errors.New("no route")
	ErrNoNeighbour = errors.New("no answer to neighbour resolution")
	ErrNotOneHost  = errors.New("a broadcast or multicast address")
)

// neighbours asks the kernel for the ways from an address on an interface. What it says is kept in a netState.
type neighbours struct {
	nl    *netlink.Handle
	table *neighbourTable
	index int
	vrf   int // index of the VRF that the interface belongs to or is, 0 for none
	local netip.Addr
	now   clock.Source
	// anywhere lets routes lead over any interface, of the VRF if there is one.
	anywhere bool
}

// newNeighbours asks with a handle for the ways from an address on an interface of the calling thread's network namespace.
func newNeighbours(nl *netlink.Handle, index int, local netip.Addr) (neighbours, error) {
	links, err := Links(nl)
	if err != nil {
		return neighbours{}, err
	}
	table, err := openNeighbourTable()
	if err != nil {
		return neighbours{}, err
	}
	return neighbours{nl: nl, table: table, index: index, vrf: vrfOf(links, index), local: local, now: clock.Machine}, nil
}

// Resolve finds the way to dst: the route's next hop on our interface, and its link-layer address, which the kernel is
// asked to find out when it does not know. It blocks until that is done, ctx ends, or resolveTimeout has passed. What was
// resolved within resolvedFor is not asked for again.
func (d *Datapath) Resolve(ctx context.Context, dst netip.Addr) error {
	t := &d.neighbors
	dst = dst.Unmap()
	if d.state.fresh(dst, t.now()) {
		return nil
	}
	r, err := t.route(dst)
	if err != nil {
		return err
	}
	if r.Type == unix.RTN_LOCAL {
		if d.local == nil {
			return fmt.Errorf("%w to %s with a lease: packets to an address of this machine never come to the interface %s, and the broker "+
				"has the UDP port that they come to; the datapath udp reaches it", ErrNoRoute, dst, d.info.Interface)
		}
		d.state.foundHere(dst, t.now())
		return nil
	}
	hop := hopOf(r, dst)
	mac, err := t.resolve(ctx, hop, d.info.Interface, func() { d.refresh(hop, dst) })
	if err != nil {
		return err
	}
	d.watch.tell(d.state.found(dst, hop, mac, t.now()))
	return nil
}

// resolve waits until the kernel knows the link-layer address of hop. It asks for it, and again when the kernel has given up: that may be for a
// question from before the neighbour came.
func (t *neighbours) resolve(ctx context.Context, hop netip.Addr, name string, ask func()) (mac [6]byte, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, resolveTimeout, ErrNoNeighbour)
	defer cancel()
	for pause := resolveFirst; ; pause = min(2*pause, resolveMax) {
		n, err := t.look(hop)
		if n.known || err != nil {
			return n.mac, err
		}
		if n.state&unix.NUD_INCOMPLETE == 0 { // the kernel is not asking
			ask()
		}
		select {
		case <-ctx.Done():
			if cause := context.Cause(ctx); errors.Is(cause, ErrNoNeighbour) {
				return mac, fmt.Errorf("resolve %s on %s: %w within %v: %s", hop, name, cause, resolveTimeout, t.whySilent(name))
			}
			return mac, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// whySilent says what to look at when a neighbour does not answer. What arrives on a port of a bridge or a bond, answers among it, is the
// bridge's or the bond's.
func (t *neighbours) whySilent(name string) string {
	port, err := t.nl.LinkByIndex(t.index)
	if err == nil && port.Attrs().MasterIndex != t.vrf {
		if master, err := t.nl.LinkByIndex(port.Attrs().MasterIndex); err == nil {
			return fmt.Sprintf("answers go to %s, which %s is a port of: use an address of %[1]s", master.Attrs().Name, name)
		}
	}
	return "is the peer up, and on the same network?"
}

// route asks the routing table for the way to one host over our interface, or to an address of this machine.
func (t *neighbours) route(dst netip.Addr) (*netlink.Route, error) {
	// Without an interface named, the kernel may prefer another one in the same network. With the VRF named, it knows the addresses of
	// all interfaces in that.
	over, by := t.index, " over the interface of that address"
	if t.anywhere {
		over, by = t.vrf, ""
	}
	r, err := t.routeBy(dst, over)
	if err != nil || r.Type == unix.RTN_UNICAST {
		if own, failed := t.routeBy(dst, t.vrf); failed == nil && own.Type == unix.RTN_LOCAL {
			r, err = own, nil
		}
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w to %s from %s%s (%v): see ip route get", ErrNoRoute, dst, t.local, by, err)
	case r.Type == unix.RTN_BROADCAST || r.Type == unix.RTN_MULTICAST:
		return nil, fmt.Errorf("%s is %w on the network of %s", dst, ErrNotOneHost, t.local)
	case r.Type != unix.RTN_LOCAL && r.LinkIndex != t.index && !t.anywhere:
		return nil, fmt.Errorf("%w to %s over the interface of %s: the kernel would use another one (index %d)",
			ErrNoRoute, dst, t.local, r.LinkIndex)
	case r.Type == unix.RTN_UNICAST && dst.Is4() && r.Table == unix.RT_TABLE_UNSPEC:
		// When an interface is named and no route matches, the kernel takes every IPv4 address for a neighbour.
		return nil, fmt.Errorf("%w to %s from %s%s: see ip route get", ErrNoRoute, dst, t.local, by)
	}
	return r, nil
}

// routeBy asks for the way over an interface, any one for 0.
func (t *neighbours) routeBy(dst netip.Addr, index int) (*netlink.Route, error) {
	routes, err := t.nl.RouteGetWithOptions(net.IP(dst.AsSlice()), &netlink.RouteGetOptions{
		SrcAddr: net.IP(t.local.Unmap().AsSlice()), OifIndex: index,
	})
	if err == nil && len(routes) == 0 {
		err = unix.ENETUNREACH
	}
	if err != nil {
		return nil, err
	}
	return &routes[0], nil
}

// hopTo is the neighbour that packets to a peer are sent to.
func (t *neighbours) hopTo(peer netip.Addr) (netip.Addr, error) {
	r, err := t.route(peer)
	if err != nil {
		return netip.Addr{}, err
	}
	if r.Type == unix.RTN_LOCAL {
		return netip.Addr{}, fmt.Errorf("%w to %s: it is an own address", ErrNoRoute, peer)
	}
	return hopOf(r, peer), nil
}

// hopOf is whom the packets of a route are handed to.
func hopOf(r *netlink.Route, dst netip.Addr) netip.Addr {
	if gw, ok := netip.AddrFromSlice(r.Gw); ok {
		return gw.Unmap()
	}
	return dst
}

// look reads what the kernel knows of a neighbour.
func (t *neighbours) look(hop netip.Addr) (neighbour, error) { return t.table.look(t.index, hop) }

// ask makes the kernel resolve hop as if it had a packet for it. A refusal shows as a neighbour that does not appear.
func (t *neighbours) ask(hop netip.Addr) { _ = t.table.use(t.index, hop) }

// close ends all asking.
func (t *neighbours) close() error {
	if t.table == nil {
		return nil
	}
	return t.table.close()
}

package datapath

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
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

// neighbours knows the link-layer address behind every peer that was resolved.
type neighbours struct {
	nl    *netlink.Handle
	index int
	local netip.Addr

	now   clock.Source
	mu    sync.Mutex
	known map[netip.Addr]neighbour // by destination
}

// neighbour is the next hop towards a destination: the destination itself, or a router.
type neighbour struct {
	hop netip.Addr
	mac [6]byte
	at  clock.Time // when it was resolved
}

func (t *neighbours) cached(dst netip.Addr) ([6]byte, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, ok := t.known[dst.Unmap()]
	return n.mac, ok
}

// fresh says whether dst was resolved a moment ago.
func (t *neighbours) fresh(dst netip.Addr) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, ok := t.known[dst]
	return ok && t.now().Sub(n.at) < resolvedFor
}

// keep notes the way to dst.
func (t *neighbours) keep(dst, hop netip.Addr, mac [6]byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil {
		t.known = map[netip.Addr]neighbour{}
	}
	t.known[dst] = neighbour{hop, mac, t.now()}
}

// Resolve finds the way to dst: the route's next hop on our interface, and its link-layer address, which the kernel is
// asked to find out when it does not know. It blocks until that is done, ctx ends, or resolveTimeout has passed. What was
// resolved within resolvedFor is not asked for again.
func (d *Datapath) Resolve(ctx context.Context, dst netip.Addr) error {
	t := &d.neighbors
	dst = dst.Unmap()
	if t.fresh(dst) {
		return nil
	}
	r, err := t.route(dst)
	if err != nil {
		return err
	}
	if r.Type == unix.RTN_LOCAL {
		return fmt.Errorf("%w to %s for AF_XDP: packets to an own address never come to the interface %s; the datapath udp reaches it",
			ErrNoRoute, dst, d.info.Interface)
	}
	if r.LinkIndex != t.index {
		return fmt.Errorf("%w to %s over the interface of %s: the kernel would use another one (index %d)",
			ErrNoRoute, dst, t.local, r.LinkIndex)
	}
	hop := hopOf(r, dst)
	ask := t.ask
	if d.lease != nil {
		ask = func(netip.Addr) { d.knock(dst) }
	}
	mac, err := t.resolve(ctx, hop, d.info.Interface, ask)
	if err != nil {
		return err
	}
	t.keep(dst, hop, mac)
	return nil
}

// resolve waits until the kernel knows the link-layer address of hop, and asks for it once.
func (t *neighbours) resolve(ctx context.Context, hop netip.Addr, name string, ask func(netip.Addr)) (mac [6]byte, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, resolveTimeout, ErrNoNeighbour)
	defer cancel()
	for pause, asked := resolveFirst, false; ; pause = min(2*pause, resolveMax) {
		mac, err := t.lookup(hop)
		if !errors.Is(err, ErrNoNeighbour) {
			return mac, err
		}
		if !asked {
			asked = true
			ask(hop)
		}
		select {
		case <-ctx.Done():
			if cause := context.Cause(ctx); errors.Is(cause, ErrNoNeighbour) {
				return mac, fmt.Errorf("resolve %s on %s: %w within %v: is the peer up, and on the same network?",
					hop, name, cause, resolveTimeout)
			}
			return mac, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// route asks the routing table for the way to one host.
func (t *neighbours) route(dst netip.Addr) (*netlink.Route, error) {
	routes, err := t.nl.RouteGetWithOptions(net.IP(dst.AsSlice()), &netlink.RouteGetOptions{SrcAddr: net.IP(t.local.Unmap().AsSlice())})
	if err != nil || len(routes) == 0 {
		return nil, fmt.Errorf("%w to %s from %s (%v): see ip route get", ErrNoRoute, dst, t.local, err)
	}
	if r := &routes[0]; r.Type != unix.RTN_BROADCAST && r.Type != unix.RTN_MULTICAST {
		return r, nil
	}
	return nil, fmt.Errorf("%s is %w on the network of %s", dst, ErrNotOneHost, t.local)
}

// hopOf is whom the packets of a route are handed to.
func hopOf(r *netlink.Route, dst netip.Addr) netip.Addr {
	if gw, ok := netip.AddrFromSlice(r.Gw); ok {
		return gw.Unmap()
	}
	return dst
}

// usable are the states in which the kernel itself would send to the address.
const usable = unix.NUD_REACHABLE | unix.NUD_STALE | unix.NUD_DELAY | unix.NUD_PROBE | unix.NUD_PERMANENT | unix.NUD_NOARP

func (t *neighbours) lookup(hop netip.Addr) (mac [6]byte, err error) {
	family := netlink.FAMILY_V4
	if hop.Is6() {
		family = netlink.FAMILY_V6
	}
	list, err := t.nl.NeighList(t.index, family)
	if err != nil {
		return mac, fmt.Errorf("read the neighbour table: %w", err)
	}
	for i := range list {
		ip, ok := netip.AddrFromSlice(list[i].IP)
		if ok && ip.Unmap() == hop && list[i].State&usable != 0 && len(list[i].HardwareAddr) == len(mac) {
			copy(mac[:], list[i].HardwareAddr)
			return mac, nil
		}
	}
	return mac, ErrNoNeighbour
}

// ask makes the kernel resolve hop as if it had a packet for it. A refusal shows as a neighbour that does not appear.
func (t *neighbours) ask(hop netip.Addr) {
	_ = t.nl.NeighSet(&netlink.Neigh{
		LinkIndex: t.index, IP: net.IP(hop.AsSlice()), State: unix.NUD_NONE, Flags: unix.NTF_USE,
	})
}

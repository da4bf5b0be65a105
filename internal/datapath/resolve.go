package datapath

import (
	"context"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/host"
)

// Resolve finds the next hop to dst: the route's next hop on the adapter's interface, and its link-layer address. The kernel is asked to
// resolve an unknown address. Resolve blocks until the address is known, ctx ends, or resolveTimeout has passed. Answers younger than
// resolvedFor are reused.
func (d *xdpDevice) Resolve(ctx context.Context, dst netip.Addr) error {
	t := &d.resolver
	dst = dst.Unmap()
	if d.state.Fresh(dst, t.Now()) {
		return nil
	}
	r, err := t.Route(dst)
	if err != nil {
		return err
	}
	if r.Type == unix.RTN_LOCAL {
		if d.local == nil {
			return fmt.Errorf("%w to %s with a lease of a broker: it is an address of this machine, so packets to it do not pass the interface %s, and "+
				"the broker holds the UDP port where they arrive: use the datapath udp", host.ErrNoRoute, dst, d.info.Interface)
		}
		if err := t.LoopbackUp(r, dst); err != nil {
			return err
		}
		d.state.FoundHere(dst, t.Now())
		return nil
	}
	if r.Encap != nil {
		return fmt.Errorf("%w to %s over AF_XDP: the route encapsulates packets (%s), which only the kernel does: use the datapath udp",
			host.ErrNoRoute, dst, r.Encap)
	}
	mtu := t.MTUOf(r, dst)
	if err := carries(mtu, dst); err != nil {
		return err
	}
	d.state.RouteMTUIs(dst, mtu, t.Now())
	hop := host.HopOf(r, dst)
	mac, err := t.Resolve(ctx, hop, d.info.Interface, func() { d.Refresh(hop, dst) })
	if err != nil {
		return err
	}
	d.follower.Tell(d.state.Found(dst, hop, mac, t.Now()))
	return nil
}

package datapath

import (
	"context"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/host"
)

// Resolve resolves the way to dst: the route's next hop on the adapter's interface, and its link-layer address, which the kernel is asked
// to resolve if it is unknown. It blocks until that is done, ctx ends, or resolveTimeout has passed. Answers younger than resolvedFor are
// reused.
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
			return fmt.Errorf("%w to %s with a lease: packets to an address of this machine never come to the interface %s, and the broker "+
				"has the UDP port that they come to; the datapath udp reaches it", host.ErrNoRoute, dst, d.info.Interface)
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

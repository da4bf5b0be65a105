package host

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Addresses lists the addresses of the network namespace in which it was opened, and reports when they change. All methods may be called
// from any goroutine.
type Addresses struct {
	nl     *netlink.Handle   // nil if a sandbox refuses netlink
	events *nl.NetlinkSocket // nil if a sandbox refuses subscriptions: then changes are not reported
	ended  sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{} // closed at the next change; guarded by mu
	broken  error         // why no changes will be reported; guarded by mu

	asking sync.RWMutex // held for reading during queries to nl
	closed bool         // guarded by asking
}

// OpenAddresses opens an Addresses in the calling thread's network namespace.
func OpenAddresses() (*Addresses, error) {
	handle, err := OpenNetlink()
	if err != nil {
		return nil, err
	}
	a := &Addresses{nl: handle, changed: make(chan struct{})}
	if handle == nil {
		return a, nil
	}
	// It also needs events of interfaces, because addresses of an interface that is down are not listed.
	a.events, err = nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR)
	switch {
	case NotOffered(err):
		a.events = nil
		return a, nil
	case err != nil:
		handle.Close()
		return nil, fmt.Errorf("subscribe to address changes: %w", err)
	}
	a.ended.Go(a.listen)
	return a, nil
}

// listen announces changes until the socket is closed.
func (a *Addresses) listen() {
	for {
		_, _, err := a.events.Receive()
		switch {
		case err == nil, errors.Is(err, unix.EINTR), errors.Is(err, unix.ENOBUFS): // a loss of events counts as a change
			a.announce(nil)
		default:
			a.announce(fmt.Errorf("changes of addresses cannot be followed any more: %w", err))
			return
		}
	}
}

func (a *Addresses) announce(broken error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.broken = broken
	close(a.changed)
	a.changed = make(chan struct{})
}

// Changed returns a channel that is closed when an address or interface changes after this call.
func (a *Addresses) Changed() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.changed
}

// List returns the addresses that an adapter can be opened on, sorted, with addresses of loopback interfaces last: unicast addresses of
// interfaces that are up. IPv6 link-local addresses are not listed, because they mean nothing without an interface.
func (a *Addresses) List() ([]netip.Addr, error) {
	a.asking.RLock()
	defer a.asking.RUnlock()
	if a.closed {
		return nil, fmt.Errorf("list addresses: %w", net.ErrClosed)
	}
	a.mu.Lock()
	err := a.broken
	a.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if a.nl == nil {
		return listUnseen()
	}
	links, err := Links(a.nl)
	if err != nil {
		return nil, err
	}
	loopback := map[int]bool{} // interfaces that are up, by index
	for _, l := range links {
		if flags := l.Attrs().Flags; flags&net.FlagUp != 0 {
			loopback[l.Attrs().Index] = flags&net.FlagLoopback != 0
		}
	}
	all, err := AllAddresses(a.nl)
	if err != nil {
		return nil, err
	}
	var near, far []netip.Addr
	for i := range all {
		ip, ok := netip.AddrFromSlice(all[i].IP)
		ip = ip.Unmap()
		lo, up := loopback[all[i].LinkIndex]
		switch {
		case !ok || !up || ip.IsUnspecified() || ip.IsMulticast() || ip.IsLinkLocalUnicast() && ip.Is6():
		case lo:
			near = append(near, ip)
		default:
			far = append(far, ip)
		}
	}
	return nearLast(far, near), nil
}

// nearLast joins two lists after sorting each.
func nearLast(far, near []netip.Addr) []netip.Addr {
	slices.SortFunc(near, netip.Addr.Compare)
	slices.SortFunc(far, netip.Addr.Compare)
	return slices.Compact(append(far, near...))
}

// linkOf returns the index of the interface that a zone names, by its name or index.
func (a *Addresses) linkOf(zone string) (int, error) {
	if link, err := a.nl.LinkByName(zone); err == nil {
		return link.Attrs().Index, nil
	}
	index, err := strconv.Atoi(zone)
	if err == nil {
		_, err = a.nl.LinkByIndex(index)
	}
	return index, err
}

// Source returns the local address from which the kernel would send to remote. Link-local addresses have zones. The error is ErrNoRoute
// if there is no route.
func (a *Addresses) Source(remote netip.Addr) (netip.Addr, error) {
	a.asking.RLock()
	defer a.asking.RUnlock()
	if a.closed {
		return netip.Addr{}, fmt.Errorf("ask for the route to %s: %w", remote, net.ErrClosed)
	}
	if a.nl == nil {
		return sourceUnseen(remote)
	}
	var by netlink.RouteGetOptions
	if zone := remote.Zone(); zone != "" {
		link, err := a.linkOf(zone)
		if err != nil {
			return netip.Addr{}, fmt.Errorf("%w to %s: no interface is called %s: see ip link", ErrNoRoute, remote, zone)
		}
		by.OifIndex = link
	}
	routes, err := a.nl.RouteGetWithOptions(remote.Unmap().AsSlice(), &by)
	if err == nil && len(routes) == 0 {
		err = unix.ENETUNREACH
	}
	if why := routeRefusal(err); why != "" {
		return netip.Addr{}, fmt.Errorf("%w to %s: %s (ip link, ip rule, ip route get %[2]s)", ErrNoRoute, remote, why)
	}
	if err != nil {
		return netip.Addr{}, fmt.Errorf("ask for the route to %s: %w", remote, err)
	}
	src, ok := netip.AddrFromSlice(routes[0].Src)
	if !ok {
		return netip.Addr{}, fmt.Errorf("%w to %s: the route has no source address", ErrNoRoute, remote)
	}
	if src = src.Unmap(); src.Is6() && src.IsLinkLocalUnicast() {
		src = src.WithZone(remote.Zone())
	}
	return src, nil
}

// Close ends the subscription. List and Source fail afterwards, and channels of Changed are closed.
func (a *Addresses) Close() {
	if a.events != nil {
		a.events.Close()
		a.ended.Wait()
	} else {
		a.announce(net.ErrClosed)
	}
	a.asking.Lock()
	defer a.asking.Unlock()
	a.closed = true
	if a.nl != nil {
		a.nl.Close()
	}
}

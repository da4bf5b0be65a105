package host

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// listTries bounds how often a list is read again because the kernel changed it meanwhile. While containers come and go, some percent of
// the lists change during the reading. Such a list may lack an existing interface.
const listTries = 32

// Links lists all interfaces of the handle's network namespace.
func Links(nl *netlink.Handle) ([]netlink.Link, error) {
	return whole("interfaces", nl.LinkList)
}

// AllAddresses lists all addresses of all interfaces of the handle's network namespace.
func AllAddresses(nl *netlink.Handle) ([]netlink.Addr, error) {
	return whole("addresses", func() ([]netlink.Addr, error) { return nl.AddrList(nil, netlink.FAMILY_ALL) })
}

// whole reads a list again until the kernel did not change it during the reading.
func whole[T any](what string, list func() ([]T, error)) (all []T, err error) {
	for range listTries {
		if all, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	switch {
	case errors.Is(err, netlink.ErrDumpInterrupted):
		return nil, fmt.Errorf("list %s: they changed during each of %d attempts (%w): see ip monitor, and try again", what, listTries, err)
	case NotOffered(err):
		return nil, fmt.Errorf("list %s: %w", what, ErrBlind)
	case err != nil:
		return nil, fmt.Errorf("list %s: %w", what, err)
	}
	return all, nil
}

// AssignedAs converts an entry of the list to the form of events. On a point-to-point link the prefix length belongs to the peer address.
func AssignedAs(entry *netlink.Addr) (a Assigned, ok bool) {
	ip, ok := netip.AddrFromSlice(entry.IP)
	network := entry.IPNet
	if entry.Peer != nil {
		network = entry.Peer
		peer, _ := netip.AddrFromSlice(entry.Peer.IP)
		a.Peer = peer.Unmap()
	}
	bits, _ := network.Mask.Size()
	a.Prefix = netip.PrefixFrom(ip.Unmap(), bits)
	return a, ok
}

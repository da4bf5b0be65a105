package datapath

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/udp"
	"github.com/ndxdp/ndxdp/xdp"
)

// This file serves processes whom a sandbox refuses netlink sockets: they learn of addresses by ioctl and from /proc, and whether there is a route by connecting.

// interfaceUnseen is interfaceOf.
func interfaceUnseen(addr netip.Addr, zone string) (xdp.NIC, error) {
	all, err := udp.AssignedAddresses()
	if err != nil {
		return xdp.NIC{}, err
	}
	for _, a := range all {
		loops := addr.Is4() && addr.IsLoopback() && a.Address.IsLoopback()
		loops6 := addr == netip.IPv6Loopback() && a.Address.IsLoopback()
		if a.Address != addr && !loops && !loops6 {
			continue
		}
		nic, err := xdp.Inspect(a.Interface)
		if err != nil {
			return nic, err
		}
		if inZone(zone, nic.Index, nic.Name) {
			return nic, nil
		}
	}
	return xdp.NIC{}, fmt.Errorf("%w (without netlink an IPv6 address is found in /proc only: permit AF_NETLINK, or mount /proc)", &AddressError{Address: addr.WithZone(zone)})
}

// listUnseen is Addresses.List.
func listUnseen() ([]netip.Addr, error) {
	all, err := udp.AssignedAddresses()
	if err != nil {
		return nil, err
	}
	var near, far []netip.Addr
	for _, a := range all {
		nic, err := xdp.Inspect(a.Interface)
		switch {
		case err != nil || !nic.Up || a.Address.Is6() && a.Address.IsLinkLocalUnicast(): // or it is gone
		case nic.Loopback:
			near = append(near, a.Address)
		default:
			far = append(far, a.Address)
		}
	}
	return nearLast(far, near), nil
}

// discard is a port that a socket is connected to, to which nothing is sent.
const discard = 9

// connectTo connects a UDP socket, which sends nothing, and says where from. The error is as the kernel says it.
func connectTo(fd int, remote netip.Addr, scope int) (netip.Addr, error) {
	var to unix.Sockaddr = &unix.SockaddrInet6{Port: discard, Addr: remote.As16(), ZoneId: uint32(scope)}
	if remote.Is4() {
		to = &unix.SockaddrInet4{Port: discard, Addr: remote.As4()}
	}
	if err := unix.Connect(fd, to); err != nil {
		return netip.Addr{}, err
	}
	from, err := unix.Getsockname(fd)
	switch a := from.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrFrom4(a.Addr), err
	case *unix.SockaddrInet6:
		return netip.AddrFrom16(a.Addr), err
	}
	return netip.Addr{}, err
}

// unreached is the error of a peer that no socket could be connected to.
func unreached(remote netip.Addr, err error) error {
	switch {
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH):
		return fmt.Errorf("%w to %s: is its interface up, and is there a route (ip link, ip route get %[2]s)", ErrNoRoute, remote)
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("%s is %w", remote, ErrNotOneHost)
	}
	return fmt.Errorf("ask for the route to %s: %w", remote, err)
}

// family is that of the sockets for an address.
func family(addr netip.Addr) int {
	if addr.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// sourceUnseen is Addresses.Source.
func sourceUnseen(remote netip.Addr) (src netip.Addr, err error) {
	scope := 0
	if zone := remote.Zone(); zone != "" {
		nic, err := xdp.Inspect(zone)
		if err != nil {
			return src, fmt.Errorf("%w to %s: no interface is called %s: see ip link", ErrNoRoute, remote, zone)
		}
		scope = nic.Index
	}
	to := remote.Unmap().WithZone("")
	fd, err := unix.Socket(family(to), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		src, err = connectTo(fd, to, scope)
		_ = unix.Close(fd) // nothing was written through it
	}
	if err != nil {
		return src, unreached(remote, err)
	}
	if src.Is6() && src.IsLinkLocalUnicast() {
		src = src.WithZone(remote.Zone())
	}
	return src, nil
}

// resolveUnseen is Resolve. The kernel finds the neighbour by itself, and a peer that does not answer shows by its silence.
func (d *plainUDP) resolveUnseen(dst netip.Addr) error {
	fd, err := d.network.Socket(family(dst), unix.SOCK_DGRAM)
	if err == nil {
		_, err = connectTo(fd, dst, d.nic.Index)
		_ = unix.Close(fd) // nothing was written through it
	}
	if err != nil {
		return unreached(dst, err)
	}
	d.state.found(dst, dst, [6]byte{}, d.neighbors.now())
	return nil
}

// AssignedTo lists the addresses of an interface of the calling thread's network namespace, without netlink.
func AssignedTo(name string) (list []netip.Addr, err error) {
	all, err := udp.AssignedAddresses()
	for _, a := range all {
		if a.Interface == name {
			list = append(list, a.Address)
		}
	}
	return list, err
}

// InterfaceOf looks up the interface of the calling thread's network namespace that has an address.
func InterfaceOf(addr netip.Addr) (xdp.NIC, error) {
	nl, err := openRoutes()
	if err != nil {
		return xdp.NIC{}, err
	}
	if nl != nil {
		defer nl.Close()
	}
	return interfaceOf(nl, addr, addr.Zone())
}

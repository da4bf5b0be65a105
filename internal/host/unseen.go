package host

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/udp"
	"github.com/ndxdp/ndxdp/xdp"
)

// This file serves processes without netlink sockets, which a sandbox refuses. They list addresses by ioctl and from /proc, and detect a
// route by connecting a socket.

// listUnseen is Addresses.List without netlink.
func listUnseen() ([]netip.Addr, error) {
	all, err := udp.AssignedAddresses()
	if err != nil {
		return nil, err
	}
	var near, far []netip.Addr
	for _, a := range all {
		nic, err := xdp.Inspect(a.Interface)
		switch {
		case err != nil || !nic.Up || a.Address.Is6() && a.Address.IsLinkLocalUnicast(): // or the interface is gone
		case nic.Loopback:
			near = append(near, a.Address)
		default:
			far = append(far, a.Address)
		}
	}
	return nearLast(far, near), nil
}

// discard is the port for connecting a socket that sends nothing.
const discard = 9

// connectTo connects a UDP socket, which sends nothing, and returns the source address. The error is the kernel's error.
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

// unreached returns the error for a peer to which no socket could be connected.
func unreached(remote netip.Addr, err error) error {
	switch {
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH):
		return fmt.Errorf("%w to %s: check that its interface is up and that there is a route (ip link, ip route get %[2]s)", ErrNoRoute, remote)
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("%s is %w", remote, ErrNotOneHost)
	}
	return fmt.Errorf("ask for the route to %s: %w", remote, err)
}

// family returns the socket family for an address.
func family(addr netip.Addr) int {
	if addr.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// Reachable reports whether there is a route to a peer over an interface, without netlink.
func Reachable(network *udp.Network, dst netip.Addr, index int) error {
	fd, err := network.Socket(family(dst), unix.SOCK_DGRAM)
	if err == nil {
		_, err = connectTo(fd, dst, index)
		_ = unix.Close(fd) // the error does not matter: nothing was sent
	}
	if err != nil {
		return unreached(dst, err)
	}
	return nil
}

// sourceUnseen is Addresses.Source without netlink.
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
		_ = unix.Close(fd) // the error does not matter: nothing was sent
	}
	if err != nil {
		return src, unreached(remote, err)
	}
	if src.Is6() && src.IsLinkLocalUnicast() {
		src = src.WithZone(remote.Zone())
	}
	return src, nil
}

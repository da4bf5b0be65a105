package ndnet

import (
	"errors"
	"net/netip"
	"syscall"

	"github.com/ndxdp/ndxdp/nd"
)

// sourceFor is the kernel's source address for an address, with its zone if it is link-local.
func sourceFor(to netip.AddrPort) (netip.Addr, error) {
	if to.Addr().Zone() == "" {
		if at, err := routedFrom(to); err == nil {
			return at, nil
		}
	}
	// Package nd gives the reason if there is no route, and knows the alternative names of interfaces.
	p, err := nd.OpenProvider()
	if err != nil {
		return netip.Addr{}, err
	}
	at, err := p.SourceAddress(to.Addr())
	return at, errors.Join(err, p.Close())
}

// routedFrom asks the kernel by a connected UDP socket, which sends nothing. Package net would also register the socket with the runtime's
// poller, which takes twice as many system calls.
func routedFrom(to netip.AddrPort) (at netip.Addr, err error) {
	family, peer := syscall.AF_INET6, syscall.Sockaddr(&syscall.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()})
	if ip := to.Addr().Unmap(); ip.Is4() {
		family, peer = syscall.AF_INET, &syscall.SockaddrInet4{Port: int(to.Port()), Addr: ip.As4()}
	}
	fd, err := syscall.Socket(family, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return at, err
	}
	defer func() { _ = syscall.Close(fd) }() // it succeeds for an open descriptor
	if err := syscall.Connect(fd, peer); err != nil {
		return at, err
	}
	from, err := syscall.Getsockname(fd)
	switch a := from.(type) {
	case *syscall.SockaddrInet4:
		at = netip.AddrFrom4(a.Addr)
	case *syscall.SockaddrInet6:
		at = netip.AddrFrom16(a.Addr).Unmap()
	}
	return at, err
}

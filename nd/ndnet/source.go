package ndnet

import (
	"errors"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// sourceTime is how long a source address is used again. Asking takes a twentieth of the time of a connect. A changed route counts for
// dials that begin so much later.
const sourceTime = 100 * time.Millisecond

// mostSources bounds the number of remembered addresses.
const mostSources = 256

// source is the kernel's source address for a destination, and until when it may be used.
type source struct {
	at    netip.Addr
	until time.Time
}

// sourceMemory remembers source addresses for a short time, because programs dial the same host many times a second.
type sourceMemory struct {
	mu    sync.Mutex
	known map[netip.Addr]source
}

var sources = sourceMemory{known: map[netip.Addr]source{}}

// find returns the source address for an address, and asks for it if it is not known.
func (m *sourceMemory) find(to netip.AddrPort, ask func(netip.AddrPort) (netip.Addr, error)) (netip.Addr, error) {
	now := time.Now()
	m.mu.Lock()
	s, there := m.known[to.Addr()]
	m.mu.Unlock()
	if there && now.Before(s.until) {
		return s.at, nil
	}
	at, err := ask(to)
	if err != nil {
		return at, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.known) >= mostSources {
		clear(m.known)
	}
	m.known[to.Addr()] = source{at, now.Add(sourceTime)}
	return at, nil
}

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

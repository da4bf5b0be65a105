package datapath

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"

	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
	"github.com/ndxdp/ndxdp/xdp"
)

// What the rungs need of an interface, for whoever examines one without opening it.
const (
	// MaxQueues is the most receive queues that an adapter takes over AF_XDP.
	MaxQueues = provider.MaxEngines
	// SingleBufferMTU is the largest MTU for which no packet needs AF_XDP's multi-buffer.
	SingleBufferMTU = maxFrame - frameOverhead
	// SocketBuffer is how many bytes the UDP rung asks for in each direction.
	SocketBuffer = socketBuffer
	// SendBuffer is how many bytes the socket of an AF_XDP queue asks for.
	SendBuffer = xdp.DefaultSendBuffer
)

// Prospect says which rung Open takes for RungAuto on an interface of the calling thread's network namespace, and why, without
// opening anything. A driver that refuses native mode shows only when it is opened. The error is what keeps Open from opening at all.
func Prospect(nic *xdp.NIC, addr netip.Addr) (Rung, string, error) {
	return prospect(&netlink.Handle{}, nic, addr)
}

// PlainSockets says whether Open takes plain sockets for RungAuto on the interface of one of List's addresses.
func (a *Addresses) PlainSockets(addr netip.Addr) (bool, error) {
	a.asking.RLock()
	defer a.asking.RUnlock()
	if a.closed {
		return false, fmt.Errorf("look up the interface of %s: %w", addr, net.ErrClosed)
	}
	all, err := a.nl.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return false, fmt.Errorf("list addresses: %w", err)
	}
	for i := range all {
		if ip, ok := netip.AddrFromSlice(all[i].IP); !ok || ip.Unmap() != addr {
			continue
		}
		link, err := a.nl.LinkByIndex(all[i].LinkIndex)
		if err != nil {
			return false, fmt.Errorf("look up the interface of %s: %w", addr, err)
		}
		// The driver decides between the modes of AF_XDP only.
		nic := xdp.NIC{Name: link.Attrs().Name, Index: link.Attrs().Index, MAC: link.Attrs().HardwareAddr}
		rung, _, _ := prospect(a.nl, &nic, addr) // what keeps Open from opening is no plain sockets either
		return rung == RungUDP, nil
	}
	return false, &AddressError{Address: addr}
}

func prospect(from lists, nic *xdp.NIC, addr netip.Addr) (Rung, string, error) {
	err := supported()
	if err == nil && len(nic.MAC) != 6 {
		err = &notEthernetError{nic.Name, addr}
	}
	var c choice
	if err == nil {
		c, err = suited(from, nic, addr, RungAuto)
	}
	if err != nil {
		if reason := withoutXDP(err); reason != "" {
			return RungUDP, reason, nil
		}
		return RungAuto, "", err
	}
	return c.rung, c.reason, nil
}

// Unsuited says why a rung of AF_XDP that is asked for would lose packets on an interface of the calling thread's network namespace;
// nil when it would not.
func Unsuited(nic *xdp.NIC, addr netip.Addr, want Rung) error {
	_, err := suited(&netlink.Handle{}, nic, addr, want)
	return err
}

func suited(from lists, nic *xdp.NIC, addr netip.Addr, want Rung) (choice, error) {
	s, err := inspectStack(from, nic.Index, nic.Driver)
	if err != nil {
		return choice{}, err
	}
	return choose(want, &s, addr)
}

// LeastMTU is the smallest MTU that an interface may have for packets from addr (PROTOCOL §7.1).
func LeastMTU(addr netip.Addr) int { return wire.MinPacket + headersOf(addr) }

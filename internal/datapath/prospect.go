package datapath

import (
	"errors"
	"net/netip"

	"github.com/vishvananda/netlink"

	"github.com/ndxdp/ndxdp/bpf"
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
)

// Prospect says which rung Open takes for RungAuto on an interface of the calling thread's network namespace, and why, without
// opening anything. A driver that refuses native mode shows only when it is opened. The error is what keeps Open from opening at all.
func Prospect(nic *xdp.NIC, addr netip.Addr) (Rung, string, error) {
	err := supported()
	if err == nil {
		err = suitable(nic, addr)
	}
	var c choice
	if err == nil {
		c, err = suited(nic, addr, RungAuto)
	}
	if err != nil {
		if reason := withoutXDP(err); reason != "" {
			if brokerHelps(err) {
				reason += UsualBroker(nic.Name)
			}
			var routed *layer3Error
			if errors.As(err, &routed) && bpf.RingSupported() == nil {
				return RungRing, reason, nil
			}
			return RungUDP, reason, nil
		}
		return RungAuto, "", err
	}
	return c.rung, c.reason, nil
}

// Unsuited says why a rung of AF_XDP that is asked for would lose packets on an interface of the calling thread's network namespace;
// nil when it would not.
func Unsuited(nic *xdp.NIC, addr netip.Addr, want Rung) error {
	_, err := suited(nic, addr, want)
	return err
}

func suited(nic *xdp.NIC, addr netip.Addr, want Rung) (choice, error) {
	s, err := inspectStack(&netlink.Handle{}, nic.Index, nic.Driver)
	if err != nil {
		return choice{}, err
	}
	return choose(want, &s, addr, ringless(nic, nil))
}

// LeastMTU is the smallest MTU that an interface may have for packets from addr (PROTOCOL §7.1).
func LeastMTU(addr netip.Addr) int { return wire.MinPacket + headersOf(addr) }

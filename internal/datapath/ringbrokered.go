package datapath

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/bpf"
	"github.com/ndxdp/ndxdp/internal/broker"
	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/host"
	"github.com/ndxdp/ndxdp/internal/udp"
	"github.com/ndxdp/ndxdp/wire"
)

// BrokeredRing is a ring that was opened for another process. It implements broker.Opened.
type BrokeredRing struct {
	program *bpf.Ring
	grant   broker.Grant
}

// OpenBrokeredRing opens a ring for the UDP socket that a client passed, if the terms allow it. The client gets nothing that the kernel
// would not give to the socket. So the socket must be bound to exactly the address and port that the client names, in the calling
// thread's network namespace. Later the program asks the kernel for each packet whether the socket still has the port.
func OpenBrokeredRing(r *broker.Request, terms Terms) (_ *BrokeredRing, err error) {
	at := netip.AddrPortFrom(r.Address.WithZone("").Unmap(), r.UDPPort)
	if r.UDPPort != terms.UDPPort && !wire.IsSourcePort(r.UDPPort) {
		return nil, fmt.Errorf("UDP port %d was asked for: this broker offers %d, and other ports to later adapters", r.UDPPort, terms.UDPPort)
	}
	network, err := udp.NewNetwork()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, network.Close()) }()
	if err := network.Holds(r.Socket, at); err != nil {
		return nil, fmt.Errorf("the socket that came with the request: %w", err)
	}
	nl, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open a route netlink socket: %w", err)
	}
	defer nl.Close()
	nic, err := host.InterfaceWith(nl, r.Address.WithZone(""), r.Address.Zone())
	if err != nil {
		return nil, err
	}
	if nic.Name != terms.Interface {
		return nil, fmt.Errorf("%s is an address of interface %s: this broker offers %s only", r.Address, nic.Name, terms.Interface)
	}
	if len(nic.MAC) != 6 {
		return nil, &plan.NotEthernetError{Name: nic.Name, Addr: r.Address}
	}
	if err := belongs(r.Socket, nl, nic.Index, at.Addr()); err != nil {
		return nil, fmt.Errorf("the socket that came with the request: %w", err)
	}
	program, err := bpf.AttachRingOf(nic.Index, at, r.Socket)
	if err != nil {
		return nil, err
	}
	g := broker.Grant{Ifindex: nic.Index, Datapath: broker.Ring, RingBytes: bpf.RingBytes}
	copy(g.MAC[:], nic.MAC)
	return &BrokeredRing{program, g}, nil
}

// belongs returns the reason why a socket does not receive packets for an address that arrive on an interface, as sockets of adapters do,
// or nil. A socket that is bound to another interface has the port too, but does not receive these packets.
func belongs(socket int, nl *netlink.Handle, index int, addr netip.Addr) error {
	links, err := host.Links(nl)
	if err != nil {
		return err
	}
	want := host.VRFOf(links, index)
	if addr.Is6() && addr.IsLinkLocalUnicast() {
		want = index
	}
	if want != 0 && want != index {
		return errors.New("the socket belongs to a VRF, where a broker leases no rings: a program at tcx cannot look up sockets of a VRF (bpf_sk_lookup_udp), " +
			"and so cannot check whether the port still belongs to this socket")
	}
	got, err := udp.Device(socket)
	if err == nil && got != want {
		err = fmt.Errorf("the socket belongs to interface %d, not to %d", got, want)
	}
	return err
}

// Grant implements broker.Opened.
func (l *BrokeredRing) Grant() (broker.Grant, []int) {
	packets, page := l.program.FDs()
	return l.grant, []int{packets, page}
}

// Delivered implements broker.Opened. The program ends with the broker, and the client keeps the memory.
func (l *BrokeredRing) Delivered() error { return nil }

// Close implements broker.Opened. From then on the socket gets all packets.
func (l *BrokeredRing) Close() error { return l.program.Close() }

// leaseRing makes the device use a ring that a broker leases.
func (d *socketDevice) leaseRing() error {
	lease, err := d.dial(broker.Request{
		Address: d.cfg.Address.WithZone(d.cfg.Zone), UDPPort: d.local.Port, Datapath: broker.Ring, Socket: d.in.FD(),
	})
	if err != nil {
		return err
	}
	g := &lease.Grant
	if g.Ifindex != d.info.Index {
		err = fmt.Errorf("the broker at %s has another interface with the address %s: it must work in the network namespace of this process", lease.Path, d.cfg.Address)
	} else {
		err = d.useRing(lease.Memory, lease.Sockets[0], g.RingBytes, lease.Close)
	}
	if err != nil {
		return errors.Join(err, lease.Close())
	}
	d.ring.lease = lease
	return nil
}

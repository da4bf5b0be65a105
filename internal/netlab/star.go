package netlab

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// maxStarHosts is the number of usable third octets in the hosts' IPv4 networks.
const maxStarHosts = 250

// StarConfig describes a star. The zero value is a router between two hosts, with MTU 1500 and IPv4.
type StarConfig struct {
	Hosts    int  // 2 when zero, at most 250
	MTU      int  // of both ends of every link; 1500 if zero; SetMTU changes single links
	Queues   int  // receive and transmit queues of every link, 1 if zero
	IPv6     bool // adds IPv6 addresses and routes; otherwise IPv6 is off
	Offloads bool // as in PairConfig; with offloads, GRO may merge packets of the UDP datapath in the router
}

// Star is a router with a veth link to each host. Each host has its own namespace and IP network, so packets between hosts are
// forwarded by the router's kernel. Impairments belong on the ports, which are the router's ends of the links, because a qdisc on a
// host's end never sees packets of an AF_XDP socket.
//
// Hosts and router resolve neighbours by ARP and neighbour discovery, as on a real network.
type Star struct {
	Router *Namespace
	Hosts  []Host

	handle    *netlink.Handle // netlink handle in the namespace of the router
	closeOnce sync.Once
	closeErr  error
}

// Host is an end system of a Star, with the router's port in front of it.
type Host struct {
	NS      *Namespace
	Name    string // name of the host's interface: nd0
	Ifindex int    // index of this interface
	Addr    netip.Prefix
	Addr6   netip.Prefix // invalid without IPv6

	Port        string // router's interface to the host: port0, port1, ...
	PortIfindex int
	Gateway     netip.Addr // address of the port
	Gateway6    netip.Addr // invalid without IPv6

	handle *netlink.Handle // netlink handle in the namespace of the host
}

// NewStar builds the namespaces, links, addresses and routes, and waits until all links carry traffic.
func NewStar(cfg StarConfig) (*Star, error) {
	if cfg.Hosts == 0 {
		cfg.Hosts = 2
	}
	if cfg.MTU == 0 {
		cfg.MTU = DefaultMTU
	}
	if cfg.Queues == 0 {
		cfg.Queues = 1
	}
	s := &Star{}
	if err := s.build(cfg); err != nil {
		return nil, fmt.Errorf("netlab: new star of %d hosts: %w%s", cfg.Hosts, errors.Join(err, s.Close()), remedy(err))
	}
	return s, nil
}

func (s *Star) build(cfg StarConfig) (err error) {
	if cfg.Hosts < 0 || cfg.Hosts > maxStarHosts {
		return fmt.Errorf("%d hosts: %w, want 1 to %d", cfg.Hosts, unix.EINVAL, maxStarHosts)
	}
	if s.Router, err = New(); err != nil {
		return err
	}
	if s.handle, err = s.Router.handle(); err != nil {
		return err
	}
	if err := s.Router.forward(cfg.IPv6); err != nil {
		return fmt.Errorf("turn on forwarding: %w", err)
	}
	for i := range cfg.Hosts {
		if err := s.addHost(i, cfg); err != nil {
			return fmt.Errorf("host %d: %w", i, err)
		}
	}
	return nil
}

// forward enables forwarding in the namespace.
func (n *Namespace) forward(ipv6 bool) error {
	return n.Do(func() error {
		err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0)
		if ipv6 {
			err = errors.Join(err, os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("1"), 0))
		}
		return err
	})
}

// addHost adds host i: 10.98.i.2 behind the port 10.98.i.1, and fd00:98:0:i::2 behind fd00:98:0:i::1.
func (s *Star) addHost(i int, cfg StarConfig) (err error) {
	net4 := netip.AddrFrom4([4]byte{10, 98, byte(i), 0})
	h := Host{
		Name: DefaultName, Port: fmt.Sprintf("port%d", i),
		Gateway: net4.Next(), Addr: netip.PrefixFrom(net4.Next().Next(), 24),
	}
	if cfg.IPv6 {
		net6 := netip.AddrFrom16([16]byte{0: 0xfd, 3: 0x98, 7: byte(i)})
		h.Gateway6, h.Addr6 = net6.Next(), netip.PrefixFrom(net6.Next().Next(), 64)
	}
	if h.NS, err = New(); err != nil {
		return err
	}
	s.Hosts = append(s.Hosts, h)
	if s.Hosts[i].handle, err = h.NS.handle(); err != nil {
		return err
	}
	return s.connect(&s.Hosts[i], cfg)
}

// connect makes the link between a host and its port.
func (s *Star) connect(h *Host, cfg StarConfig) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.NumTxQueues, attrs.NumRxQueues = h.Port, cfg.MTU, cfg.Queues, cfg.Queues
	veth := netlink.NewVeth(attrs)
	veth.PeerName, veth.PeerMTU = h.Name, uint32(cfg.MTU)
	veth.PeerNumTxQueues, veth.PeerNumRxQueues = uint32(cfg.Queues), uint32(cfg.Queues)
	veth.PeerNamespace = netlink.NsFd(h.NS.FD())
	if err := s.handle.LinkAdd(veth); err != nil {
		return fmt.Errorf("add veth %s (MTU %d, %d queues): %w", h.Port, cfg.MTU, cfg.Queues, err)
	}
	port := &end{ns: s.Router, handle: s.handle, name: h.Port}
	host := &end{ns: h.NS, handle: h.handle, name: h.Name, addrs: []netip.Prefix{h.Addr}}
	port.addrs = []netip.Prefix{netip.PrefixFrom(h.Gateway, h.Addr.Bits())}
	gateways := []netip.Addr{h.Gateway}
	if cfg.IPv6 {
		host.addrs = append(host.addrs, h.Addr6)
		port.addrs = append(port.addrs, netip.PrefixFrom(h.Gateway6, h.Addr6.Bits()))
		gateways = append(gateways, h.Gateway6)
	}
	for _, e := range []*end{port, host} {
		var err error
		if e.link, err = e.handle.LinkByName(e.name); err != nil {
			return fmt.Errorf("find %s: %w", e.name, err)
		}
		if err := e.configure(PairConfig{IPv6: cfg.IPv6, Offloads: cfg.Offloads, Queues: cfg.Queues}); err != nil {
			return err
		}
	}
	h.PortIfindex, h.Ifindex = port.link.Attrs().Index, host.link.Attrs().Index
	for _, gateway := range gateways {
		route := &netlink.Route{LinkIndex: h.Ifindex, Gw: gateway.AsSlice()} // without a destination, it is the default route
		if err := h.handle.RouteAdd(route); err != nil {
			return fmt.Errorf("add the default route over %s: %w", gateway, err)
		}
	}
	return errors.Join(port.awaitReady(), host.awaitReady())
}

// SetMTU sets the MTU of a host's interface and of its router port, which may differ. The router answers a packet that exceeds the
// port's MTU with "packet too big" and does not forward it. A packet from the host that exceeds the port's MTU is dropped silently.
func (s *Star) SetMTU(host, hostMTU, portMTU int) error {
	h := &s.Hosts[host]
	return errors.Join(setMTU(h.handle, h.Ifindex, hostMTU), setMTU(s.handle, h.PortIfindex, portMTU))
}

// Close removes all links and closes all namespaces. Further calls have no effect.
func (s *Star) Close() error {
	s.closeOnce.Do(func() { s.closeErr = s.close() })
	return s.closeErr
}

func (s *Star) close() error {
	var errs []error
	for i := range s.Hosts {
		h := &s.Hosts[i]
		if h.PortIfindex != 0 {
			err := s.handle.LinkDel(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: h.PortIfindex}})
			if err != nil && !errors.Is(err, unix.ENODEV) {
				errs = append(errs, fmt.Errorf("netlab: delete %s: %w", h.Port, err))
			}
		}
		if h.handle != nil {
			h.handle.Close()
		}
		errs = append(errs, h.NS.Close())
	}
	if s.handle != nil {
		s.handle.Close()
	}
	if s.Router != nil {
		errs = append(errs, s.Router.Close())
	}
	return errors.Join(errs...)
}

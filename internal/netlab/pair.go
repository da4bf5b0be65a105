package netlab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Defaults of PairConfig.
const (
	DefaultMTU  = 1500
	DefaultName = "nd0"
)

// Default addresses of a pair: A is .1, B is .2.
var (
	DefaultAddrA  = netip.MustParsePrefix("10.99.0.1/24")
	DefaultAddrB  = netip.MustParsePrefix("10.99.0.2/24")
	DefaultAddr6A = netip.MustParsePrefix("fd00:99::1/64")
	DefaultAddr6B = netip.MustParsePrefix("fd00:99::2/64")
)

// readyTimeout bounds the wait for a link. A veth pair needs less than a millisecond, but a loaded machine may need more.
const readyTimeout = 5 * time.Second

// PairConfig describes a pair. The zero value is a pair with one queue, MTU 1500 and IPv4.
type PairConfig struct {
	MTU    int // 1500 when zero
	Queues int // receive and transmit queues of each end, 1 if zero

	AddrA, AddrB   netip.Prefix // 10.99.0.1/24 and 10.99.0.2/24 if invalid
	IPv6           bool         // adds IPv6 addresses; otherwise IPv6 is off
	Addr6A, Addr6B netip.Prefix // fd00:99::1/64 and fd00:99::2/64 if invalid; a valid one implies IPv6
	NameA, NameB   string       // nd0 if empty; the two are in different namespaces

	Offloads         bool   // keeps the kernel's default offloads; otherwise TSO, GSO, GRO and checksum offloads are off
	RPSMask          string // as in rps_cpus, for each receive queue of both ends; none if empty
	StaticNeighbours bool   // permanent neighbour entries instead of ARP and neighbour discovery
}

// Pair is two namespaces connected by a veth pair.
type Pair struct {
	A, B               *Namespace
	MACA, MACB         net.HardwareAddr
	IfindexA, IfindexB int
	NameA, NameB       string
	AddrA, AddrB       netip.Prefix
	Addr6A, Addr6B     netip.Prefix // invalid without IPv6
	Queues             int
	handleA, handleB   *netlink.Handle
	closeOnce          sync.Once
	closeErr           error
}

// end is one end of a pair during set-up.
type end struct {
	ns      *Namespace
	handle  *netlink.Handle
	link    netlink.Link
	name    string
	addrs   []netip.Prefix
	peer    []netip.Prefix
	peerMAC net.HardwareAddr
}

// NewPair builds two namespaces and a veth pair between them, and returns when both links carry traffic.
func NewPair(cfg PairConfig) (*Pair, error) {
	cfg = cfg.withDefaults()
	p := &Pair{
		NameA: cfg.NameA, NameB: cfg.NameB, Queues: cfg.Queues,
		AddrA: cfg.AddrA, AddrB: cfg.AddrB, Addr6A: cfg.Addr6A, Addr6B: cfg.Addr6B,
	}
	if err := p.build(cfg); err != nil {
		return nil, fmt.Errorf("netlab: new pair: %w%s", errors.Join(err, p.Close()), remedy(err))
	}
	return p, nil
}

func (cfg PairConfig) withDefaults() PairConfig {
	if cfg.MTU == 0 {
		cfg.MTU = DefaultMTU
	}
	if cfg.Queues == 0 {
		cfg.Queues = 1
	}
	if cfg.NameA == "" {
		cfg.NameA = DefaultName
	}
	if cfg.NameB == "" {
		cfg.NameB = DefaultName
	}
	setPrefix := func(p *netip.Prefix, fallback netip.Prefix) {
		if !p.IsValid() {
			*p = fallback
		}
	}
	setPrefix(&cfg.AddrA, DefaultAddrA)
	setPrefix(&cfg.AddrB, DefaultAddrB)
	if cfg.IPv6 || cfg.Addr6A.IsValid() || cfg.Addr6B.IsValid() {
		cfg.IPv6 = true
		setPrefix(&cfg.Addr6A, DefaultAddr6A)
		setPrefix(&cfg.Addr6B, DefaultAddr6B)
	}
	return cfg
}

func (p *Pair) build(cfg PairConfig) (err error) {
	if p.A, err = New(); err != nil {
		return err
	}
	if p.B, err = New(); err != nil {
		return err
	}
	if p.handleA, err = p.A.handle(); err != nil {
		return err
	}
	if p.handleB, err = p.B.handle(); err != nil {
		return err
	}
	if err := p.addVeth(cfg); err != nil {
		return err
	}
	a := &end{ns: p.A, handle: p.handleA, name: p.NameA, addrs: []netip.Prefix{p.AddrA}, peer: []netip.Prefix{p.AddrB}}
	b := &end{ns: p.B, handle: p.handleB, name: p.NameB, addrs: []netip.Prefix{p.AddrB}, peer: []netip.Prefix{p.AddrA}}
	if cfg.IPv6 {
		a.addrs, a.peer = append(a.addrs, p.Addr6A), append(a.peer, p.Addr6B)
		b.addrs, b.peer = append(b.addrs, p.Addr6B), append(b.peer, p.Addr6A)
	}
	for _, e := range []*end{a, b} {
		if e.link, err = e.handle.LinkByName(e.name); err != nil {
			return fmt.Errorf("find %s: %w", e.name, err)
		}
	}
	p.MACA, p.IfindexA = a.link.Attrs().HardwareAddr, a.link.Attrs().Index
	p.MACB, p.IfindexB = b.link.Attrs().HardwareAddr, b.link.Attrs().Index
	a.peerMAC, b.peerMAC = p.MACB, p.MACA
	for _, e := range []*end{a, b} {
		if err := e.configure(cfg); err != nil {
			return err
		}
	}
	return errors.Join(a.awaitReady(), b.awaitReady())
}

// addVeth creates each end in its namespace, so that it never appears elsewhere.
func (p *Pair) addVeth(cfg PairConfig) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = cfg.NameA
	attrs.MTU = cfg.MTU
	attrs.NumTxQueues = cfg.Queues
	attrs.NumRxQueues = cfg.Queues
	veth := netlink.NewVeth(attrs)
	veth.PeerName = cfg.NameB
	veth.PeerMTU = uint32(cfg.MTU)
	veth.PeerNumTxQueues = uint32(cfg.Queues)
	veth.PeerNumRxQueues = uint32(cfg.Queues)
	veth.PeerNamespace = netlink.NsFd(p.B.FD())
	if err := p.handleA.LinkAdd(veth); err != nil {
		return fmt.Errorf("add veth %s (MTU %d, %d queues): %w", cfg.NameA, cfg.MTU, cfg.Queues, err)
	}
	return nil
}

func (e *end) configure(cfg PairConfig) error {
	// Without this, IPv6 multicast reports and router solicitations would disturb captures and counters.
	if err := e.ns.setIPv6(e.name, cfg.IPv6); err != nil {
		return err
	}
	if !cfg.Offloads {
		if err := e.ns.disableOffloads(e.name); err != nil {
			return err
		}
	}
	for _, prefix := range e.addrs {
		if err := e.handle.AddrAdd(e.link, &netlink.Addr{IPNet: ipNet(prefix), Flags: unix.IFA_F_NODAD}); err != nil {
			return fmt.Errorf("add address %s to %s: %w", prefix, e.name, err)
		}
	}
	if err := e.handle.LinkSetUp(e.link); err != nil {
		return fmt.Errorf("set %s up: %w", e.name, err)
	}
	if cfg.RPSMask != "" {
		if err := e.ns.setRPS(e.name, cfg.Queues, cfg.RPSMask); err != nil {
			return err
		}
	}
	if !cfg.StaticNeighbours {
		return nil
	}
	for _, prefix := range e.peer {
		neighbour := &netlink.Neigh{
			LinkIndex: e.link.Attrs().Index, State: netlink.NUD_PERMANENT,
			IP: prefix.Addr().AsSlice(), HardwareAddr: e.peerMAC,
		}
		if err := e.handle.NeighSet(neighbour); err != nil {
			return fmt.Errorf("set neighbour %s on %s: %w", prefix.Addr(), e.name, err)
		}
	}
	return nil
}

// awaitReady waits until the link carries traffic and accepts packets for its addresses.
func (e *end) awaitReady() error { return await(e.name, e.waitingFor) }

// await waits until waitingFor returns "". It polls, because a subscription would need a socket and would miss changes before it
// begins.
func await(name string, waitingFor func() (string, error)) error {
	deadline := time.Now().Add(readyTimeout)
	for {
		missing, err := waitingFor()
		if err != nil {
			return fmt.Errorf("wait for %s: %w", name, err)
		}
		if missing == "" {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("wait for %s of %s: %s: %w", missing, name, readyTimeout, os.ErrDeadlineExceeded)
		}
		time.Sleep(time.Millisecond)
	}
}

// AwaitCarrier waits until both ends have a carrier again after they were set up. Until then the kernel drops packets that they
// send.
func (p *Pair) AwaitCarrier() error {
	wait := func(handle *netlink.Handle, index int, name string) error {
		return await(name, func() (string, error) { return carrier(handle, index) })
	}
	return errors.Join(wait(p.handleA, p.IfindexA, p.NameA), wait(p.handleB, p.IfindexB, p.NameB))
}

// carrier returns "carrier" if a link has none.
func carrier(handle *netlink.Handle, index int) (missing string, err error) {
	link, err := handle.LinkByIndex(index)
	if err != nil {
		return "", err
	}
	const up = unix.IFF_RUNNING | unix.IFF_LOWER_UP
	if link.Attrs().RawFlags&up != up {
		return "carrier", nil
	}
	return "", nil
}

// waitingFor returns what the end still lacks, or "" if it is ready.
func (e *end) waitingFor() (string, error) {
	if missing, err := carrier(e.handle, e.link.Attrs().Index); missing != "" || err != nil {
		return missing, err
	}
	for _, prefix := range e.addrs {
		// The kernel adds the local route of an IPv6 address from a work queue, even without duplicate address detection. Until
		// then, a socket bound to the address receives nothing.
		routes, err := e.handle.RouteGet(prefix.Addr().AsSlice())
		if err != nil && !errors.Is(err, unix.ENETUNREACH) && !errors.Is(err, unix.EHOSTUNREACH) {
			return "", err
		}
		if len(routes) == 0 || routes[0].Type != unix.RTN_LOCAL {
			return "the local route to " + prefix.Addr().String(), nil
		}
	}
	return "", nil
}

// SetMTU sets the MTU of both ends. If one end refuses, its peer keeps the new value.
func (p *Pair) SetMTU(mtu int) error {
	return errors.Join(setMTU(p.handleA, p.IfindexA, mtu), setMTU(p.handleB, p.IfindexB, mtu))
}

func setMTU(handle *netlink.Handle, index, mtu int) error {
	attrs := netlink.LinkAttrs{Index: index}
	if err := handle.LinkSetMTU(&netlink.Device{LinkAttrs: attrs}, mtu); err != nil {
		return fmt.Errorf("netlab: set MTU %d on interface %d: %w", mtu, index, err)
	}
	return nil
}

// Close removes the veth pair and closes both namespaces. Further calls have no effect.
func (p *Pair) Close() error {
	p.closeOnce.Do(func() { p.closeErr = p.close() })
	return p.closeErr
}

func (p *Pair) close() error {
	var errs []error
	if p.handleA != nil && p.IfindexA != 0 {
		err := p.handleA.LinkDel(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: p.IfindexA}})
		if err != nil && !errors.Is(err, unix.ENODEV) {
			errs = append(errs, fmt.Errorf("netlab: delete %s: %w", p.NameA, err))
		}
	}
	for _, handle := range []*netlink.Handle{p.handleA, p.handleB} {
		if handle != nil {
			handle.Close()
		}
	}
	for _, n := range []*Namespace{p.A, p.B} {
		if n != nil {
			errs = append(errs, n.Close())
		}
	}
	return errors.Join(errs...)
}

// handle opens a netlink socket in the namespace.
func (n *Namespace) handle() (*netlink.Handle, error) {
	handle, err := netlink.NewHandleAt(netns.NsHandle(n.FD()), unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	return handle, nil
}

func ipNet(prefix netip.Prefix) *net.IPNet {
	return &net.IPNet{
		IP:   prefix.Addr().AsSlice(),
		Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen()),
	}
}

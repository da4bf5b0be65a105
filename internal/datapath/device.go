package datapath

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/ndxdp/ndxdp/bpf"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
	"github.com/ndxdp/ndxdp/xdp"
)

// Port is where one engine meets the network: its link and its shard's waiter. The methods of Link and TransmitDone belong to the
// engine's owner, Wait to the progress goroutine; Wake may be called by anyone.
type Port interface {
	provider.Link
	provider.Waiter
	// TransmitDone says whether the kernel has given back everything that Transmit took, so that no packet on its way refers to memory from
	// Device.Alloc any more.
	TransmitDone() bool
}

// Device is a rung that was opened: ports for engines, and what people and the public API want from it. Anyone may call its
// methods.
type Device interface {
	// Ports returns one port for every receive queue. They end with Close.
	Ports() []Port
	// Resolve finds the way to a peer, which Connect needs. It blocks.
	Resolve(ctx context.Context, dst netip.Addr) error
	Info() Info
	// ReceivePort is the UDP port that the ports receive on: the well-known one for the first adapter of an address.
	ReceivePort() uint16
	// PortSpace is who has which ND port of the address on this machine.
	PortSpace() provider.PortSpace
	// Stats reads the counters. Those of the kernel end with Close: os.ErrClosed.
	Stats() (Stats, error)
	// Alloc returns n bytes of memory that packets can be sent from in place, and the name that Release and the engine know
	// it by. ok is false when there is no room, or no such memory.
	Alloc(n int) (mem []byte, id uint64, ok bool)
	// Release takes memory from Alloc back. It may be called after Close.
	Release(id uint64) error
	// Watch makes the device follow its interface until Close: gone is called once, from a goroutine of its own, with the reason why
	// the device cannot go on, like an interface or an address that was removed; own runs a function as the owner of the engine at a port.
	Watch(gone func(cause error), own func(port int, f func(*provider.Engine)))
	// Close gives everything back. No engine may run any more.
	Close() error
}

// Open finds the interface of cfg.Address and opens the rung. It works in the calling thread's network namespace; afterwards
// the Device works from anywhere.
func Open(cfg Config) (Device, error) {
	if cfg.UDPPort == 0 {
		cfg.UDPPort = wire.DefaultPort
	}
	cfg.splitZone()
	c, err := cohabit(&cfg)
	if err != nil {
		return nil, err
	}
	d, err := open(cfg, c)
	if err != nil {
		return nil, errors.Join(err, c.leave())
	}
	return d, nil
}

// open opens a rung for an adapter that lives with others. On success the device closes c.
func open(cfg Config, c *cohabitation) (Device, error) {
	switch {
	case cfg.Broker != "":
		return openFromBroker(cfg, c) // or not at all: a caller that names a broker does not want plain sockets
	case cfg.Rung == RungUDP:
		return openUDP(cfg, c, askedFor)
	case cfg.Rung == RungRing:
		return openRing(cfg, c, askedFor)
	case !c.first && cfg.Rung == RungAuto:
		return openBehind(cfg, c, c.why())
	case !c.first:
		return nil, fmt.Errorf("open %s in %s mode: %s: end that one, or take another datapath (auto, udp)", cfg.Address, cfg.Rung, c.why())
	}
	d, err := openXDP(cfg, c)
	if err == nil {
		return d, nil
	}
	if reason := withoutXDP(err); cfg.Rung == RungAuto && reason != "" {
		u, failed := instead(err)(cfg, c, reason)
		if failed == nil {
			return u, nil
		}
		err = errors.Join(err, failed)
	}
	return nil, err
}

// instead is what auto opens after AF_XDP failed with err.
func instead(err error) func(Config, *cohabitation, string) (Device, error) {
	var routed *layer3Error
	switch {
	case brokerHelps(err):
		return openBehind
	case errors.As(err, &routed): // no broker can do what we cannot
		return func(cfg Config, c *cohabitation, why string) (Device, error) { return openBeside(cfg, c, why, nil) }
	}
	return openUDP
}

// withoutXDP says why auto takes plain sockets after AF_XDP failed with err, or returns "" when that would hide a mistake in what the
// interface is: somebody who may use AF_XDP wants to know why it does not work.
func withoutXDP(err error) string {
	var link *notEthernetError
	var down *downError
	var silent *notSeenError
	var routed *layer3Error
	switch {
	case errors.Is(err, xdp.ErrPermission):
		return fmt.Sprintf("AF_XDP needs privileges that this process lacks: %v", err)
	case errors.Is(err, xdp.ErrLockedMemory):
		return fmt.Sprintf("AF_XDP needs to lock memory: %v", err)
	case errors.Is(err, bpf.ErrForbidden):
		return fmt.Sprintf("AF_XDP needs to load an XDP program: %v", err)
	case errors.As(err, &link):
		return fmt.Sprintf("AF_XDP needs Ethernet, and %s is none", link.name)
	case errors.As(err, &down):
		return fmt.Sprintf("AF_XDP needs an interface that is up when it is opened, and %s was down: set it up (ip link set %s up), and open the adapter again", down.name, down.name)
	case errors.Is(err, xdp.ErrQueueBusy):
		return fmt.Sprintf("AF_XDP needs the interface's queue: %v", err)
	case errors.Is(err, bpf.ErrHeld):
		return fmt.Sprintf("AF_XDP needs the interface's XDP program: %v", err)
	case errors.As(err, &silent):
		return fmt.Sprintf("packets to an address of the %s interface %s arrive on others", silent.stack.kind, silent.stack.name)
	case errors.As(err, &routed):
		return fmt.Sprintf("what AF_XDP sends is dropped by %s, an ipvlan interface in L3 mode", routed.name)
	}
	return ""
}

// notEthernetError says that an interface has no link-layer addresses of six bytes.
type notEthernetError struct {
	name string
	addr netip.Addr
}

func (e *notEthernetError) Error() string {
	return fmt.Sprintf("open %s on interface %s: not an Ethernet interface: choose an address of one that is, or the udp datapath",
		e.addr, e.name)
}

// downError says that an interface is down.
type downError struct {
	name string
	addr netip.Addr
}

func (e *downError) Error() string {
	return fmt.Sprintf("open %s on interface %s: the interface is down: set it up (ip link set %s up)", e.addr, e.name, e.name)
}

// suitable says why AF_XDP cannot be had on an interface as it is now; nil when that is not known.
func suitable(nic *xdp.NIC, addr netip.Addr) error {
	switch {
	case len(nic.MAC) != 6:
		return &notEthernetError{nic.Name, addr}
	case !nic.Up:
		return &downError{nic.Name, addr}
	}
	return nil
}

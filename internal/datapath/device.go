package datapath

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
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

// Device is an open datapath: it has the ports for engines, and the methods that the public API needs. Its methods may be called from any
// goroutine.
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
	// Stats reads the counters. The kernel's counters end with Close: os.ErrClosed.
	Stats() (Stats, error)
	// Alloc returns n bytes of memory that packets can be sent from in place, and its id for Release and the engine. ok is false if there
	// is no room, or no such memory.
	Alloc(n int) (mem []byte, id uint64, ok bool)
	// Release takes memory from Alloc back. It may be called after Close.
	Release(id uint64) error
	// Watch makes the device follow its interface until Close. gone is called once, from a goroutine of its own, with the reason why the
	// device failed, such as a removed interface or address. own runs a function as the owner of the engine at a port.
	Watch(gone func(cause error), own func(port int, f func(*provider.Engine)))
	// Close gives everything back. No engine may run any more.
	Close() error
}

// Open finds the interface of cfg.Address and opens a datapath on it: what plan lists, in that order. It works in the calling thread's network namespace; afterwards
// the Device works from anywhere.
func Open(cfg plan.Config) (Device, error) {
	if cfg.UDPPort == 0 {
		cfg.UDPPort = wire.DefaultPort
	}
	cfg.SplitZone()
	b, err := survey(cfg, true)
	if err != nil {
		return nil, withDescriptors(err)
	}
	d, err := b.open()
	if err != nil {
		return nil, withDescriptors(errors.Join(err, b.part(), b.close()))
	}
	return d, nil
}

// withDescriptors adds what to do to an error for want of descriptors, which any step of opening may meet.
func withDescriptors(err error) error {
	if lacksDescriptors(err) {
		return fmt.Errorf("%w: %s", err, moreDescriptors)
	}
	return err
}

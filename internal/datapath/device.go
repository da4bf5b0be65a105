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

// Port is where one engine meets the network: its link and its shard's waiter. The engine's owner calls the methods of Link and
// TransmitDone. The progress goroutine calls Wait. Any goroutine may call Wake.
type Port interface {
	provider.Link
	provider.Waiter
	// TransmitDone reports whether the kernel has completed all packets that Transmit took. Then no packet under way refers to memory of
	// Device.Alloc.
	TransmitDone() bool
}

// Device is an open datapath: it has the ports for engines, and the methods that the public API needs. Its methods may be called from any
// goroutine.
type Device interface {
	// Ports returns one port for every receive queue. They end with Close.
	Ports() []Port
	// Resolve finds the next hop to a peer, which Connect needs. It blocks.
	Resolve(ctx context.Context, dst netip.Addr) error
	Info() Info
	// ReceivePort returns the UDP port on which the ports receive. For the first adapter of an address it is the well-known port.
	ReceivePort() uint16
	// PortSpace returns the table of the ND ports of the address that adapters of this machine use.
	PortSpace() provider.PortSpace
	// Stats reads the counters. After Close the kernel's counters are gone, and the error is os.ErrClosed.
	Stats() (Stats, error)
	// Alloc returns n bytes of memory from which packets are sent without a copy, and its id for Release and the engine. ok is false if
	// the memory is used up, or if the datapath has none.
	Alloc(n int) (mem []byte, id uint64, ok bool)
	// Release frees memory of Alloc. It may be called after Close.
	Release(id uint64) error
	// Watch makes the device follow its interface until Close. gone is called once, from a goroutine of its own, with the reason why the
	// device failed, for example a removed interface. own runs a function as the owner of the engine at a port.
	Watch(gone func(cause error), own func(port int, f func(*provider.Engine)))
	// Close frees all resources. The engines must have stopped.
	Close() error
}

// Open finds the interface of cfg.Address and opens the first datapath on it that works, in the order of plan.List. It works in the
// calling thread's network namespace. Afterwards the Device works from all threads.
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

// withDescriptors adds the remedy to an error that is due to missing descriptors, which any step of the open may return.
func withDescriptors(err error) error {
	if lacksDescriptors(err) {
		return fmt.Errorf("%w: %s", err, moreDescriptors)
	}
	return err
}

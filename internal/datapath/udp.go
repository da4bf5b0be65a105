package datapath

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"

	"github.com/ndxdp/ndxdp/internal/datapath/follow"
	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/datapath/sharing"
	"github.com/ndxdp/ndxdp/internal/datapath/sleep"
	"github.com/ndxdp/ndxdp/internal/udp"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// These are the sizes of the UDP datapath.
const (
	// udpBatch is the maximum number of packets of one system call. It bounds the packets of one Receive.
	udpBatch = 64
	// udpBatchBytes ends a batch of large packets, each of which takes several microseconds to copy. So the scheduler waits at most 100
	// µs, and the engine finds the packets in the cache.
	udpBatchBytes = 512 << 10

	// sendFrames is the engine's cache of 128, and the frames of a batch of 44 packets with MaxFrags each. A frame is free again when
	// Transmit returns.
	sendFrames = 1024
	// mergedSize is the most that the kernel delivers at once, so a receive frame must hold it. Memory is allocated only for bytes that
	// arrive.
	mergedSize = 64 << 10
	// ownPortTries is the number of ports that an adapter tries if it is not the first of its address.
	ownPortTries = 64
	// receiveFrames are the frames of a batch that the engine works on, the posted frames, and as many to spare.
	receiveFrames = 3 * udpBatch
)

// Every packet fits into a receive frame, and transmit frames have the size that the engine expects.
const (
	_ = uint(mergedSize - wire.MaxPacket)
	_ = uint(-(provider.FrameSize % udp.PageSize))
)

// socketDevice is the datapath that needs no privilege. One socket receives, on the well-known port or on a port of the adapter. One
// socket for each source port sends (PROTOCOL §2). The kernel does what the frame templates, the steering and the neighbour table do for
// AF_XDP.
type socketDevice struct {
	*sleep.Sleeper // for the receive socket
	base
	in       *udp.Socket
	local    wire.Endpoint
	ethernet bool // peers are neighbours that the kernel resolves on our interface

	// The owner's.
	maxPacket      int
	rxPool, txPool *udp.Pool
	trim           atomic.Bool // the progress goroutine began a long sleep: frames that a burst took may be freed
	receiver       *udp.Receiver
	calendar       calendar    // for the time stamps of its packets
	ring           *ringReader // nil without a ring
	sender         *udp.Sender
	sources        sources
	paths          []udpPath
	freePaths      []provider.Path
	loop           loop

	lost    atomic.Uint64
	foreign atomic.Uint64
	tooLong atomic.Uint64
	inRuns  atomic.Uint64
	merged  atomic.Uint64

	errors      errorQueues
	unreachable unreachable

	statsMu   sync.Mutex // keeps Close from closing in while a goroutine that is not the owner uses it
	closed    bool
	closeOnce sync.Once
	closeErr  error
}

type udpPath struct {
	from   *source // nil if the path is free, or leads to the device itself
	to     udp.Addr
	looped uint16 // source port of a path to the device itself; else 0
}

// openPlain opens a candidate that sends by plain sockets, with or without a ring.
func openPlain(b base, c *plan.Candidate) (_ *socketDevice, err error) {
	d := &socketDevice{base: b, maxPacket: b.opened, paths: make([]udpPath, 1), calendar: today()} // path 0 is none
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	d.resolver.Anywhere = d.stack.Elsewhere() || d.kernel.Netlink == nil
	d.ethernet = len(d.nic.MAC) == 6 && !d.resolver.Anywhere
	d.info.Datapath, d.info.Itself = plan.UDP, true
	d.shared.Scope, d.shared.Device = d.nic.Index, d.resolver.VRF
	if why := d.network.Runs(); why != nil {
		d.info.Alone = why.Error()
	}
	if err := d.openParts(); err != nil {
		return nil, err
	}
	d.loop.self = d.local
	switch {
	case c.Receiver == plan.ReceiveSocket:
	case c.Opener == plan.OpenBroker:
		err = d.leaseRing()
	default:
		err = d.attachRing()
	}
	if err != nil {
		return nil, err
	}
	d.owned = true
	return d, nil
}

// openParts opens the sockets and the objects that belong to them.
func (d *socketDevice) openParts() (err error) {
	c := d.shared
	err = d.listen(c.First)
	if err != nil && c.First && c.Asked {
		c.Late, err = true, d.listen(false)
	}
	if err != nil {
		return err
	}
	d.sources = sources{
		network: d.network, in: d.in, opened: map[uint16]*source{},
		cfg: udp.Config{Local: d.local.AddrPort(), Scope: d.nic.Index, Device: d.resolver.VRF, SendBuffer: plan.SocketBuffer},
	}
	if d.Sleeper, err = sleep.New(d.in.FD(), d.in.Readable, d.cfg.LongestSpin()); err != nil {
		return err
	}
	if d.follower, err = follow.New(d.state, &d.resolver); err != nil {
		return err
	}
	d.errors = errorQueues{sources: &d.sources, local: d.local, unreachable: &d.unreachable, ended: &d.follower.Running}
	if d.rxPool, err = udp.NewPool(receiveFrames, mergedSize); err != nil {
		return err
	}
	if d.txPool, err = udp.NewPool(sendFrames, provider.FrameSize); err != nil {
		return err
	}
	d.receiver = udp.NewReceiver(d.rxPool, udpBatch, udpBatchBytes, wire.BaseHeaderLen)
	d.sender = udp.NewSender(udpBatch, provider.MaxFrags)
	d.sender.From(d.cfg.Address, d.nic.Index)
	return nil
}

// listen opens the receiving socket, on the well-known port or on a free port.
func (d *socketDevice) listen(wellKnown bool) (err error) {
	if wellKnown {
		d.in, err = sharing.Patiently(func() (*udp.Socket, error) { return d.open(d.cfg.UDPPort) })
		if err != nil {
			err = portError(err, d.cfg)
		}
		return err
	}
	for range ownPortTries {
		if d.in, err = d.open(wire.SourcePort(rand.Uint64())); err == nil {
			break
		}
	}
	return err
}

// open opens a socket to receive on a port.
func (d *socketDevice) open(port uint16) (*udp.Socket, error) {
	d.local = wire.EndpointFrom(netip.AddrPortFrom(d.cfg.Address, port))
	cfg := udp.Config{
		Local: d.local.AddrPort(), Scope: d.nic.Index, Device: d.resolver.VRF, ReceiveBuffer: plan.SocketBuffer, SendBuffer: plan.SocketBuffer,
		Runs: d.BulkOpen(), Stamps: true, Keep: keeps(d.stack.Driver, d.stack.Loopback),
	}
	in := (*udp.Socket)(nil)
	if port == d.cfg.UDPPort {
		in = d.shared.TakeKept()
	}
	if in == nil {
		return d.network.Open(cfg)
	}
	if err := in.Configure(cfg); err != nil {
		return nil, errors.Join(err, in.Close())
	}
	return in, nil
}

// ReceivePort implements Device.
func (d *socketDevice) ReceivePort() uint16 { return d.local.Port }

// Ports implements Device: one, because a socket has no queues.
func (d *socketDevice) Ports() []Port { return []Port{d} }

// Info implements Device.
func (d *socketDevice) Info() Info {
	i := d.info
	i.MAC, i.names = d.state.Identity()
	d.ring.describe(&i)
	i.noteSharing(d.shared)
	return i
}

// Alloc implements Device. It returns none, because the kernel copies packets from any memory.
func (d *socketDevice) Alloc(int) (mem []byte, id uint64, ok bool) { return nil, 0, false }

// Release implements Device.
func (d *socketDevice) Release(uint64) error { return nil }

// Stats implements Device.
func (d *socketDevice) Stats() (Stats, error) {
	s := Stats{
		Lost: d.lost.Load(), Foreign: d.foreign.Load(), TooLong: d.tooLong.Load(),
		InRuns: d.inRuns.Load(), Merged: d.merged.Load(),
	}
	d.loop.addTo(&s)
	d.sources.addTo(&s)
	d.unreachable.addTo(&s)
	s.addSleeps(d.Sleeper)
	d.ring.addTo(&s)
	d.statsMu.Lock()
	defer d.statsMu.Unlock()
	if d.closed {
		return s, os.ErrClosed
	}
	var err error
	s.Socket.RxDropped, err = d.in.Drops()
	return s, err
}

// Close implements Device.
func (d *socketDevice) Close() error {
	d.closeOnce.Do(func() {
		var errs []error
		errs = append(errs, d.part())
		if d.ring != nil {
			errs = append(errs, d.ring.give())
		}
		errs = append(errs, d.errors.close())
		if d.follower != nil {
			d.follower.Close()
		}
		if d.Sleeper != nil {
			errs = append(errs, d.Sleeper.Close())
		}
		d.statsMu.Lock()
		d.closed = true
		if d.in != nil {
			errs = append(errs, d.in.Close())
		}
		d.statsMu.Unlock()
		errs = append(errs, d.sources.close())
		if d.ring != nil {
			errs = append(errs, d.ring.Close())
		}
		for _, p := range []*udp.Pool{d.rxPool, d.txPool} {
			if p != nil {
				errs = append(errs, p.Close())
			}
		}
		d.closeErr = errors.Join(append(errs, d.close())...)
	})
	return d.closeErr
}

// TransmitDone implements Port. A socket has copied all packets that it took.
func (d *socketDevice) TransmitDone() bool { return true }

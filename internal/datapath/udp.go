package datapath

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/udp"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// The sizes of the UDP rung.
const (
	// udpBatch is the most packets of one system call. It bounds what a Receive takes.
	udpBatch = 64
	// udpBatchBytes ends a batch of large packets, which each take several microseconds to copy, so that the scheduler is
	// kept waiting for 100 µs at most and the engine finds them in the cache.
	udpBatchBytes = 512 << 10

	// sendFrames is the engine's cache of 128 and the frames of a batch of 44 packets that each have MaxFrags; a frame is free
	// again when Transmit returns.
	sendFrames = 1024
	// socketBuffer holds a window of the largest packets for both spaces, where the kernel allows so much.
	socketBuffer = 32 << 20
	// mergedSize is the most that the kernel hands over at once, so what a receive frame has to hold. Memory is taken for what arrives in it.
	mergedSize = 64 << 10
	// ownPortTries is how many ports an adapter tries that is not the first of its address.
	ownPortTries = 64
	// receiveFrames are those of a batch that the engine works on, and those that are posted, with as many to spare.
	receiveFrames = 3 * udpBatch
)

// Every packet fits into a receive frame, and transmit frames are what the engine takes them for.
const (
	_ = uint(mergedSize - wire.MaxPacket)
	_ = uint(-(provider.FrameSize % udp.PageSize))
)

// plainUDP is the rung that needs no privilege: one socket receives, on the well-known port or one of the adapter's own, and one for every source port sends
// (PROTOCOL §2). The kernel does what the frame templates, the steering and the neighbour table do for AF_XDP.
type plainUDP struct {
	*sleeper // of the receive socket
	*cohabitation
	watch     *watch
	state     *netState
	cfg       Config
	info      Info
	nl        *netlink.Handle
	neighbors neighbours
	network   *udp.Network // the cohabitation's
	in        *udp.Socket
	local     wire.Endpoint
	stack     stack
	ethernet  bool // peers are neighbours that the kernel has to find, on our interface
	opened    int  // the largest packet when it was opened

	// The owner's.
	maxPacket      int
	rxPool, txPool *udp.Pool
	trim           atomic.Bool // the progress goroutine went to sleep for long: frames that a burst took may go back
	receiver       *udp.Receiver
	ring           *ringReader // nil without a ring
	sender         *udp.Sender
	damaged        damage
	sources        sources
	paths          []udpPath
	freePaths      []provider.Path

	lost    atomic.Uint64
	foreign atomic.Uint64
	tooLong atomic.Uint64
	inRuns  atomic.Uint64
	merged  atomic.Uint64
	alone   atomic.Pointer[string] // why there are no runs, or no merged packets, any more

	errors      *udp.Watcher // of what was sent
	unreachable unreachable

	statsMu   sync.Mutex // guards in, for those who are not the owner, against Close
	closed    bool
	closeOnce sync.Once
	closeErr  error
}

type udpPath struct {
	from *source // nil when the path is free
	to   udp.Addr
}

// openUDP opens the rung.
func openUDP(cfg Config, c *cohabitation, reason string) (Device, error) {
	d, err := openSocket(cfg, c, reason)
	if err != nil {
		return nil, err
	}
	d.cohabitation = c
	return d, nil
}

// openSocket opens the rung for an adapter that has yet to get its cohabitation.
func openSocket(cfg Config, c *cohabitation, reason string) (_ *plainUDP, err error) {
	cfg.Address = cfg.Address.Unmap()
	d := &plainUDP{cfg: cfg, paths: make([]udpPath, 1)} // path 0 is none
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	if d.nl, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return nil, fmt.Errorf("open a route netlink socket: %w", err)
	}
	nic, err := interfaceOf(d.nl, cfg.Address, cfg.zone)
	if err != nil {
		return nil, err
	}
	if d.opened, err = maxPacket(nic, cfg.Address); err != nil {
		return nil, err
	}
	d.maxPacket = d.opened
	if d.neighbors, err = newNeighbours(d.nl, nic.Index, cfg.Address); err != nil {
		return nil, err
	}
	if d.stack, err = inspectStack(d.nl, nic.Index, nic.Driver); err != nil {
		return nil, err
	}
	d.neighbors.anywhere = d.stack.elsewhere()
	d.ethernet = len(nic.MAC) == 6 && !d.neighbors.anywhere
	d.info = Info{Interface: nic.Name, Index: nic.Index, Driver: nic.Driver, MTU: nic.MTU, Queues: nic.RxQueues, Rung: RungUDP, Reason: reason, Itself: true}
	link := linkFacts{name: nic.Name, up: nic.Up, mtu: nic.MTU}
	copy(link.mac[:], nic.MAC)
	d.state = newNetState(nic.Index, cfg.Address, link)
	d.network, c.scope, c.device = c.network, nic.Index, d.neighbors.vrf
	if why := d.network.Runs(); why != nil {
		d.goAlone(why.Error())
	}
	err = d.listen(c.first)
	if err != nil && c.first && c.asked {
		c.late, err = true, d.listen(false)
	}
	if err != nil {
		return nil, err
	}
	d.sources = sources{
		network: d.network, in: d.in, opened: map[uint16]*source{},
		cfg: udp.Config{Local: d.local.AddrPort(), Scope: nic.Index, Device: d.neighbors.vrf, SendBuffer: socketBuffer},
	}
	if d.sleeper, err = newSleeper(d.in.FD(), d.in.Readable, cfg.longestSpin()); err != nil {
		return nil, err
	}
	if d.errors, err = udp.NewWatcher(); err != nil {
		return nil, err
	}
	if d.watch, err = newWatch(d.state, &d.neighbors); err != nil {
		return nil, err
	}
	if d.rxPool, err = udp.NewPool(receiveFrames, mergedSize); err != nil {
		return nil, err
	}
	if d.txPool, err = udp.NewPool(sendFrames, provider.FrameSize); err != nil {
		return nil, err
	}
	d.receiver = udp.NewReceiver(d.rxPool, udpBatch, udpBatchBytes, wire.BaseHeaderLen)
	d.sender = udp.NewSender(udpBatch, provider.MaxFrags)
	d.sender.From(cfg.Address, nic.Index)
	return d, nil
}

// listen opens the socket that receives: on the well-known port, or on one that nobody has.
func (d *plainUDP) listen(wellKnown bool) (err error) {
	if wellKnown {
		d.in, err = patiently(func() (*udp.Socket, error) { return d.open(d.cfg.UDPPort) })
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
func (d *plainUDP) open(port uint16) (*udp.Socket, error) {
	d.local = wire.EndpointFrom(netip.AddrPortFrom(d.cfg.Address, port))
	return d.network.Open(udp.Config{
		Local: d.local.AddrPort(), Scope: d.neighbors.index, Device: d.neighbors.vrf, ReceiveBuffer: socketBuffer, SendBuffer: socketBuffer,
		Runs: d.alone.Load() == nil, Stamps: true, Keep: keeps(d.stack.driver, d.stack.lo),
	})
}

// ReceivePort implements Device.
func (d *plainUDP) ReceivePort() uint16 { return d.local.Port }

// Ports implements Device: one, because a socket has no queues.
func (d *plainUDP) Ports() []Port { return []Port{d} }

// Info implements Device.
func (d *plainUDP) Info() Info {
	i := d.info
	i.MAC = d.state.mac()
	if why := d.alone.Load(); why != nil {
		i.Alone = *why
	}
	d.ring.describe(&i)
	return i
}

// Alloc implements Device: the kernel copies whatever is sent, from ordinary memory as well as from any other.
func (d *plainUDP) Alloc(int) (mem []byte, id uint64, ok bool) { return nil, 0, false }

// Release implements Device.
func (d *plainUDP) Release(uint64) error { return nil }

// Stats implements Device.
func (d *plainUDP) Stats() (Stats, error) {
	s := Stats{
		Lost: d.lost.Load(), Foreign: d.foreign.Load(), TooLong: d.tooLong.Load(),
		InRuns: d.inRuns.Load(), Merged: d.merged.Load(),
	}
	d.sources.addTo(&s)
	d.unreachable.addTo(&s)
	d.spin.addTo(&s)
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
func (d *plainUDP) Close() error {
	d.closeOnce.Do(func() {
		var errs []error
		if d.cohabitation != nil {
			errs = append(errs, d.leave())
		}
		if d.ring != nil {
			errs = append(errs, d.ring.give())
		}
		if d.errors != nil {
			errs = append(errs, d.errors.Close())
		}
		if d.watch != nil {
			d.watch.close()
		}
		if d.sleeper != nil {
			errs = append(errs, d.closeSleeper())
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
		if d.nl != nil {
			d.nl.Close()
		}
		errs = append(errs, d.neighbors.close())
		d.closeErr = errors.Join(errs...)
	})
	return d.closeErr
}

// TransmitDone implements Port: what a socket took it has copied.
func (d *plainUDP) TransmitDone() bool { return true }

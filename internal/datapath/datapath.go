package datapath

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/bpf"
	"github.com/ndxdp/ndxdp/internal/broker"
	"github.com/ndxdp/ndxdp/internal/datapath/follow"
	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/datapath/sharing"
	"github.com/ndxdp/ndxdp/internal/host"
	"github.com/ndxdp/ndxdp/internal/icmp"
	"github.com/ndxdp/ndxdp/internal/udp"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/xdp"
)

// Info describes an open datapath.
type Info struct {
	Interface string
	Index     int // of the interface
	Driver    string
	MAC       [6]byte // the link-layer address now; zero if the interface has none of six bytes
	MTU       int     // the MTU when the adapter was opened
	Queues    int
	Datapath  plan.Datapath
	Reason    string // why this datapath
	Socket    xdp.Info
	Copying   string // why the sockets copy; empty with zero-copy, and for plain sockets
	BulkPort  uint16 // UDP port of the bulk path beside AF_XDP; zero without one
	Long      bool   // the bulk path takes long packets, and its peers may be on the same machine (PROTOCOL §11.2)
	NoBulk    string // why there is no bulk path now; empty if there is one
	Itself    bool   // the adapter reaches addresses of its own machine, also its own address
	Alone     string // why plain sockets send or receive packets one by one; empty with GSO batches, and for AF_XDP
	names     string // names of the interface now, as in LinkFacts.names
}

// noteSharing adds to Info what the user should know about the well-known port. A device that is opened for another process shares
// nothing.
func (i *Info) noteSharing(shared *sharing.Address) {
	if shared == nil {
		return
	}
	if what := shared.Noticed(); what != "" {
		i.Reason += "; " + what
	}
}

// xdpDevice is a Device that moves packets between the queues of a NIC and their engines over AF_XDP.
type xdpDevice struct {
	base
	index     int
	mac       [6]byte       // at the time of the open; state has the present address
	wellKnown uint16        // UDP port for requests of peers: cfg.UDPPort, except for the lease of a later process
	udp       *udp.Socket   // reserves the UDP port, or resolves neighbours if a broker holds the port; only local reads it
	steering  *bpf.Steering // nil if a broker has the steering program, and with filling
	filling   *bpf.Ring     // the ring of plan.TCX; nil for other datapaths
	lease     *broker.Lease // nil without a broker
	umem      *xdp.UMEM
	arena     *arena
	queues    []*queue  // by number
	bulk      *bulkLane // nil without one
	local     *localWay // nil if a broker holds the UDP port

	maxPacket   int // the largest packet when the adapter was opened
	single      bool
	sizes       plan.Sizes    // of each queue
	pathsMade   atomic.Uint64 // number of paths made so far
	icmp        *icmp.Socket  // nil if raw sockets are not allowed
	heard       *errorQueues  // nil if raw sockets are allowed
	unreachable unreachable

	statsMu   sync.Mutex // keeps Close from closing the sockets and the steering program during Stats and probeNeighbour
	closeOnce sync.Once
	closeErr  error
}

// openFrames opens a candidate that sends over AF_XDP, either by itself or from a broker's lease.
func openFrames(b base, c *plan.Candidate) (_ *xdpDevice, err error) {
	d := newXDPDevice(b)
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	if c.Opener == plan.OpenBroker {
		err = d.useLease()
	} else if err = d.openSockets(c, nil); err == nil {
		err = d.addLocal()
	}
	if err == nil {
		err = d.follow(c)
	}
	if err != nil {
		return nil, err
	}
	if c.Opener == plan.OpenBroker {
		d.shared.Scope, d.shared.Device, d.shared.Toward = d.index, d.resolver.VRF, d.toward
	}
	d.owned = true
	return d, nil
}

// newXDPDevice returns a device that has nothing open yet.
func newXDPDevice(b base) *xdpDevice {
	return &xdpDevice{base: b, index: b.nic.Index, mac: b.info.MAC, wellKnown: b.cfg.UDPPort, maxPacket: b.opened}
}

// openSockets opens the parts that need privileges. terms is nil unless the device is opened for a client of a broker.
func (d *xdpDevice) openSockets(c *plan.Candidate, terms *Terms) error {
	buffer := 0
	if terms == nil {
		buffer = plan.SocketBuffer
	}
	if d.udp == nil {
		if err := d.reservePort(buffer); err != nil {
			return err
		}
	}
	return d.attach(d.nic, c, terms)
}

// follow starts the parts that need no privileges: resolving neighbours, following changes, and, if allowed, receiving ICMP errors.
func (d *xdpDevice) follow(c *plan.Candidate) (err error) {
	d.state.Ways, d.state.Native = true, d.info.Datapath == plan.Native
	if c.Bulk == plan.BulkBeside {
		if err := d.addBulk(); err != nil {
			if d.cfg.Bulk != plan.BulkAuto {
				return err
			}
			d.info.NoBulk = err.Error()
		}
	}
	if d.follower, err = follow.New(d.state, &d.resolver); err != nil {
		return err
	}
	return d.listenForErrors()
}

// InZone reports whether a zone, which may be empty, names the interface by its index, its name or an alternative name.
func (i *Info) InZone(zone string) bool {
	return zone == i.Interface || host.InZone(zone, i.Index, i.names)
}

// reservePort binds an ordinary UDP socket to the ND port. So a second owner of the port fails, and the kernel does not answer stray ND
// packets with ICMP errors (PROTOCOL §2). If nobody reads the socket, its buffer is kept small.
func (d *xdpDevice) reservePort(buffer int) (err error) {
	d.udp, err = sharing.Patiently(func() (*udp.Socket, error) {
		return d.network.Open(udp.Config{
			Local: netip.AddrPortFrom(d.cfg.Address, d.cfg.UDPPort), Scope: d.index, Device: d.resolver.VRF, ReceiveBuffer: buffer, SendBuffer: plan.SocketBuffer,
			Stamps: true,
		})
	})
	if err != nil {
		return portError(err, d.cfg)
	}
	return nil
}

// moreDescriptors is the remedy when the kernel has no descriptor for this process.
const moreDescriptors = "let the process have more descriptors (ulimit -n), or close others"

func portError(err error, cfg plan.Config) error {
	remedy := ": end the program that uses it (ss -ulpn), or give both peers another UDP port"
	switch {
	case lacksDescriptors(err): // the error of Open names the remedy
		remedy = ""
	case errors.Is(err, unix.EADDRNOTAVAIL):
		remedy = ": the address may be gone, or new and tentative while the kernel looks whether another host has it: see ip address, and try again"
	}
	return fmt.Errorf("reserve UDP port %d on %s for ND traffic: %w%s", cfg.UDPPort, cfg.Address, err, remedy)
}

// attach loads the steering program and opens the sockets. terms has the same meaning as in openSockets.
func (d *xdpDevice) attach(nic xdp.NIC, c *plan.Candidate, terms *Terms) error {
	if c.Receiver == plan.ReceiveRing {
		return d.attachTCX(&nic)
	}
	multi := xdp.MultiBufferSupported()
	d.single = nic.MTU <= plan.SingleBufferMTU
	mode := bpf.ModeGeneric
	if c.Native {
		mode = bpf.ModeNative
	}
	steering, err := bpf.Attach(bpf.Config{
		Ifindex: nic.Index, Interface: nic.Name, Port: d.cfg.UDPPort, Queues: provider.MaxEngines, Mode: mode,
		SingleBuffer: d.single,
	})
	if err != nil {
		return err
	}
	d.steering = steering
	// The queues are counted again after the program is attached: virtio-net may use additional queues for it, and also receives on them.
	if nic, err = xdp.Inspect(nic.Name); err != nil {
		return errors.Join(err, d.detach())
	}
	d.info.Queues = nic.RxQueues
	copying, err := d.openQueues(&nic, plan.BindFacts{
		Datapath: c.Datapath(), Single: d.single, MultiBuffer: multi, Brokered: terms != nil, Exposed: terms != nil && terms.ZeroCopy,
	})
	if err != nil {
		return errors.Join(err, d.detach())
	}
	if err := d.steer(); err != nil {
		return errors.Join(err, d.detach())
	}
	d.info.Datapath, d.info.Copying = c.Datapath(), copying
	return nil
}

// steer lets the steering program redirect ND traffic. It comes last, when all sockets are ready.
func (d *xdpDevice) steer() error {
	for number, q := range d.queues {
		if err := d.steering.SetSocket(uint32(number), q.sock.FD()); err != nil {
			return err
		}
	}
	return d.steering.AddAddress(d.cfg.Address)
}

// detach undoes attach, in reverse order.
func (d *xdpDevice) detach() error {
	var errs []error
	if d.steering != nil {
		errs = append(errs, d.steering.Close())
		d.steering = nil
	}
	if d.filling != nil {
		errs = append(errs, d.filling.Close())
		d.filling = nil
	}
	errs = append(errs, d.closeSockets())
	return errors.Join(errs...)
}

func (d *xdpDevice) closeSockets() error {
	var errs []error
	for _, q := range d.queues {
		if q.Sleeper != nil {
			errs = append(errs, q.Close()) // the sleeper's
		}
		errs = append(errs, q.sock.Close())
		if q.ring != nil {
			errs = append(errs, q.ring.Close())
		}
		for _, r := range q.beside {
			errs = append(errs, r.close())
		}
	}
	d.queues = nil
	if d.umem != nil {
		errs = append(errs, d.arena.close(d.umem.Close))
		d.umem = nil
	}
	return errors.Join(errs...)
}

// Info describes the open datapath.
func (d *xdpDevice) Info() Info {
	i := d.info
	i.MAC, i.names = d.state.Identity()
	i.Itself = d.local != nil
	i.noteSharing(d.shared)
	if d.bulk != nil {
		if why := d.bulk.shut.Load(); why != nil {
			i.NoBulk = *why
		}
	}
	return i
}

// ReceivePort implements Device.
func (d *xdpDevice) ReceivePort() uint16 { return d.cfg.UDPPort }

// Ports implements Device: one for each receive queue, in order.
func (d *xdpDevice) Ports() []Port {
	ports := make([]Port, len(d.queues))
	for i, q := range d.queues {
		ports[i] = q
	}
	return ports
}

// Close detaches the program and closes everything. The engine must not run any more.
func (d *xdpDevice) Close() error {
	d.closeOnce.Do(func() {
		var errs []error
		errs = append(errs, d.part())
		if d.lease != nil {
			errs = append(errs, d.lease.Close())
		}
		if d.icmp != nil {
			errs = append(errs, d.icmp.Close())
		}
		if d.heard != nil {
			errs = append(errs, d.heard.close())
		}
		if d.local != nil {
			d.local.stop()
		}
		if d.follower != nil {
			d.follower.Close()
		}
		d.statsMu.Lock()
		errs = append(errs, d.detach())
		if d.bulk != nil {
			errs = append(errs, d.bulk.close())
		}
		if d.local != nil {
			errs = append(errs, d.local.sources.close())
		}
		if d.heard != nil {
			errs = append(errs, d.heard.sources.close())
		}
		if d.udp != nil {
			errs = append(errs, d.udp.Close())
			d.udp = nil
		}
		d.statsMu.Unlock()
		d.closeErr = errors.Join(append(errs, d.close())...)
	})
	return d.closeErr
}

// OffsetIn returns the offset of sub in area. ok is true only if all of sub is inside area.
func OffsetIn(area, sub []byte) (offset int, ok bool) { return xdp.OffsetIn(area, sub) }

package datapath

import (
	"errors"
	"strings"

	"github.com/ndxdp/ndxdp/internal/datapath/follow"
	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/datapath/sharing"
	"github.com/ndxdp/ndxdp/internal/host"
	"github.com/ndxdp/ndxdp/internal/udp"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/xdp"
)

// base is the common part of all devices: the interface, the kernel's facts about it, and further adapters of the address. Open reads the
// facts once, and gives a copy to each candidate that it tries. The opened device owns the shared objects, and closes them.
type base struct {
	shared   *sharing.Address // nil if the device is opened for another process
	cfg      plan.Config
	info     Info
	nic      xdp.NIC
	stack    host.Stack
	network  *udp.Network
	kernel   *host.Kernel
	resolver host.Resolver
	state    *follow.State // not shared: each copy of base has a state of its own
	follower *follow.Follower
	opened   int // the largest packet at the time of the open
	owned    bool
}

// survey collects the facts about the interface of cfg.Address. live is true if an adapter of this process will use the device, and so
// shares the address with other adapters. It is false in a broker, which opens the device for another process.
func survey(cfg plan.Config, live bool) (_ *base, err error) {
	cfg.Address = cfg.Address.Unmap()
	b := &base{cfg: cfg, owned: true}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.kernel, err = host.OpenKernel(); err != nil {
		return nil, err
	}
	if b.nic, err = host.InterfaceWith(b.kernel.Netlink, cfg.Address, cfg.Zone); err != nil {
		return nil, err
	}
	if b.opened, err = plan.MaxPacket(b.nic, cfg.Address); err != nil {
		return nil, err
	}
	if b.stack, err = host.InspectStack(b.kernel.Netlink, &b.nic); err != nil {
		return nil, err
	}
	if b.resolver, err = host.NewResolver(b.kernel, b.nic.Index, cfg.Address); err != nil {
		return nil, err
	}
	b.info = Info{Interface: b.nic.Name, Index: b.nic.Index, Driver: b.nic.Driver, MTU: b.nic.MTU, Queues: b.nic.RxQueues}
	copy(b.info.MAC[:], b.nic.MAC)
	if !live {
		b.network, err = udp.NewNetwork()
		return b, err
	}
	if b.shared, err = sharing.Join(sharing.Port(cfg.Address, cfg.UDPPort, b.nic.Index)); err != nil {
		return nil, err
	}
	b.network = b.shared.Network
	return b, nil
}

// PortSpace implements Device.
func (b *base) PortSpace() provider.PortSpace { return b.shared }

// open tries the candidates of the plan in their order.
func (b *base) open() (Device, error) {
	shared := ""
	if !b.shared.First {
		shared = b.shared.Why()
	}
	f := plan.Gather(&b.cfg, &b.nic, &b.stack, shared)
	if !b.kernel.SeesNeighbours() {
		f.Netlink = host.ErrBlind
	}
	list, err := plan.List(b.cfg.Datapath, &f)
	var failed []error
	var said []string
	for i := range list {
		c := &list[i]
		if !c.Hopeful(failed) {
			continue
		}
		var d Device
		if d, err = b.try(c, said); err == nil {
			return d, nil
		}
		failed = append(failed, err)
		if text := c.RefusedWith(err); text != "" {
			said = append(said, text)
		}
	}
	if b.cfg.Broker != "" && len(failed) > 0 {
		err = errors.Join(failed...)
	}
	return nil, err // for plan.Auto: the error of plain sockets, which names what to permit
}

// try opens a candidate. said has the reasons that the failures of earlier candidates gave.
func (b *base) try(c *plan.Candidate, said []string) (Device, error) {
	own := *b
	own.owned = false
	link := host.LinkFacts{Name: b.nic.Name, Up: b.nic.Up, MTU: b.nic.MTU, MAC: b.info.MAC}
	own.state = follow.NewState(b.nic.Index, b.cfg.Address, link)
	own.info.Reason = c.Reason
	if len(said) > 0 {
		own.info.Reason = strings.TrimPrefix(c.Reason+"; "+strings.Join(said, "; "), "; ")
	}
	if c.Sender == plan.SendXDP {
		if b.shared != nil {
			if err := b.shared.LetGo(); err != nil { // the candidate opens a UDP socket of its own beside AF_XDP
				return nil, err
			}
		}
		d, err := openFrames(own, c)
		if err != nil {
			return nil, err
		}
		return d, nil
	}
	d, err := openPlain(own, c)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// part stops the packets that adapters of this machine send to the device. Close calls it first.
func (b *base) part() error {
	if !b.owned || b.shared == nil {
		return nil
	}
	return b.shared.Leave()
}

// close frees the objects that the copies of base share. Close calls it last.
func (b *base) close() error {
	if !b.owned {
		return nil
	}
	var errs []error
	if b.shared == nil && b.network != nil {
		errs = append(errs, b.network.Close())
	}
	if b.kernel != nil {
		errs = append(errs, b.kernel.Leave())
	}
	return errors.Join(errs...)
}

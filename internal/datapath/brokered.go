package datapath

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/ndxdp/ndxdp/internal/broker"
	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/wire"
	"github.com/ndxdp/ndxdp/xdp"
)

// Terms are what a broker offers.
type Terms struct {
	Interface string
	UDPPort   uint16
	Datapath  plan.Datapath // plan.Auto lets the client choose between generic and native mode; plan.Ring offers only rings
	// ZeroCopy allows zero-copy if the driver has it. The client can then read everything that arrives on the interface.
	ZeroCopy bool
}

// Missing names the capabilities for these terms that the calling thread lacks. Rings open no socket of AF_XDP.
func (t Terms) Missing() []string {
	if t.Datapath == plan.Ring {
		return plan.ForRing(xdp.MissingCapabilities())
	}
	return xdp.MissingCapabilities()
}

// Brokered is an interface that a broker opened for another process. It implements broker.Opened.
type Brokered struct {
	d     *xdpDevice
	grant broker.Grant
	fds   []int
}

// OpenBrokered opens the datapath that a client of a broker requests, if the terms allow it. It needs the privileges of AF_XDP, and works
// in the calling thread's network namespace.
func OpenBrokered(r *broker.Request, terms Terms) (_ *Brokered, err error) {
	datapath, err := plan.Parse(r.Datapath)
	switch {
	case err != nil:
		return nil, err
	case datapath == plan.UDP:
		return nil, errors.New("plain UDP sockets need no broker")
	case terms.Datapath == plan.Ring:
		return nil, errors.New("this broker leases only rings, and no AF_XDP sockets")
	case r.UDPPort != terms.UDPPort && !wire.IsSourcePort(r.UDPPort):
		return nil, fmt.Errorf("UDP port %d was asked for: this broker offers only %d, and other ports to later adapters", r.UDPPort, terms.UDPPort)
	case datapath == plan.Auto:
		datapath = terms.Datapath
	case terms.Datapath != plan.Auto && datapath != terms.Datapath:
		return nil, fmt.Errorf("the %s datapath was asked for: this broker offers %s only", datapath, terms.Datapath)
	}
	cfg := plan.Config{Address: netip.Addr.Unmap(r.Address), UDPPort: r.UDPPort, Datapath: datapath, Arena: r.Arena}
	cfg.SplitZone()
	b, err := survey(cfg, false)
	if err != nil {
		return nil, err
	}
	if b.nic.Name != terms.Interface {
		return nil, errors.Join(fmt.Errorf("%s is an address of interface %s: this broker offers %s only", cfg.Address, b.nic.Name, terms.Interface), b.close())
	}
	d, err := b.openForClient(&terms)
	if err != nil {
		if errors.Is(err, xdp.ErrQueueBusy) {
			err = &broker.HeldError{Err: err}
		}
		return nil, errors.Join(err, b.close())
	}
	l := &Brokered{d: d, fds: []int{d.umem.FD()}}
	for _, q := range d.queues {
		l.fds = append(l.fds, q.sock.FD())
	}
	i, s := &d.info, &d.sizes
	l.grant = broker.Grant{
		Ifindex: d.index, MAC: d.mac, Datapath: i.Datapath.String(), Reason: i.Reason, Queues: len(d.queues),
		RxFrames: s.RxFrames, TxFrames: s.TxFrames, Arena: len(d.umem.Arena()),
		RxRing: s.RxRing, FillRing: s.FillRing, TxRing: s.TxRing, CompletionRing: s.CompletionRing,
		MultiBuffer: i.Socket.MultiBuffer, SingleBuffer: d.single,
		ZeroCopy: i.Socket.ZeroCopy, Copying: i.Copying, SendBuffer: i.Socket.SendBuffer, TxBudget: i.Socket.TxBudget,
	}
	return l, nil
}

// openForClient tries the candidates that are planned for another process.
func (b *base) openForClient(terms *Terms) (*xdpDevice, error) {
	f := plan.Gather(&b.cfg, &b.nic, &b.stack, "")
	f.Client = true
	list, err := plan.List(b.cfg.Datapath, &f)
	var failed []error
	reason := ""
	for i := range list {
		c := &list[i]
		if !c.Hopeful(failed) {
			continue
		}
		d := newXDPDevice(*b)
		d.owned, d.info.Reason = false, c.Reason
		if reason != "" {
			d.info.Reason = reason
		}
		if err = d.openSockets(c, terms); err == nil {
			d.owned = true
			return d, nil
		}
		reason = c.RefusedWith(err)
		err = errors.Join(err, d.Close())
		failed = append(failed, err)
	}
	return nil, err
}

// Grant implements broker.Opened.
func (l *Brokered) Grant() (broker.Grant, []int) { return l.grant, l.fds }

// Delivered implements broker.Opened. The steering program redirects to a socket until the last descriptor of the socket is closed.
func (l *Brokered) Delivered() error { return l.d.closeSockets() }

// Close implements broker.Opened.
func (l *Brokered) Close() error { return l.d.Close() }

package datapath

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/ndxdp/ndxdp/internal/broker"
	"github.com/ndxdp/ndxdp/wire"
	"github.com/ndxdp/ndxdp/xdp"
)

// Terms are what a broker offers.
type Terms struct {
	Interface string
	UDPPort   uint16
	Rung      Rung // RungAuto leaves the choice between generic and native to the client; RungRing is for rings only
	// ZeroCopy allows it where the driver has it. The client can then read everything that arrives on the interface.
	ZeroCopy bool
	BusyPoll bool // as in Config
}

// Missing names the capabilities that the calling thread lacks to open anything on these terms. Rings open no socket of AF_XDP.
func (t Terms) Missing() []string {
	if t.Rung == RungRing {
		return forRing(xdp.MissingCapabilities())
	}
	return xdp.MissingCapabilities()
}

// forRing is what a ring takes of the capabilities that AF_XDP takes.
func forRing(missing []string) []string {
	return slices.DeleteFunc(slices.Clone(missing), func(s string) bool { return s == xdp.MissingNetRaw })
}

// Brokered is an interface opened for another process. It is a broker.Opened.
type Brokered struct {
	d     *xdpDevice
	grant broker.Grant
	fds   []int
}

// OpenBrokered opens what a client of a broker asks for, if the terms allow it. It takes the privileges of AF_XDP, and works in the calling
// thread's network namespace.
func OpenBrokered(r *broker.Request, terms Terms) (_ *Brokered, err error) {
	rung, err := ParseRung(r.Datapath)
	switch {
	case err != nil:
		return nil, err
	case rung == RungUDP:
		return nil, errors.New("plain UDP sockets need no broker")
	case terms.Rung == RungRing:
		return nil, errors.New("this broker offers only rings, and no AF_XDP")
	case r.UDPPort != terms.UDPPort && !wire.IsSourcePort(r.UDPPort):
		return nil, fmt.Errorf("UDP port %d was asked for: this broker offers only %d, and other ports to later adapters", r.UDPPort, terms.UDPPort)
	case rung == RungAuto:
		rung = terms.Rung
	case terms.Rung != RungAuto && rung != terms.Rung:
		return nil, fmt.Errorf("the %s datapath was asked for: this broker offers %s only", rung, terms.Rung)
	}
	cfg := Config{Address: netip.Addr.Unmap(r.Address), UDPPort: r.UDPPort, Rung: rung, Arena: r.Arena, BusyPoll: terms.BusyPoll}
	cfg.splitZone()
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
		Ifindex: d.index, MAC: d.mac, Datapath: i.Rung.String(), Reason: i.Reason, Queues: len(d.queues),
		RxFrames: s.rxFrames, TxFrames: s.txFrames, Arena: len(d.umem.Arena()),
		RxRing: s.rxRing, FillRing: s.fillRing, TxRing: s.txRing, CompletionRing: s.completionRing,
		MultiBuffer: i.Socket.MultiBuffer, SingleBuffer: d.single,
		ZeroCopy: i.Socket.ZeroCopy, Copying: i.Copying, BusyPoll: i.Socket.BusyPoll, SendBuffer: i.Socket.SendBuffer, TxBudget: i.Socket.TxBudget,
	}
	return l, nil
}

// openForClient tries what is planned for another process.
func (b *base) openForClient(terms *Terms) (*xdpDevice, error) {
	f := gather(&b.cfg, &b.nic, &b.stack, "")
	f.client = true
	list, err := plan(b.cfg.Rung, &f)
	var failed []error
	reason := ""
	for i := range list {
		c := &list[i]
		if !c.hopeful(failed) {
			continue
		}
		d := newXDPDevice(*b)
		d.owned, d.info.Reason = false, c.reason
		if reason != "" {
			d.info.Reason = reason
		}
		if err = d.openSockets(c, terms); err == nil {
			d.owned = true
			return d, nil
		}
		reason = c.refusedWith(err)
		err = errors.Join(err, d.Close())
		failed = append(failed, err)
	}
	return nil, err
}

// Grant implements broker.Opened.
func (l *Brokered) Grant() (broker.Grant, []int) { return l.grant, l.fds }

// Delivered implements broker.Opened. The steering leads to a socket until the last descriptor of it is closed.
func (l *Brokered) Delivered() error { return l.d.closeSockets() }

// Close implements broker.Opened.
func (l *Brokered) Close() error { return l.d.Close() }

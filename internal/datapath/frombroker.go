package datapath

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/broker"
	"github.com/ndxdp/ndxdp/internal/udp"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/xdp"
)

const _ = uint(broker.MaxQueues - provider.MaxEngines)

// openFromBroker asks the broker that was named.
func openFromBroker(cfg Config, c *cohabitation) (Device, error) {
	if cfg.Rung == RungUDP {
		return nil, errors.New("plain UDP sockets need no broker: choose another datapath, or leave the broker out")
	}
	dial := func(_ string, r broker.Request) (*broker.Lease, error) { return broker.Dial(cfg.Broker, r) }
	if cfg.Rung == RungRing {
		return openLeasedRing(cfg, c, dial, askedFor)
	}
	d, err := openLease(cfg, c, dial)
	if err == nil {
		return d, nil
	}
	var rings *broker.RingsError
	if !errors.As(err, &rings) {
		return nil, err
	}
	instead, failed := openLeasedRing(cfg, c, dial, rings.Error())
	if failed != nil {
		return nil, errors.Join(err, failed)
	}
	return instead, nil
}

// openLeasedRing opens plain sockets with a ring of the broker that dial asks, or not at all.
func openLeasedRing(cfg Config, c *cohabitation, dial ringDial, why string) (Device, error) {
	d, err := openSocket(cfg, c, why)
	if err != nil {
		return nil, err
	}
	if err := d.leaseRing(func(r broker.Request) (*broker.Lease, error) { return dial(d.info.Interface, r) }); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	d.cohabitation = c
	return d, nil
}

// openLease makes a datapath of what a broker opened, which dial asks, for the interface that it is told. It takes no privileges: rings and frames are mapped,
// everything else is done.
func openLease(cfg Config, c *cohabitation, dial func(name string, r broker.Request) (*broker.Lease, error)) (_ *Datapath, err error) {
	d := &Datapath{cfg: cfg, wellKnown: c.at.Port()}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	if _, err := d.findInterface(); err != nil {
		return nil, err
	}
	if d.lease, err = dial(d.info.Interface, broker.Request{
		Address: cfg.Address.WithZone(cfg.zone), UDPPort: cfg.UDPPort, Datapath: cfg.Rung.String(), Arena: cfg.Arena,
	}); err != nil {
		return nil, err
	}
	if err := d.mapLease(); err != nil {
		return nil, err
	}
	if d.udp, err = d.network.Open(udp.Config{Local: netip.AddrPortFrom(cfg.Address, 0), Scope: d.index, Device: d.index, SendBuffer: socketBuffer}); err != nil {
		return nil, fmt.Errorf("open a socket to look for neighbours: %w", err)
	}
	if err := d.follow(); err != nil {
		return nil, err
	}
	c.scope, c.device, c.toward = d.index, d.neighbors.vrf, d.toward
	d.cohabitation = c
	return d, nil
}

// toward finds the link-layer address that leads to a peer whose packet came beside AF_XDP, which alone tells it. Where the kernel does not know it, it is made to ask.
func (d *Datapath) toward(peer netip.Addr) (mac [6]byte, known bool) {
	if mac, known = d.state.cached(peer); known {
		return mac, true
	}
	hop, err := d.neighbors.hopTo(peer)
	if err != nil {
		return mac, false
	}
	n, err := d.neighbors.look(hop)
	if err == nil && !n.known && n.state&unix.NUD_INCOMPLETE == 0 {
		d.refresh(hop, peer)
	}
	return n.mac, n.known
}

// probeNeighbour sends an empty datagram to a peer, which makes the kernel resolve the neighbour: asking for just that takes
// CAP_NET_ADMIN. What is lost of it shows as a neighbour that does not appear.
func (d *Datapath) probeNeighbour(dst netip.Addr) {
	d.statsMu.Lock()
	defer d.statsMu.Unlock()
	if d.udp == nil {
		return
	}
	to := udp.AddrOf(netip.AddrPortFrom(dst, d.wellKnown), d.index)
	s := udp.NewSender(1, 1)
	s.Begin(&to, false, 0, false)
	s.Send(d.udp)
}

// mapLease maps what the lease brought.
func (d *Datapath) mapLease() error {
	g := &d.lease.Grant
	if g.Ifindex != d.index || g.MAC != d.mac {
		return fmt.Errorf("the broker at %s has another interface with the address %s: it must work in the network namespace of this process",
			d.lease.Path, d.cfg.Address)
	}
	rung, err := ParseRung(g.Datapath)
	if err != nil {
		return err
	}
	queues := uint32(g.Queues)
	if uint64(g.RxFrames)+uint64(g.TxFrames) > MaxFrameMemory/xdp.FrameSize/uint64(queues) || g.Arena > broker.MaxArena {
		return fmt.Errorf("the broker grants more memory than was asked for: %+v", *g)
	}
	memory := d.lease.Memory
	d.lease.Memory = -1
	if d.umem, err = xdp.UMEMFromFD(memory, xdp.UMEMConfig{
		RxFrames: queues * g.RxFrames, TxFrames: queues * g.TxFrames, ArenaBytes: g.Arena,
	}); err != nil {
		d.umem = nil
		return err
	}
	d.arena, d.single = newArena(d.umem), g.SingleBuffer
	mode := xdp.ModeCopy
	if g.ZeroCopy {
		mode = xdp.ModeZeroCopy
	}
	for number := range queues {
		fd := d.lease.Sockets[number]
		d.lease.Sockets[number] = -1
		sock, err := xdp.SocketFromFD(d.umem, xdp.Config{
			Ifindex: g.Ifindex, Queue: number, Mode: mode, MultiBuffer: g.MultiBuffer,
			RxFrames: g.RxFrames, TxFrames: g.TxFrames, TxBudget: g.TxBudget,
			RxRing: g.RxRing, FillRing: g.FillRing, TxRing: g.TxRing, CompletionRing: g.CompletionRing,
		}, fd, xdp.Info{
			ZeroCopy: g.ZeroCopy, MultiBuffer: g.MultiBuffer, BusyPoll: g.BusyPoll, SendBuffer: g.SendBuffer, TxBudget: g.TxBudget,
		})
		if err != nil {
			return err
		}
		if err := d.addQueue(sock); err != nil {
			return err
		}
	}
	d.info.Queues, d.info.Rung, d.info.Reason, d.info.Socket = g.Queues, rung, "leased from a broker: "+g.Reason, d.queues[0].sock.Info()
	d.info.Copying = g.Copying
	return nil
}

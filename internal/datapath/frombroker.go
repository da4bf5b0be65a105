package datapath

import (
	"fmt"
	"math/rand/v2"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/broker"
	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/udp"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
	"github.com/ndxdp/ndxdp/xdp"
)

const _ = uint(broker.MaxQueues - provider.MaxEngines)

// useLease makes the device from the objects that a broker opened. It needs no privileges: it maps rings and frames. A later adapter
// requests a UDP port of its own, as over plain sockets.
func (d *xdpDevice) useLease() (err error) {
	if d.cfg.Broker == "" && !d.shared.First {
		d.cfg.UDPPort = wire.SourcePort(rand.Uint64())
	}
	if d.lease, err = d.dial(broker.Request{
		Address: d.cfg.Address.WithZone(d.cfg.Zone), UDPPort: d.cfg.UDPPort, Datapath: d.cfg.Datapath.String(), Arena: d.cfg.Arena,
	}); err != nil {
		return err
	}
	because := d.info.Reason
	if err := d.mapLease(); err != nil {
		return err
	}
	if because != "" {
		d.info.Reason += fmt.Sprintf("; the broker at %s was asked because %s", d.lease.Path, because)
	}
	d.udp, err = d.network.Open(udp.Config{Local: netip.AddrPortFrom(d.cfg.Address, 0), Scope: d.index, Device: d.index, SendBuffer: plan.SocketBuffer})
	if err != nil {
		return fmt.Errorf("open a socket to look for neighbours: %w", err)
	}
	return nil
}

// toward returns the link-layer address for packets to a peer whose packet did not arrive over AF_XDP. Only a packet over AF_XDP shows
// that address. If the kernel does not know the address, toward makes the kernel resolve it.
func (d *xdpDevice) toward(peer netip.Addr) (mac [6]byte, known bool) {
	if mac, known = d.state.Cached(peer); known {
		return mac, true
	}
	hop, err := d.resolver.HopTo(peer)
	if err != nil {
		return mac, false
	}
	n, err := d.resolver.Look(hop)
	if err == nil && !n.Known && n.State&unix.NUD_INCOMPLETE == 0 {
		d.Refresh(hop, peer)
	}
	return n.MAC, n.Known
}

// probeNeighbour sends an empty datagram to a peer, which makes the kernel resolve the neighbour. A direct request needs CAP_NET_ADMIN. If
// the datagram is lost, the neighbour does not appear.
func (d *xdpDevice) probeNeighbour(dst netip.Addr) {
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

// mapLease maps the memory and the rings of the lease.
func (d *xdpDevice) mapLease() error {
	g := &d.lease.Grant
	if g.Ifindex != d.index || g.MAC != d.mac {
		return fmt.Errorf("the broker at %s has another interface with the address %s: it must work in the network namespace of this process",
			d.lease.Path, d.cfg.Address)
	}
	datapath, err := plan.Parse(g.Datapath)
	if err != nil {
		return err
	}
	queues := uint32(g.Queues)
	if uint64(g.RxFrames)+uint64(g.TxFrames) > plan.MaxFrameMemory/xdp.FrameSize/uint64(queues) || g.Arena > broker.MaxArena {
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
			ZeroCopy: g.ZeroCopy, MultiBuffer: g.MultiBuffer, SendBuffer: g.SendBuffer, TxBudget: g.TxBudget,
		})
		if err != nil {
			return err
		}
		if err := d.addQueue(sock); err != nil {
			return err
		}
	}
	d.info.Queues, d.info.Datapath, d.info.Reason, d.info.Socket = g.Queues, datapath, "leased from a broker: "+g.Reason, d.queues[0].sock.Info()
	d.info.Copying = g.Copying
	return nil
}

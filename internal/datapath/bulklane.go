package datapath

import (
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"

	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/genetlink"
	"github.com/ndxdp/ndxdp/internal/udp"
	"github.com/ndxdp/ndxdp/wire"
)

// bulkLane is a UDP socket for GSO batches, which the steering program leaves alone. The kernel carries a batch of 64 KiB across a
// virtual link as one packet, while AF_XDP carries packets one by one. The owner of the first queue reads the socket; all queues send
// through it.
type bulkLane struct {
	socket *udp.Socket
	local  wire.Endpoint
	device *xdpDevice

	shut    atomic.Pointer[string] // why the bulk path carries no GSO batches now; nil while it does
	inRuns  atomic.Uint64
	merged  atomic.Uint64
	lost    atomic.Uint64
	foreign atomic.Uint64
}

// bulkFacts collects the facts that decide about a bulk path. It returns nil if the bulk path is turned off.
func (d *xdpDevice) bulkFacts() *plan.BulkFacts {
	f := &plan.BulkFacts{Name: d.info.Interface, ZeroCopy: d.info.Socket.ZeroCopy}
	if d.cfg.Bulk == plan.BulkAuto {
		f.On, f.Changeable = genetlink.Offloads(d.index), genetlink.Changeable(d.index)
	}
	if d.cfg.Bulk != plan.BulkOff {
		f.Refused = d.network.Runs()
	}
	return f
}

// addBulk opens the socket of the bulk path, if the device gets one. It needs no privileges.
func (d *xdpDevice) addBulk() (err error) {
	l := &bulkLane{device: d}
	d.info.NoBulk = d.cfg.Bulk.Refuses(d.bulkFacts())
	if d.info.NoBulk != "" {
		return nil
	}
	l.socket, err = d.network.Open(udp.Config{
		Local: netip.AddrPortFrom(d.cfg.Address, 0), Scope: d.index, Device: d.resolver.VRF,
		ReceiveBuffer: plan.SocketBuffer, SendBuffer: plan.SocketBuffer, Runs: true, Stamps: true,
		Keep: keeps(d.info.Driver, false),
	})
	if err != nil {
		return fmt.Errorf("open the bulk lane: %w", err)
	}
	port, err := l.socket.Port()
	if err == nil {
		l.local = wire.EndpointFrom(netip.AddrPortFrom(d.cfg.Address, port))
		d.info.BulkPort, d.info.Long = port, keeps(d.info.Driver, false) > 0
		d.bulk = l
		for _, q := range d.queues {
			q.bulkOut.lane = l
		}
		d.queues[0].readBulk(l)
		return nil
	}
	return errors.Join(err, l.socket.Close())
}

// fail ends GSO batches on the bulk path for the reason why. Connections leave the bulk path, and new connections do not use it.
func (l *bulkLane) fail(why string) { l.shut.CompareAndSwap(nil, &why) }

// open reports whether the bulk path carries GSO batches.
func (l *bulkLane) open() bool { return l != nil && l.shut.Load() == nil }

func (l *bulkLane) addTo(s *Stats) {
	s.InRuns += l.inRuns.Load()
	s.Merged += l.merged.Load()
	s.Lost += l.lost.Load()
	s.Foreign += l.foreign.Load()
	dropped, _ := l.socket.Drops() // Drops fails while the device closes
	s.Socket.RxDropped += dropped
}

func (l *bulkLane) close() error { return l.socket.Close() }

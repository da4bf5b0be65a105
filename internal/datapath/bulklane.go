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

// bulkLane is a UDP socket for GSO batches, which the steering program leaves alone. The kernel carries 64 KiB across a virtual link in one
// piece, while AF_XDP carries packets one by one. The owner of the first queue reads the socket; all queues send through it.
type bulkLane struct {
	socket *udp.Socket
	local  wire.Endpoint
	device *xdpDevice

	shut    atomic.Pointer[string] // why it carries no runs any more
	inRuns  atomic.Uint64
	merged  atomic.Uint64
	lost    atomic.Uint64
	foreign atomic.Uint64
}

// bulkFacts looks at what the choice takes: nothing if it is turned off.
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

// addBulk opens the lane, where the device gets one. It takes no privileges.
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
		d.info.BulkPort = port
		d.bulk = l
		for _, q := range d.queues {
			q.bulkOut.lane = l
		}
		d.queues[0].readBulk(l)
		return nil
	}
	return errors.Join(err, l.socket.Close())
}

// fail ends runs by the lane, because of why. Connections leave it, and new ones do not begin with it.
func (l *bulkLane) fail(why string) { l.shut.CompareAndSwap(nil, &why) }

// open says that it carries runs.
func (l *bulkLane) open() bool { return l != nil && l.shut.Load() == nil }

func (l *bulkLane) addTo(s *Stats) {
	s.InRuns += l.inRuns.Load()
	s.Merged += l.merged.Load()
	s.Lost += l.lost.Load()
	s.Foreign += l.foreign.Load()
	dropped, _ := l.socket.Drops() // fails while the device closes
	s.Socket.RxDropped += dropped
}

func (l *bulkLane) close() error { return l.socket.Close() }

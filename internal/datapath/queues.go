package datapath

import (
	"errors"
	"net/netip"
	"time"

	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/datapath/sleep"
	"github.com/ndxdp/ndxdp/internal/host"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
	"github.com/ndxdp/ndxdp/xdp"
)

// openQueues opens a socket on every receive queue. The NIC spreads ND traffic over all queues. Packets on a queue without a socket go to
// the kernel and are lost. It returns the reason why the sockets copy.
func (d *xdpDevice) openQueues(nic *xdp.NIC, f plan.BindFacts) (copying string, err error) {
	f.See(nic, d.maxPacket)
	if err := plan.UsableQueues(nic); err != nil { // the queues are counted again: see attach
		return "", err
	}
	way, err := f.Bind(func(w *plan.Binding) error {
		err := d.bind(nic, w, uint32(max(nic.RxQueues, 1)), f.Brokered)
		if err != nil {
			err = errors.Join(err, d.closeSockets())
		}
		return err
	})
	if err != nil {
		return "", err
	}
	d.sizes, d.info.Socket = way.Sizes, d.queues[0].sock.Info()
	return way.Copying, nil
}

// bind opens the sockets with one binding. The sockets share one UMEM, so that every queue can send from the arena. For a client of a
// broker, the client's process can map the UMEM.
func (d *xdpDevice) bind(nic *xdp.NIC, w *plan.Binding, queues uint32, shared bool) error {
	frames := xdp.UMEMConfig{RxFrames: queues * w.Sizes.RxFrames, TxFrames: queues * w.Sizes.TxFrames, Shared: shared}
	if w.InPlace {
		frames.ArenaBytes = d.cfg.Arena
	}
	need := uint64(frames.RxFrames+frames.TxFrames)*xdp.FrameSize + uint64(frames.ArenaBytes)
	if err := plan.Pinnable(need, host.Unlimited, host.RoomOfGroups()); err != nil { // the kernel decides what may be locked
		return err
	}
	umem, err := xdp.NewUMEM(frames)
	if err != nil {
		return err
	}
	d.umem, d.arena = umem, newArena(umem)
	for number := range queues {
		c := w.Sizes.Config()
		c.Ifindex, c.Queue, c.Mode, c.MultiBuffer, c.TxBudget = nic.Index, number, w.Mode, w.MultiBuffer, txBudget
		if shared || d.filling != nil {
			c.BindTimeout = shortBindTimeout
		}
		sock, err := xdp.Open(umem, c)
		if err != nil {
			return err
		}
		if err := d.addQueue(sock); err != nil {
			return err
		}
	}
	return nil
}

// shortBindTimeout is how long a broker, and plan.TCX, wait for a queue whose last socket has closed. The kernel frees the queue some
// milliseconds later. Another process may hold the queue, and plan.Ring is the fallback.
const shortBindTimeout = 100 * time.Millisecond

func (d *xdpDevice) addQueue(sock *xdp.Socket) (err error) {
	q := &queue{device: d, sock: sock, mac: d.mac, maxPacket: d.maxPacket, txDescs: make([]xdp.Desc, 0, provider.TxBatch*provider.MaxFrags), paths: make([]path, 1)} // path 0 is none
	q.loop.self = wire.EndpointFrom(netip.AddrPortFrom(d.cfg.Address, d.cfg.UDPPort))
	d.queues = append(d.queues, q)
	if d.filling != nil {
		return q.mapRing(d.filling)
	}
	q.Sleeper, err = sleep.New(sock.FD(), sock.RxWaiting, d.cfg.LongestSpin())
	return err
}

// txBudget lets one sendto take more than the kernel's 32 descriptors: a 64 KiB packet has 17.
const txBudget = 256

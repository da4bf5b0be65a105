package datapath

import (
	"github.com/ndxdp/ndxdp/internal/udp"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// bulkWriter is the state with which one queue sends on the bulk path. It belongs to the queue's owner, and takes no memory before the
// first path is made.
type bulkWriter struct {
	lane   *bulkLane // nil without one
	sender *udp.Sender
	to     []udp.Addr // by path
	free   []provider.Path
}

// BulkOpen implements provider.Laned.
func (q *queue) BulkOpen() bool { return q.bulkOut.lane.open() }

// BulkPath implements provider.Laned.
func (q *queue) BulkPath(to wire.Endpoint) (provider.Path, bool) {
	w := &q.bulkOut
	if !w.lane.open() || to == w.lane.local {
		return 0, false
	}
	if w.sender == nil {
		w.sender = udp.NewSender(provider.TxBatch, provider.MaxFrags)
		w.sender.From(q.device.cfg.Address, q.device.index)
		w.to = make([]udp.Addr, 1) // path 0 is none
	}
	peer := to.AddrPort()
	addr := udp.AddrOf(peer, q.device.index)
	if q.device.state.Elsewhere(peer.Addr()) {
		addr.Direct()
	}
	if n := len(w.free); n > 0 {
		p := w.free[n-1]
		w.free, w.to[p] = w.free[:n-1], addr
		return p, true
	}
	w.to = append(w.to, addr)
	return provider.Path(len(w.to) - 1), true
}

// ForgetBulk implements provider.Laned.
func (q *queue) ForgetBulk(p provider.Path) { q.bulkOut.free = append(q.bulkOut.free, p) }

// transmitBulk sends the packets of a batch that use the bulk path, from their frames: the kernel has copied them when it returns.
func (q *queue) transmitBulk(pkts []provider.TxPacket) {
	w := &q.bulkOut
	for i := range pkts {
		p := &pkts[i]
		if !p.Bulk {
			continue
		}
		if to := &w.to[p.Path]; p.Segment > 0 {
			w.sender.BeginLong(to, p.ECN == wire.ECT0, p.Len, p.Segment)
		} else {
			w.sender.Begin(to, p.ECN == wire.ECT0, p.Len, p.Joins && w.lane.open())
		}
		for j := range p.N {
			w.sender.Add(p.Frags[j].Data)
		}
	}
	if refused, _ := w.sender.Send(w.lane.socket); refused > 0 {
		w.lane.lost.Add(uint64(refused))
	}
	if n := w.sender.InRuns(); n > 0 {
		w.lane.inRuns.Add(n)
	}
	for i := range pkts {
		if p := &pkts[i]; p.Bulk {
			q.putBack(p)
		}
	}
}

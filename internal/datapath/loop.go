package datapath

import (
	"math"
	"sync/atomic"

	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// loop carries the packets of an adapter to itself. They do not pass the kernel, as the packets of an RDMA NIC to itself do not pass the
// network. Transmit copies them, and the same port receives the copies. A loop belongs to the owner of its port.
type loop struct {
	self    wire.Endpoint // where the adapter receives
	waiting []looped      // copies that were not received, oldest first
	copies  [][]byte      // memory of the copies, by number
	free    []uint32      // numbers of unused copies
	skipped int           // polls since one that looked at the socket
	rests   atomic.Bool   // a long sleep began: memory is given back with the next batch

	packets atomic.Uint64
	lost    atomic.Uint64
}

// looped is a packet that waits in a loop.
type looped struct {
	copy uint32
	port uint16 // source port
	len  int
}

const (
	// loopFrame marks the numbers of copies among the numbers of receive frames. No UMEM address and no number of a pool's frame has it.
	loopFrame = 1 << 62
	// mostLooped bounds the copies. Senders wait while half of them wait. A poll sends at most 256 KiB, so many copies are of short packets.
	mostLooped = 1024
	// keptLooped is how many copies keep their memory during a long sleep.
	keptLooped = 4
	// While packets wait in the loop, one poll in loopedPolls looks at a socket, which costs a system call.
	loopedPolls = 8
)

// loops reports whether packets to an address and port stay in the adapter.
func (l *loop) loops(to wire.Endpoint) bool { return to == l.self }

// full reports whether packets should not be built now.
func (l *loop) full() bool { return len(l.waiting) >= mostLooped/2 }

// add copies a packet from a source port. The packet is lost if there is no room.
func (l *loop) add(p *provider.TxPacket, port uint16) {
	n := len(l.free)
	if n == 0 && len(l.copies) == mostLooped {
		l.lost.Add(1)
		return
	}
	if n == 0 {
		l.free, n = append(l.free, uint32(len(l.copies))), 1
		l.copies = append(l.copies, nil)
	}
	id := l.free[n-1]
	l.free = l.free[:n-1]
	if cap(l.copies[id]) < p.Len {
		l.copies[id] = make([]byte, p.Len)
	}
	b, at := l.copies[id][:cap(l.copies[id])], 0
	for i := range p.N {
		at += copy(b[at:], p.Frags[i].Data)
	}
	l.waiting = append(l.waiting, looped{id, port, at})
}

// some reports whether packets wait. It gives memory back after a long sleep.
func (l *loop) some() bool {
	if l.rests.Load() {
		l.rests.Store(false)
		l.trim()
	}
	return len(l.waiting) > 0
}

// receive fills pkts with waiting packets, and returns how many. A Receive calls it last: if packets remain, the batch is full, and so the
// engine receives again at once.
func (l *loop) receive(pkts []provider.RxPacket) int {
	n := min(len(pkts), len(l.waiting))
	for i, w := range l.waiting[:n] {
		p := &pkts[i]
		p.From, p.To, p.MAC, p.CE = wire.Endpoint{IP: l.self.IP, Port: w.port}, l.self, [6]byte{}, false
		p.Frags[0] = provider.Frag{Data: l.copies[w.copy][:w.len], ID: loopFrame | uint64(w.copy)}
		p.N, p.Len, p.Merged, p.Bulk, p.Arrived = 1, w.len, false, false, 0
	}
	l.waiting = append(l.waiting[:0], l.waiting[n:]...)
	l.packets.Add(uint64(n))
	return n
}

// skips reports whether a poll receives only looped packets.
func (l *loop) skips() bool {
	l.skipped = (l.skipped + 1) % loopedPolls
	return l.skipped != 0
}

// recycle takes back a copy.
func (l *loop) recycle(id uint64) { l.free = append(l.free, uint32(id&math.MaxUint32)) }

// trim gives memory back.
func (l *loop) trim() {
	for _, id := range l.free {
		if id >= keptLooped {
			l.copies[id] = nil
		}
	}
}

// addTo adds the counters to the counters of a device.
func (l *loop) addTo(s *Stats) {
	s.LocalIn += l.packets.Load()
	s.LocalOut += l.packets.Load() + l.lost.Load()
	s.Lost += l.lost.Load()
}

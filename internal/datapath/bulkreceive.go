package datapath

import (
	"sync/atomic"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/internal/udp"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// bulkReader takes packets from the bulk lane. It belongs to the owner of the first queue, and its memory comes with the first packet.
//
// A look at a socket is a system call, and a poller looks at its ring every few nanoseconds. So looks are spread: they come after an eighth of
// the looks that have found nothing since the last packet, so that none waits for much longer than it took to come, and once in mostSkipped in the end.
type bulkReader struct {
	lane     *bulkLane
	pool     *udp.Pool
	receiver *udp.Receiver // nil before the first packet
	damaged  damage

	due   atomic.Bool // whoever was about to sleep saw a packet
	trim  atomic.Bool // as plainUDP.trim
	quiet int         // looks since the last packet, those that were skipped among them
	skip  int         // looks still to be skipped

	parts int // looks of a spin before a sleep
}

const (
	mostSkipped = 1024
	// hotLooks after a packet others are likely.
	hotLooks = 64
	// bulkShare of a receive batch is left to the lane while packets come by it.
	bulkShare = 16
	// looksPerGlimpse is how many looks for packets of a spin come to one at the lane.
	looksPerGlimpse = 64
	// bulkFrame marks the numbers of the lane's receive frames: no place in a UMEM has that bit.
	bulkFrame = 1 << 63
)

// readBulk makes the queue read the lane.
func (q *queue) readBulk(l *bulkLane) {
	r := &bulkReader{lane: l}
	q.bulkIn = r
	ring := q.sock.RxWaiting
	q.alsoWaitFor(l.socket.FD(), func() bool { return ring() || r.waiting() }, func() bool { return ring() || r.glimpse() })
}

// waiting says whether the socket has packets, for whoever is about to sleep, and makes the owner look.
func (r *bulkReader) waiting() bool {
	if !readable(r.lane.socket.FD()) {
		return false
	}
	r.due.Store(true)
	return true
}

// glimpse is waiting for one who looks often: it looks now and then.
func (r *bulkReader) glimpse() bool {
	r.parts++
	return r.parts%looksPerGlimpse == 0 && r.waiting()
}

// hot says that packets came lately.
func (r *bulkReader) hot() bool { return r.receiver != nil && r.quiet < hotLooks }

// ready says whether there are packets, as far as it looks.
func (r *bulkReader) ready() bool {
	if r.receiver != nil && r.receiver.Waiting() {
		return true
	}
	switch {
	case r.due.Load():
		r.due.Store(false)
	case r.skip > 0:
		r.skip--
		return false
	}
	if r.look() {
		r.quiet, r.skip = 0, 0
		return true
	}
	r.skip = min(r.quiet/8, mostSkipped)
	r.quiet = min(r.quiet+r.skip+1, 8*mostSkipped)
	return false
}

// look receives what there is.
func (r *bulkReader) look() bool {
	if r.receiver == nil {
		if !readable(r.lane.socket.FD()) {
			return false
		}
		var err error
		if r.pool, err = udp.NewPool(receiveFrames, mergedSize); err != nil {
			r.lane.fail(err.Error())
			return false
		}
		r.receiver = udp.NewReceiver(r.pool, udpBatch, udpBatchBytes, wire.BaseHeaderLen)
	}
	return r.receiver.Receive(r.lane.socket)
}

// receive fills pkts with packets that came by the lane and returns how many.
func (r *bulkReader) receive(pkts []provider.RxPacket) (n int) {
	if !r.ready() {
		return 0
	}
	if r.trim.Swap(false) {
		_ = r.pool.Trim(keptFrames) // what the kernel does not take back we keep
	}
	merged, foreign := uint64(0), uint64(0)
	var arrived udp.Datagram
	for n < len(pkts) && (r.receiver.Waiting() || r.receiver.Full() && r.receiver.Receive(r.lane.socket)) {
		for n < len(pkts) && r.receiver.Next(&arrived) {
			if len(arrived.Data) < wire.BaseHeaderLen { // the end of a merged one
				r.receiver.Release(arrived.Frame)
				foreign++
				continue
			}
			p := &pkts[n]
			p.From, p.To, p.CE = wire.Endpoint{IP: arrived.IP, Port: arrived.Port}, r.lane.local, arrived.Marked
			p.Frags[0] = provider.Frag{Data: arrived.Data, ID: uint64(arrived.Frame) | bulkFrame}
			p.N, p.Len, p.Merged, p.Bulk = 1, len(arrived.Data), arrived.Merged, true
			n++
			if arrived.Merged {
				merged++
			}
		}
		foreign += r.receiver.Unfit()
	}
	if merged > 0 {
		r.lane.merged.Add(merged)
	}
	if foreign > 0 {
		r.lane.foreign.Add(foreign)
	}
	return n
}

// Mangled implements provider.Merging.
func (q *queue) Mangled() {
	r := q.bulkIn
	if r == nil {
		return // the packet came to another queue's engine, whose packets it counts among
	}
	if r.lane.open() && r.damaged.more(r.lane.merged.Load()) {
		r.lane.fail("merged packets arrived damaged")
		_ = r.lane.socket.Apart() // a socket that cannot is closed
	}
}

// Wait implements provider.Waiter. What a burst by the lane took goes back to the kernel after a long sleep.
func (q *queue) Wait(until clock.Time, spin bool) {
	if r := q.bulkIn; r != nil && (until == clock.Never || until.Sub(clock.Machine()) >= longSleep) {
		r.trim.Store(true)
	}
	q.sleeper.Wait(until, spin)
}

// close gives the lane's memory back. Nobody reads it any more.
func (r *bulkReader) close() error {
	if r == nil || r.pool == nil {
		return nil
	}
	return r.pool.Close()
}

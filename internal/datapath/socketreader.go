package datapath

import (
	"sync/atomic"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/internal/udp"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// socketReader reads packets from a UDP socket beside an AF_XDP socket. It belongs to the owner of the first queue, and its memory is
// allocated with the first packet.
//
// A poll of the socket is a system call, while a program may poll its ring every few nanoseconds. So polls of the socket are spread over
// the polls of the ring. The interval to the next poll is an eighth of the polls since the last packet, at most mostSkipped. So no packet
// waits much longer than the time since the packet before it. If a BPF program counts the packets, counted decides instead.
type socketReader struct {
	socket          *udp.Socket
	local           wire.Endpoint     // destination of the packets
	bulk            bool              // the packets take the bulk path
	whole           func([]byte) bool // which merged messages are one packet; nil for none
	merged, foreign *atomic.Uint64
	fail            func(why string) // called if there is no memory for packets; then the socket is not polled again
	frames          int              // to receive into
	mark            uint64           // bits of the numbers of its frames
	counted         *counted         // decides about polls if a program counts the packets; else nil

	asleep  atomic.Bool   // the socket is not polled; a goroutine that clears it has a reason to poll
	packets atomic.Uint64 // that came

	pool     *udp.Pool
	receiver *udp.Receiver // nil before the first packet
	calendar calendar      // of its stamps

	due   atomic.Bool // a goroutine that was about to sleep saw a packet
	trim  atomic.Bool // as socketDevice.trim
	quiet int         // polls since the last packet, including skipped polls
	skip  int         // polls still to be skipped

	parts int // polls of the spin before a sleep
}

const (
	mostSkipped = 1024
	// For hotLooks polls after a packet, more packets are likely.
	hotLooks = 64
	// besideShare is the divisor of the receive batch that is left to a socket beside the ring while packets arrive there.
	besideShare = 16
	// looksPerGlimpse is how many polls of a spin come before one poll of the socket.
	looksPerGlimpse = 64
	// besideFrame marks the numbers of these sockets' receive frames, because no UMEM address has this bit. The bits from besideBits on
	// have the reader's number.
	besideFrame, besideBits = 1 << 63, 32
)

// readBeside makes the queue read a socket beside its ring.
func (q *queue) readBeside(r *socketReader) {
	r.mark = besideFrame | uint64(len(q.beside))<<besideBits
	q.beside = append(q.beside, r)
	q.Also(r.socket.FD(), r.waiting, r.glimpse)
}

// waiting reports whether the socket has packets, for a goroutine that is about to sleep, and then makes the owner poll.
func (r *socketReader) waiting() bool {
	if r.asleep.Load() || !r.socket.Readable() {
		return false
	}
	r.due.Store(true)
	return true
}

// glimpse is waiting for a caller that polls often. It polls the socket only sometimes.
func (r *socketReader) glimpse() bool {
	r.parts++
	return (r.parts%looksPerGlimpse == 0 || r.counted != nil && r.counted.passes()) && r.waiting()
}

// hot reports whether packets arrived recently.
func (r *socketReader) hot() bool { return r.receiver != nil && r.quiet < hotLooks }

// ready reports whether packets were received, if it polls the socket at all.
func (r *socketReader) ready() bool {
	if r.receiver != nil && r.receiver.Waiting() {
		return true
	}
	switch {
	case r.asleep.Load():
		return false
	case r.counted != nil:
		return r.lookCounted()
	case r.due.Load():
		r.due.Store(false)
	case r.skip > 0:
		r.skip--
		return false
	}
	if r.look() {
		return true
	}
	r.skip = min(r.quiet/8, mostSkipped)
	r.quiet = min(r.quiet+r.skip+1, 8*mostSkipped)
	return false
}

// lookCounted is ready for a socket whose packets a program counts.
func (r *socketReader) lookCounted() bool {
	r.quiet = min(r.quiet+1, hotLooks)
	if due := r.counted.due(); !due && !r.due.Load() {
		return false
	}
	r.due.Store(false)
	return r.look()
}

// look receives the packets that wait in the socket.
func (r *socketReader) look() bool {
	yes := r.receiveAll()
	if yes {
		r.quiet, r.skip = 0, 0
	}
	if r.counted != nil {
		messages, more := 0, false
		if r.receiver != nil {
			messages, more = r.receiver.Arrived(), r.receiver.Full()
		}
		r.counted.looked(messages, more)
	}
	return yes
}

// receiveAll receives a batch.
func (r *socketReader) receiveAll() bool {
	if r.receiver == nil {
		if !r.socket.Readable() {
			return false
		}
		var err error
		if r.pool, err = udp.NewPool(r.frames, mergedSize); err != nil {
			r.asleep.Store(true) // otherwise the waiting packets would keep all goroutines from sleeping
			r.fail(err.Error())
			return false
		}
		r.receiver = udp.NewReceiver(r.pool, udpBatch, udpBatchBytes, wire.BaseHeaderLen)
		r.receiver.Whole = r.whole
	}
	return r.receiver.Receive(r.socket)
}

// receive fills pkts with packets that came by the socket and returns how many.
func (r *socketReader) receive(pkts []provider.RxPacket) (n int) {
	if !r.ready() {
		return 0
	}
	for n < len(pkts) && (r.receiver.Waiting() || r.receiver.Full() && r.look()) {
		n += r.take(pkts[n:])
	}
	return n
}

// take fills pkts with packets of the last poll.
func (r *socketReader) take(pkts []provider.RxPacket) (n int) {
	if r.trim.Swap(false) {
		_ = r.pool.Trim(keptFrames) // memory that the kernel does not take back is kept
	}
	merged, foreign := uint64(0), uint64(0)
	r.calendar.look()
	var arrived udp.Datagram
	for n < len(pkts) && r.receiver.Next(&arrived) {
		if len(arrived.Data) < wire.BaseHeaderLen { // the last part of a merged packet
			r.receiver.Release(arrived.Frame)
			foreign++
			continue
		}
		p := &pkts[n]
		p.From, p.To, p.MAC, p.CE = wire.Endpoint{IP: arrived.IP, Port: arrived.Port}, r.local, [6]byte{}, arrived.Marked
		p.Frags[0] = provider.Frag{Data: arrived.Data, ID: uint64(arrived.Frame) | r.mark}
		p.N, p.Len, p.Merged, p.Bulk, p.Arrived = 1, len(arrived.Data), arrived.Merged, r.bulk, r.calendar.at(arrived.Stamp)
		n++
		if arrived.Merged {
			merged++
		}
	}
	foreign += r.receiver.Unfit()
	r.packets.Add(uint64(n))
	if merged > 0 {
		r.merged.Add(merged)
	}
	if foreign > 0 {
		r.foreign.Add(foreign)
	}
	return n
}

// Wait implements provider.Waiter. After a long sleep, the memory that a burst on a socket beside the ring took is returned to the
// kernel.
func (q *queue) Wait(until clock.Time, spin bool) {
	if len(q.beside) > 0 && (until == clock.Never || until.Sub(clock.Machine()) >= longSleep) {
		q.loop.rests.Store(true)
		for _, r := range q.beside {
			r.trim.Store(true)
			r.socket.LetGo()
		}
	}
	q.Sleeper.Wait(until, spin)
}

// close frees the memory of the frames. The socket must not be read any more.
func (r *socketReader) close() error {
	if r.pool == nil {
		return nil
	}
	return r.pool.Close()
}

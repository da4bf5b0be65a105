package datapath

import (
	"sync/atomic"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/internal/udp"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// socketReader takes packets from a UDP socket beside an AF_XDP socket. It belongs to the owner of the first queue, and its memory is
// allocated with the first packet.
//
// Polling a socket is a system call, and a poller polls its ring every few nanoseconds. So polls of the socket are spread. The next one
// comes after an eighth of the polls without a packet since the last packet, so that no packet waits for much longer than it took to
// arrive, and at least once in mostSkipped.
type socketReader struct {
	socket          *udp.Socket
	local           wire.Endpoint // that packets came to
	bulk            bool          // they came by the bulk lane
	merged, foreign *atomic.Uint64
	fail            func(why string) // called when there is no memory for packets: then nobody looks any more
	frames          int              // to receive into
	mark            uint64           // of the numbers of its frames
	front           *ringReader      // a ring that takes most packets of the socket, and knows which are left; else nil

	asleep  atomic.Bool   // nobody looks: whoever clears it has seen that there is reason to
	packets atomic.Uint64 // that came

	pool     *udp.Pool
	receiver *udp.Receiver // nil before the first packet
	calendar calendar      // of its stamps

	due   atomic.Bool // whoever was about to sleep saw a packet
	trim  atomic.Bool // as socketDevice.trim
	quiet int         // polls since the last packet, including skipped ones
	skip  int         // looks still to be skipped

	parts int // looks of a spin before a sleep
}

const (
	mostSkipped = 1024
	// hotLooks after a packet others are likely.
	hotLooks = 64
	// besideShare of a receive batch is left to a socket beside the ring while packets come by it.
	besideShare = 16
	// looksPerGlimpse is how many looks for packets of a spin come to one at the socket.
	looksPerGlimpse = 64
	// besideFrame marks the numbers of these sockets' receive frames, with the reader's number in the bits from besideBits on: no UMEM
	// address has this bit.
	besideFrame, besideBits = 1 << 63, 32
)

// readBeside makes the queue read a socket beside its ring.
func (q *queue) readBeside(r *socketReader) {
	r.mark = besideFrame | uint64(len(q.beside))<<besideBits
	q.beside = append(q.beside, r)
	q.Also(r.socket.FD(), r.waiting, r.glimpse)
}

// waiting says whether the socket has packets, for whoever is about to sleep, and makes the owner look.
func (r *socketReader) waiting() bool {
	if r.asleep.Load() || !r.socket.Readable() {
		return false
	}
	r.due.Store(true)
	return true
}

// glimpse is waiting for one who looks often: it looks now and then.
func (r *socketReader) glimpse() bool {
	r.parts++
	return (r.parts%looksPerGlimpse == 0 || r.front != nil && r.front.passes()) && r.waiting()
}

// hot says that packets came lately.
func (r *socketReader) hot() bool { return r.receiver != nil && r.quiet < hotLooks }

// ready says whether there are packets, as far as it looks.
func (r *socketReader) ready() bool {
	if r.receiver != nil && r.receiver.Waiting() {
		return true
	}
	switch {
	case r.asleep.Load():
		return false
	case r.front != nil:
		return r.lookBehind()
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

// lookBehind is ready for a socket with a ring in front of it.
func (r *socketReader) lookBehind() bool {
	if due := r.front.socketDue(); !due && !r.due.Load() {
		return false
	}
	r.due.Store(false)
	yes, messages, more := r.look(), 0, false
	if r.receiver != nil {
		messages, more = r.receiver.Arrived(), r.receiver.Full()
	}
	r.front.looked(messages, more)
	return yes
}

// look receives what there is.
func (r *socketReader) look() bool {
	if r.receiver == nil {
		if !r.socket.Readable() {
			return false
		}
		var err error
		if r.pool, err = udp.NewPool(r.frames, mergedSize); err != nil {
			r.asleep.Store(true) // or the packets that wait would keep whoever wants to sleep from it
			r.fail(err.Error())
			return false
		}
		r.receiver = udp.NewReceiver(r.pool, udpBatch, udpBatchBytes, wire.BaseHeaderLen)
	}
	return r.receiver.Receive(r.socket)
}

// receive fills pkts with packets that came by the socket and returns how many.
func (r *socketReader) receive(pkts []provider.RxPacket) (n int) {
	if !r.ready() {
		return 0
	}
	for n < len(pkts) && (r.receiver.Waiting() || r.receiver.Full() && r.receiver.Receive(r.socket)) {
		n += r.take(pkts[n:])
	}
	return n
}

// take fills pkts with what the last look brought.
func (r *socketReader) take(pkts []provider.RxPacket) (n int) {
	if r.trim.Swap(false) {
		_ = r.pool.Trim(keptFrames) // what the kernel does not take back we keep
	}
	merged, foreign := uint64(0), uint64(0)
	r.calendar.look()
	var arrived udp.Datagram
	for n < len(pkts) && r.receiver.Next(&arrived) {
		if len(arrived.Data) < wire.BaseHeaderLen { // the end of a merged one
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

// Wait implements provider.Waiter. After a long sleep, memory that a burst by a socket beside the ring took is returned to the kernel.
func (q *queue) Wait(until clock.Time, spin bool) {
	if len(q.beside) > 0 && (until == clock.Never || until.Sub(clock.Machine()) >= longSleep) {
		for _, r := range q.beside {
			r.trim.Store(true)
			r.socket.LetGo()
		}
	}
	q.Sleeper.Wait(until, spin)
}

// close gives the frames' memory back. Nobody reads the socket any more.
func (r *socketReader) close() error {
	if r.pool == nil {
		return nil
	}
	return r.pool.Close()
}

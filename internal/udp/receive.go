package udp

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// none is no frame.
const none = ^uint32(0)

// Datagram is a received datagram. It may share its frame with other datagrams that were merged with it on the way.
type Datagram struct {
	Data   []byte
	Frame  uint32 // frame to pass to Release once
	IP     [16]byte
	Port   uint16
	Marked bool // its packet had a congestion mark (CE)
	Merged bool // it was split off a merged message

	Stamp int64 // arrival time in nanoseconds after 1970 by the wall clock; zero if unknown
}

// Receiver receives messages from a socket in batches, each into a frame of its own. It splits messages that the kernel merged
// (UDP_GRO) into datagrams without copying: the datagrams share the frame.
type Receiver struct {
	pool    *Pool
	shares  []uint32 // for each frame: datagrams not released yet
	msgs    []mmsghdr
	pieces  []unix.Iovec
	frames  []uint32 // frame of each message, or none
	names   []unix.RawSockaddrInet6
	control []byte
	dirty   int // the first dirty messages may lack a frame, or have headers that the kernel changed
	offered int // number of messages that the next call offers; see adapt
	most    int // target for the bytes of one call
	least   int

	// Messages received, and messages returned so far.
	arrived, at int
	stop        int // messages from here on are not returned; see Stop
	full        bool
	rest        []byte // unreturned rest of message at
	part        Datagram
	segment     int
	unfit       uint64

	// Whole reports whether a merged message is one datagram, which Next does not split. Nil is for none.
	Whole func(message []byte) bool
}

// controlRoom is room for control messages: type of service and segment size, an int each, and the timestamp.
var controlRoom = 2*unix.CmsgSpace(4) + unix.CmsgSpace(stampLen)

// stampLen is the length of a timestamp: seconds and nanoseconds.
const stampLen = 16

// NewReceiver returns a Receiver for batches of at most batch messages and about most bytes. Its frames come from pool, which it
// owns. A message that does not fit into a frame, or whose datagrams are shorter than least, is dropped and counted as Unfit.
func NewReceiver(pool *Pool, batch, most, least int) *Receiver {
	r := &Receiver{
		pool: pool, shares: make([]uint32, len(pool.mem)/pool.size), msgs: make([]mmsghdr, batch), pieces: make([]unix.Iovec, batch),
		frames: make([]uint32, batch), names: make([]unix.RawSockaddrInet6, batch), control: make([]byte, batch*controlRoom),
		dirty: batch, most: most, least: least, offered: min(max(most/pool.size, 1), batch),
	}
	for i := range r.msgs {
		r.frames[i] = none
		h := &r.msgs[i].hdr
		h.Name, h.Control, h.Iov = nameOf(&r.names[i]), &r.control[i*controlRoom], &r.pieces[i]
		h.SetIovlen(1)
	}
	return r
}

// Receive receives a batch. It returns false if the socket has no message. It may be called when Next has returned the whole
// previous batch.
func (r *Receiver) Receive(from *Socket) bool {
	r.arrived, r.at, r.stop, r.full = 0, 0, 0, false
	ready := min(r.post(), r.offered)
	if ready == 0 {
		return false
	}
	n, empty := from.receive(r.msgs[:ready])
	r.unfit += uint64(empty)
	if n == 0 {
		return false
	}
	r.arrived, r.stop, r.dirty, r.full = n, n, max(r.dirty, n), n == ready
	r.adapt()
	return true
}

// adapt chooses how many messages the next call offers. A merged message is up to 44 times as long as a single one. A call that
// receives many merged messages blocks the scheduler and exceeds the cache. If a call offers few messages and they are small, too
// many calls are needed.
func (r *Receiver) adapt() {
	bytes := 0
	for i := range r.arrived {
		bytes += int(r.msgs[i].n)
	}
	switch {
	case bytes > r.most:
		r.offered = max(r.offered/2, 1)
	case r.arrived == r.offered && 2*bytes <= r.most:
		r.offered = min(2*r.offered, len(r.msgs))
	}
}

// post replaces frames that were taken. It returns how many messages can be received: fewer than a batch if the pool is empty.
func (r *Receiver) post() int {
	for i := range r.dirty {
		if r.frames[i] == none {
			id, ok := r.pool.Get()
			if !ok {
				return i
			}
			r.frames[i] = id
			r.pieces[i].Base = &r.pool.Frame(id)[0]
			r.pieces[i].SetLen(r.pool.size)
		}
		h := &r.msgs[i].hdr
		h.Namelen = unix.SizeofSockaddrInet6
		h.SetControllen(controlRoom)
	}
	r.dirty = 0
	return len(r.msgs)
}

// Arrived returns the number of messages in the newest batch.
func (r *Receiver) Arrived() int { return r.arrived }

// Frame takes a free frame for a datagram that did not come through this socket. Release frees it.
func (r *Receiver) Frame() (id uint32, ok bool) {
	if id, ok = r.pool.Get(); ok {
		r.shares[id] = 1
	}
	return id, ok
}

// Full reports whether the newest batch was full, so that more messages may wait in the socket.
func (r *Receiver) Full() bool { return r.full }

// Waiting reports whether Next would return a datagram.
func (r *Receiver) Waiting() bool { return len(r.rest) > 0 || r.at < r.arrived }

// Done returns how many messages of the newest batch were returned completely.
func (r *Receiver) Done() int {
	if len(r.rest) > 0 {
		return r.at - 1
	}
	return r.at
}

// Stop makes Next stop after this many further messages. The next Receive, or another Stop, cancels it.
func (r *Receiver) Stop(messages int) { r.stop = min(r.Done()+messages, r.arrived) }

// Next returns the next datagram of the batch, which the caller owns until Release. It returns false if there is none.
func (r *Receiver) Next(d *Datagram) bool {
	if len(r.rest) == 0 && !r.open() {
		return false
	}
	n := min(r.segment, len(r.rest))
	r.part.Data = r.rest[:n:n]
	r.rest = r.rest[n:]
	*d = r.part
	return true
}

// open opens the next message that contains a datagram.
func (r *Receiver) open() bool {
	for ; r.at < r.stop; r.at++ {
		i := r.at
		m := &r.msgs[i]
		n := int(m.n)
		tos, segment, stamp := r.controls(i)
		merged := segment > 0 && segment < n
		if !merged || r.Whole != nil && r.Whole(r.pool.Frame(r.frames[i])[:n]) {
			segment = n
		}
		if m.hdr.Flags&unix.MSG_TRUNC != 0 || segment < max(r.least, 1) {
			r.unfit++ // its frame stays posted
			continue
		}
		id := r.frames[i]
		r.frames[i] = none
		r.shares[id] = uint32((n + segment - 1) / segment)
		r.rest, r.segment = r.pool.Frame(id)[:n], segment
		r.part = Datagram{Frame: id, Marked: tos&3 == 3, Merged: merged, Stamp: stamp}
		r.part.IP, r.part.Port = parse(&r.names[i])
		r.at++
		return true
	}
	return false
}

// controls returns the type of service (RFC 3168), which is an octet over IPv4 and an int over IPv6. It also returns the segment
// size of a merged message, which is 0 if the message was not merged, and the timestamp.
func (r *Receiver) controls(i int) (tos byte, segment int, stamp int64) {
	const header = unix.SizeofCmsghdr
	c := r.control[i*controlRoom:][:min(int(r.msgs[i].hdr.Controllen), controlRoom)]
	for len(c) > header {
		n, level, kind := cmsgOf(c)
		if n <= header || n > len(c) {
			break
		}
		value := c[header:n]
		switch {
		case level == unix.SOL_UDP && kind == unix.UDP_GRO && len(value) >= 4:
			segment = int(int32(binary.NativeEndian.Uint32(value)))
		case level == unix.SOL_IP && kind == unix.IP_TOS:
			tos = value[0]
		case level == unix.SOL_IPV6 && kind == unix.IPV6_TCLASS && len(value) >= 4:
			tos = byte(binary.NativeEndian.Uint32(value))
		case level == unix.SOL_SOCKET && kind == unix.SO_TIMESTAMPNS && len(value) >= stampLen:
			stamp = int64(binary.NativeEndian.Uint64(value))*1e9 + int64(binary.NativeEndian.Uint64(value[8:]))
		}
		c = c[min(unix.CmsgSpace(n-header), len(c)):]
	}
	return tos, segment, stamp
}

// Release releases a datagram. The frame is free when all its datagrams are released.
func (r *Receiver) Release(frame uint32) {
	if r.shares[frame]--; r.shares[frame] == 0 {
		r.pool.Put(frame)
	}
}

// Unfit returns how many messages were dropped after the previous call, because they were truncated or too short.
func (r *Receiver) Unfit() uint64 {
	n := r.unfit
	r.unfit = 0
	return n
}

// Close returns all frames to the pool, including frames of datagrams that Next did not return.
func (r *Receiver) Close() {
	for d := (Datagram{}); r.Next(&d); {
		r.Release(d.Frame)
	}
	for i, id := range r.frames {
		if id != none {
			r.pool.Put(id)
			r.frames[i] = none
		}
	}
	r.dirty = len(r.msgs)
}

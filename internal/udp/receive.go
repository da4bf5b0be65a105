package udp

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// none is no frame.
const none = ^uint32(0)

// Datagram is one as its sender sent it, in a frame that it may share with others it was merged with on its way.
type Datagram struct {
	Data   []byte
	Frame  uint32 // to be given to Release once
	IP     [16]byte
	Port   uint16
	Marked bool // it carries a congestion mark (CE)
	Merged bool // it was cut from a merged one

	Stamp int64 // when the kernel got it: the time of day in nanoseconds since 1970; zero when it does not say
}

// Receiver takes datagrams from a socket in batches, each into a frame of its own, and splits datagrams that the kernel merged (UDP_GRO).
// Nothing is copied: the parts share the frame.
type Receiver struct {
	pool    *Pool
	shares  []uint32 // of each frame: datagrams in it that were not released
	msgs    []mmsghdr
	pieces  []unix.Iovec
	frames  []uint32 // of each message, or none
	names   []unix.RawSockaddrInet6
	control []byte
	dirty   int // the first so many messages may lack frames, or have the kernel's answers in their headers
	offered int // how many messages the next call offers; see adapt
	most    int // bytes that a call had better not exceed
	least   int

	// How many messages the kernel filled, and how many were returned.
	arrived, at int
	stop        int // no message from here on is handed out; see Stop
	full        bool
	rest        []byte // of message at, behind the parts that were handed out
	part        Datagram
	segment     int
	unfit       uint64
}

// controlRoom is for the type of service and the segment size of a message, each an int, and for its stamp.
var controlRoom = 2*unix.CmsgSpace(4) + unix.CmsgSpace(stampLen)

// stampLen is the length of a stamp: seconds and nanoseconds.
const stampLen = 16

// NewReceiver makes a receiver of batches of at most batch messages and about most bytes, into frames from pool, which belongs to it alone.
// A message that does not fit into a frame, and one whose parts are shorter than least, is no datagram: it is dropped and counted as Unfit.
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

// Receive takes what the socket has, at most a batch, and reports whether that was anything. It may be called when Next has handed out
// everything of the batch before.
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

// adapt chooses how many messages the next call offers. Merged messages are up to 44 times as long. A call that takes many of them keeps
// the scheduler waiting and exceeds the cache. Offering few of them for small messages would need a call for each handful.
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

// post replaces the frames that were taken and returns how many messages can be received: fewer than a batch when the pool has run dry.
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

// Arrived counts the messages of the newest batch.
func (r *Receiver) Arrived() int { return r.arrived }

// Frame takes a free frame for a datagram that came in another way, to be given to Release once.
func (r *Receiver) Frame() (id uint32, ok bool) {
	if id, ok = r.pool.Get(); ok {
		r.shares[id] = 1
	}
	return id, ok
}

// Full reports whether the newest batch had as many messages as it could, so that more may wait in the socket.
func (r *Receiver) Full() bool { return r.full }

// Waiting reports whether Next has something.
func (r *Receiver) Waiting() bool { return len(r.rest) > 0 || r.at < r.arrived }

// Done counts the messages of the newest batch that were handed out whole.
func (r *Receiver) Done() int {
	if len(r.rest) > 0 {
		return r.at - 1
	}
	return r.at
}

// Stop has Next end once so many more messages were handed out, although others may be waiting. The next batch, and another call, undo it.
func (r *Receiver) Stop(messages int) { r.stop = min(r.Done()+messages, r.arrived) }

// Next hands out the next datagram of the batch, which is the caller's until Release. It reports false when there is none left.
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

// open begins with the next message that has a datagram in it.
func (r *Receiver) open() bool {
	for ; r.at < r.stop; r.at++ {
		i := r.at
		m := &r.msgs[i]
		n := int(m.n)
		tos, segment, stamp := r.controls(i)
		merged := segment > 0 && segment < n
		if !merged {
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

// controls reads the type of service (RFC 3168), an octet over IPv4 and an int over IPv6. It also reads the segment size of a merged
// message, which is 0 for a message that was not merged.
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

// Release takes a datagram back. The frame is free with the last one that shares it.
func (r *Receiver) Release(frame uint32) {
	if r.shares[frame]--; r.shares[frame] == 0 {
		r.pool.Put(frame)
	}
}

// Unfit counts the messages since the last call that were none for the caller: cut off, or too short.
func (r *Receiver) Unfit() uint64 {
	n := r.unfit
	r.unfit = 0
	return n
}

// Close gives all posted frames back to the pool, and what was not handed out.
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

package udp

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// none is no frame.
const none = ^uint32(0)

// Receiver takes datagrams from a socket in batches. Every datagram has frames posted for the largest one there can be, but
// uses up only those that it fills: the others stay posted.
type Receiver struct {
	pool    *Pool
	per     int // frames for a datagram
	msgs    []mmsghdr
	pieces  []unix.Iovec
	frames  []uint32 // of each piece, or none
	names   []unix.RawSockaddrInet6
	control []byte
	room    int // bytes of control for each datagram
	dirty   int // the first so many datagrams may lack frames, or have the kernel's answers in their headers
}

// NewReceiver makes a receiver of batches of datagrams, each at most largest bytes long, into frames from pool.
func NewReceiver(pool *Pool, batch, largest int) *Receiver {
	per := (largest + FrameSize - 1) / FrameSize
	r := &Receiver{
		pool: pool, per: per, msgs: make([]mmsghdr, batch), pieces: make([]unix.Iovec, batch*per), frames: make([]uint32, batch*per),
		names: make([]unix.RawSockaddrInet6, batch), room: unix.CmsgSpace(4), dirty: batch,
	}
	r.control = make([]byte, batch*r.room)
	for i := range r.frames {
		r.frames[i] = none
	}
	for i := range r.msgs {
		h := &r.msgs[i].hdr
		h.Name, h.Control, h.Iov = nameOf(&r.names[i]), &r.control[i*r.room], &r.pieces[i*per]
		h.SetIovlen(per)
	}
	return r
}

// Receive takes what the socket has, at most a batch. The datagrams are described by Message until the next call.
func (r *Receiver) Receive(from *Socket) int {
	ready := r.post()
	if ready == 0 {
		return 0
	}
	n, errno := recvmmsg(from.fd, r.msgs[:ready])
	if errno != 0 {
		return 0 // nothing there, or an error that the socket had to tell: the next call looks again
	}
	r.dirty = max(r.dirty, n)
	return n
}

// post replaces the frames that were taken and returns how many datagrams can be received: fewer than a batch when the pool
// has run dry.
func (r *Receiver) post() int {
	for i := range r.dirty {
		for j := i * r.per; j < (i+1)*r.per; j++ {
			if r.frames[j] != none {
				continue
			}
			id, ok := r.pool.Get()
			if !ok {
				return i
			}
			r.frames[j] = id
			r.pieces[j].Base = &r.pool.Frame(id)[0]
			r.pieces[j].SetLen(FrameSize)
		}
		h := &r.msgs[i].hdr
		h.Namelen = unix.SizeofSockaddrInet6
		h.SetControllen(r.room)
	}
	r.dirty = 0
	return len(r.msgs)
}

// Message tells where datagram i of the last batch came from, its length, and whether it carries a congestion mark. ok is
// false for one that was cut off.
func (r *Receiver) Message(i int) (ip [16]byte, port uint16, n int, marked, ok bool) {
	m := &r.msgs[i]
	ip, port = parse(&r.names[i])
	return ip, port, int(m.n), r.marked(i), m.hdr.Flags&unix.MSG_TRUNC == 0
}

// marked looks for CE (RFC 3168) in the type of service, an octet over IPv4 and an int over IPv6.
func (r *Receiver) marked(i int) bool {
	c := r.control[i*r.room:][:r.room]
	at := unix.CmsgLen(0)
	if int(r.msgs[i].hdr.Controllen) <= at {
		return false
	}
	tos := c[at]
	if r.names[i].Family == unix.AF_INET6 {
		tos = byte(binary.NativeEndian.Uint32(c[at:]))
	}
	return tos&3 == 3
}

// Take gives frame j of datagram i to the caller, whole.
func (r *Receiver) Take(i, j int) (mem []byte, id uint32) {
	at := i*r.per + j
	id = r.frames[at]
	r.frames[at] = none
	return r.pool.Frame(id), id
}

// Close gives all posted frames back to the pool.
func (r *Receiver) Close() {
	for i, id := range r.frames {
		if id != none {
			r.pool.Put(id)
			r.frames[i] = none
		}
	}
	r.dirty = len(r.msgs)
}

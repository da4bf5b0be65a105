package packet

import (
	"sync/atomic"

	"github.com/ndxdp/ndxdp/provider/internal/link"
	"github.com/ndxdp/ndxdp/wire"
)

// Reader walks the bytes of a received packet across its pieces.
type Reader struct {
	pkt  *link.RxPacket
	frag int
	rest []byte // what is left of the current piece
	left int    // what is left of the packet
	at   int    // bytes consumed of what the packet carries, for the padding rule
}

// Reset begins with what a packet carries behind its blocks.
func (r *Reader) Reset(p *link.RxPacket) {
	r.pkt, r.frag = p, 0
	r.rest = p.Frags[0].Data[p.At:]
	r.left = p.Len - p.At
	r.at = 0
}

// next returns up to n bytes that lie together, and at least one while there are any.
func (r *Reader) next(n int) []byte {
	for len(r.rest) == 0 {
		r.frag++
		r.rest = r.pkt.Frags[r.frag].Data
	}
	b := r.rest[:min(n, len(r.rest))]
	r.rest = r.rest[len(b):]
	r.left -= len(b)
	r.at += len(b)
	return b
}

// peek returns what is next, together: as much as the longest operation header, or all that is left. It is copied only when it
// straddles pieces.
func (r *Reader) peek(scratch *[wire.MaxOpHeader]byte) []byte {
	if len(r.rest) >= len(scratch) || len(r.rest) == r.left {
		return r.rest
	}
	n := copy(scratch[:], r.rest)
	for i := r.frag + 1; n < len(scratch) && i < r.pkt.N; i++ {
		n += copy(scratch[n:], r.pkt.Frags[i].Data)
	}
	return scratch[:n]
}

// Place copies bytes to dst, as many as its length is. They must be there.
func (r *Reader) Place(dst []byte) {
	for len(dst) > 0 {
		b := r.next(len(dst))
		copy(dst, b)
		dst = dst[len(b):]
	}
}

// Skip passes n bytes over. They must be there.
func (r *Reader) Skip(n int) {
	for n > 0 {
		n -= len(r.next(n))
	}
}

// publishOrder separates the bytes of a message from its last one: a full barrier on every architecture Go supports, so
// that whoever polls the last byte sees the others (PROTOCOL §9.1).
var publishOrder atomic.Uint32

// PlaceLast is Place for the last piece of a message: its last byte is stored after all others. dst must not be empty.
func (r *Reader) PlaceLast(dst []byte) {
	r.Place(dst[:len(dst)-1])
	tail := r.next(1)
	publishOrder.Add(1)
	dst[len(dst)-1] = tail[0]
}

// operation reads the next operation header of a packet of operations. The payload behind it is there.
func (r *Reader) operation(space wire.Space, op *wire.Op) wire.DropReason {
	var scratch [wire.MaxOpHeader]byte
	if pad := -r.at & (wire.OpAlign - 1); pad > 0 {
		if r.left < pad {
			return wire.DropLength
		}
		r.Skip(pad)
	}
	n, d := wire.ParseOp(r.peek(&scratch), space, op)
	switch {
	case d == wire.DropShort, d == wire.DropNone && n+int(op.Length) > r.left:
		return wire.DropLength
	case d != wire.DropNone:
		return d
	}
	r.Skip(n)
	return wire.DropNone
}

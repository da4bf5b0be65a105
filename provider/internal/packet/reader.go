package packet

import (
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

// pass passes over n bytes that lie in the current piece.
func (r *Reader) pass(n int) {
	r.rest = r.rest[n:]
	r.left -= n
	r.at += n
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
	if n <= len(r.rest) {
		r.pass(n)
		return
	}
	for n > 0 {
		n -= len(r.next(n))
	}
}

// PlaceLast is Place for the last piece of a message: its last byte is stored after all others. dst must not be empty.
func (r *Reader) PlaceLast(dst []byte) {
	last := len(dst) - 1
	if last < len(r.rest) {
		copy(dst[:last], r.rest)
		orderStores()
		dst[last] = r.rest[last]
		r.pass(last + 1)
		return
	}
	r.Place(dst[:last])
	tail := r.next(1)
	orderStores()
	dst[last] = tail[0]
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

package packet

import (
	"github.com/ndxdp/ndxdp/provider/internal/link"
	"github.com/ndxdp/ndxdp/wire"
)

// Reader reads a received packet across its fragments.
type Reader struct {
	pkt  *link.RxPacket
	frag int
	rest []byte // rest of the current fragment
	left int    // bytes left in the packet
	at   int    // bytes of contents consumed, which padding depends on
}

// Reset begins at the contents of a packet, behind its blocks.
func (r *Reader) Reset(p *link.RxPacket) {
	r.pkt, r.frag = p, 0
	r.rest = p.Frags[0].Data[p.At:]
	r.left = p.Len - p.At
	r.at = 0
}

// next returns up to n contiguous bytes, and at least one. The packet must not be at its end.
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

// pass skips n bytes of the current fragment.
func (r *Reader) pass(n int) {
	r.rest = r.rest[n:]
	r.left -= n
	r.at += n
}

// peek returns the next bytes without consuming them: enough for the longest operation header, or the rest of the packet. It copies
// them only if they cross fragments.
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

// Place copies len(dst) bytes to dst. The packet must have them.
func (r *Reader) Place(dst []byte) {
	for len(dst) > 0 {
		b := r.next(len(dst))
		copy(dst, b)
		dst = dst[len(b):]
	}
}

// Skip skips n bytes. The packet must have them.
func (r *Reader) Skip(n int) {
	if n <= len(r.rest) {
		r.pass(n)
		return
	}
	for n > 0 {
		n -= len(r.next(n))
	}
}

// PlaceLast is Place for the last segment of a message: the last byte is stored after all others. dst must not be empty.
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

// operation reads the next operation header, and checks that the packet contains its payload.
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

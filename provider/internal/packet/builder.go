package packet

import (
	"github.com/ndxdp/ndxdp/provider/internal/link"
	"github.com/ndxdp/ndxdp/wire"
)

const (
	// minSplit is the smallest first segment of a message that is put behind others in a packet. If it would be smaller, the message starts
	// in the next packet, because a split costs another operation header.
	minSplit = 256
	// pieceAlign keeps the pieces of long messages on cache lines.
	pieceAlign = 64
	// alignedFrom is the message length from which segments in a GSO batch are aligned to cache lines. The first segment of a shorter
	// message fills its packet. All packets then have the same length, and the message needs one batch less.
	alignedFrom = 256 << 10
	// referMin is the shortest payload that leaves by reference: the kernel allocates a page for every further descriptor, and
	// below a few kilobytes a copy is cheaper.
	referMin = 4096
	// lendMin is the shortest payload that is lent: below it a copy is cheaper than another piece for the kernel.
	lendMin = 1024
)

// RunSize is how many bytes a packet of at most limit bytes has that is one whole piece of a message, without blocks.
func RunSize(limit int) int {
	return wire.BaseHeaderLen + (limit-wire.BaseHeaderLen)&^(pieceAlign-1)
}

// builder writes one packet into frames: it is begun, filled and then sealed or abandoned before the next one begins.
type builder struct {
	pkt   *link.TxPacket
	buf   []byte     // current frame, whole
	start int        // where the packet's bytes begin in it
	pos   int        // next byte to write in it
	used  int        // ND packet bytes so far, over all frames
	base  int        // length of header and blocks: the contents begin there
	limit int        // most ND packet bytes
	ops   int        // operations, or one piece without a header
	flags wire.Flags // of the blocks that are in it, and of a piece
	told  int        // ranges in its ACK block
	piece bool       // it carries one piece of a message without an operation header
	// referred: all pieces but the first are memory of the link and not frames.
	referred bool
	inRun    bool                  // it leaves in a run, if it gets full
	lends    bool                  // the link has read what the packet carries when Transmit returns
	whole    [link.MaxFrags][]byte // the frames untrimmed, to give them back when the packet is abandoned
}

// Begin starts a packet of at most limit bytes. It fails when the link has no frames left.
func (o *Out) Begin(limit int) bool {
	if !o.stock(limit/link.FrameSize + 2) {
		return false
	}
	b := &o.builder
	b.pkt = &o.batch[o.n]
	b.pkt.N, b.pkt.Joins, b.pkt.Bulk = 0, false, false
	b.limit, b.ops, b.referred, b.piece, b.inRun, b.lends = limit, 0, false, false, false, false
	b.flags, b.told, b.base = 0, 0, wire.BaseHeaderLen
	o.nextFrame(link.Headroom)
	b.pos = link.Headroom + wire.BaseHeaderLen
	b.used = wire.BaseHeaderLen
	return true
}

// stock sees to it that so many frames are at hand. It reports false when the link has too few.
func (o *Out) stock(need int) bool {
	have := len(o.frames)
	if have >= need {
		return true
	}
	o.frames = o.frames[:have+o.link.Frames(o.frames[have:cap(o.frames)])]
	if len(o.frames) < need {
		o.counts.NoFrames++
		return false
	}
	return true
}

// nextFrame closes the current frame and opens another one.
func (o *Out) nextFrame(start int) {
	b := &o.builder
	if b.pkt.N > 0 {
		b.closeFrame()
	}
	last := len(o.frames) - 1
	b.pkt.Frags[b.pkt.N] = o.frames[last]
	o.frames = o.frames[:last]
	b.buf = b.pkt.Frags[b.pkt.N].Data
	b.whole[b.pkt.N] = b.buf
	b.start, b.pos = start, start
	b.pkt.N++
}

func (b *builder) closeFrame() {
	f := &b.pkt.Frags[b.pkt.N-1]
	f.Data = b.buf[b.start:b.pos]
}

// padding is what the next operation header needs in front of it (PROTOCOL §4).
func (b *builder) padding() int {
	return -(b.used - b.base) & (wire.OpAlign - 1)
}

// room is how many bytes remain for the payload of another operation with this header; negative when not even that fits.
func (b *builder) room(header int) int { return b.limit - b.used - b.padding() - header }

// Used is how many bytes the packet at hand has so far, header and blocks included; after Seal, how many it has.
func (b *builder) Used() int { return b.used }

// Flags are the flags of the blocks in the current packet, and of a segment.
func (b *builder) Flags() wire.Flags { return b.flags }

// Told is how many ranges the ACK block of the packet at hand has.
func (b *builder) Told() int { return b.told }

// Piece says that the packet at hand is one piece without an operation header. It takes no further operation.
func (b *builder) Piece() bool { return b.piece }

// Fits says whether an operation without payload has room in the packet at hand.
func (b *builder) Fits(op *wire.Op) bool { return b.room(wire.OpLen(op.Opcode, op.Flags)) >= 0 }

// Fit decides how many bytes of op's message go into the packet now, where length bytes are left to send. ends says that the message may
// end with whole packets. It sets the operation's length and whether it is the last. It returns false if the operation has to wait for the
// next packet.
func (b *builder) Fit(op *wire.Op, length uint32, ends bool) bool {
	more := op.Opcode == wire.OpMore
	if full := b.limit - b.used; more && b.ops == 0 && int(length) >= full&^(pieceAlign-1) {
		b.piece = true // it needs no header, because it fills the packet
		op.Length = uint16(full &^ (pieceAlign - 1))
		if ends && int(op.Length) == int(length) {
			op.Flags |= wire.OpLast
		}
		return true
	}
	if ends {
		op.Flags |= wire.OpLast
	}
	if b.room(wire.OpLen(op.Opcode, op.Flags)) >= int(length) {
		op.Length = uint16(length)
		return true
	}
	op.Flags &^= wire.OpLast
	room := b.room(wire.OpLen(op.Opcode, op.Flags))
	if room < pieceAlign || b.ops > 0 && room < minSplit {
		return false
	}
	if !b.inRun || op.Total >= alignedFrom {
		room &^= pieceAlign - 1
	}
	op.Length = uint16(room)
	return true
}

// PutAck writes an ACK block into the packet that was just begun, PutReport a REPORT block behind it (PROTOCOL §3.5, §3.6).
func (b *builder) PutAck(a *wire.Ack) {
	b.blockPut(wire.FlagAck, len(a.Append(b.buf[b.pos:b.pos])))
	b.told = a.N
}

// PutReport writes a REPORT block into the packet, before anything but an ACK block.
func (b *builder) PutReport(r *wire.Report) {
	r.Append(b.buf[b.pos:b.pos])
	b.blockPut(wire.FlagReport, wire.ReportLen)
}

// blockPut notes a block of n bytes.
func (b *builder) blockPut(f wire.Flags, n int) {
	b.flags |= f
	b.pos += n
	b.used += n
	b.base = b.used
}

// Put writes an operation header, for which Fit or Fits has found room.
func (o *Out) Put(op *wire.Op) {
	b := &o.builder
	if b.piece {
		b.ops = 1
		if op.Flags&wire.OpLast != 0 {
			b.flags |= wire.FlagEnd
		}
		return
	}
	for pad := b.padding(); pad > 0; pad-- {
		if b.pos == len(b.buf) {
			o.nextFrame(0)
		}
		b.buf[b.pos] = 0
		b.pos++
		b.used++
	}
	n := wire.OpLen(op.Opcode, op.Flags)
	if b.pos+n > len(b.buf) {
		o.nextFrame(0)
	}
	wire.PutOp(b.buf[b.pos:], op)
	b.pos += n
	b.used += n
	b.ops++
}

// PutWrite writes a WRITE of src in one piece, header and payload, if there is room, if it is short, and if it lies in one frame. Otherwise
// the caller uses Fit, Put and Payload.
func (o *Out) PutWrite(address uint64, token uint32, src []byte) bool {
	b := &o.builder
	pad := b.padding()
	n := pad + wire.WriteLen + len(src)
	if len(src) >= lendMin || b.piece || n > b.limit-b.used || n > len(b.buf)-b.pos {
		return false
	}
	to := b.buf[b.pos:][:n]
	clear(to[:pad])
	wire.PutWrite(to[pad:], address, token, uint16(len(src)))
	copy(to[pad+wire.WriteLen:], src)
	b.pos += n
	b.used += n
	b.ops++
	return true
}

// Payload appends src to the operation just written.
func (o *Out) Payload(src []byte) {
	b := &o.builder
	b.used += len(src)
	for {
		n := copy(b.buf[b.pos:], src)
		b.pos += n
		if n == len(src) {
			return
		}
		src = src[n:]
		o.nextFrame(0)
	}
}

// Refer appends src to the operation just written without copying it: id is the link's name for src's first byte. The
// packet takes no further operation. The pieces must not cross frame boundaries of the link's memory.
func (b *builder) Refer(src []byte, id uint64) {
	b.closeFrame()
	b.used += len(src)
	b.limit = b.used
	for len(src) > 0 {
		n := min(len(src), link.FrameSize-int(id%link.FrameSize))
		b.pkt.Frags[b.pkt.N] = link.Frag{Data: src[:n:n], ID: id}
		b.pkt.N++
		src = src[n:]
		id += uint64(n)
	}
	b.referred = true
}

// Referable says whether n bytes may be referred to: when they fill most of the packet, as its only payload, and the pieces
// are few enough.
func (b *builder) Referable(n uint32, id uint64) bool {
	if n < referMin || b.ops != 1 || b.pkt.N != 1 || int(n) < b.limit*3/4 {
		return false
	}
	pieces := (id%link.FrameSize + uint64(n) + link.FrameSize - 1) / link.FrameSize
	return pieces < link.MaxFrags
}

// Leaves says how the current packet leaves if it becomes full: whether in a GSO batch, and whether by a link that has read it when
// Transmit returns, so that its payload may be lent.
func (b *builder) Leaves(inRun, lends bool) { b.inRun, b.lends = inRun, lends }

// Lendable says whether n bytes may be lent: when they fill the packet, as its only payload.
func (b *builder) Lendable(n uint32) bool {
	return b.lends && n >= lendMin && b.ops == 1 && b.pkt.N == 1 && b.used+int(n)+minSplit > b.limit
}

// Filled says that the packet at hand takes next to nothing more, as one does that payload was lent to: it leaves as Leaves said.
func (b *builder) Filled() bool { return b.used+minSplit > b.limit }

// Lend appends src to the operation just written without copying it, and without a frame. The packet takes no further operation.
func (b *builder) Lend(src []byte) {
	b.closeFrame()
	b.used += len(src)
	b.limit = b.used
	b.pkt.Frags[b.pkt.N] = link.Frag{Data: src[:len(src):len(src)], ID: link.Lent}
	b.pkt.N++
	b.referred = true
}

// PutControl writes a control message with a body of n bytes into the packet at hand, and zeros up to total bytes of packet, all in its first frame.
// It returns the place of the body, zeroed.
func (b *builder) PutControl(op wire.Opcode, flags uint8, n, total int) (body []byte) {
	message := b.buf[b.pos:][:max(total-b.used, wire.ControlHeaderLen+n)]
	clear(message)
	wire.PutControl(message, op, flags, n)
	b.pos += len(message)
	b.used += len(message)
	return message[wire.ControlHeaderLen:][:n:n]
}

// zeros is what packets are padded with.
var zeros [link.FrameSize]byte

// Pad appends zeros up to total bytes of packet, over as many frames as it takes.
func (o *Out) Pad(total int) {
	for left := total - o.used; left > 0; left = total - o.used {
		o.Payload(zeros[:min(left, len(zeros))])
	}
}

// Join lets the current packet leave in a GSO batch with the packets before it.
func (b *builder) Join() { b.pkt.Joins = true }

// TakeBulk makes the packet at hand leave by the bulk lane, in a run if it can.
func (b *builder) TakeBulk() { b.pkt.Joins, b.pkt.Bulk = true, true }

// Seal completes the packet at hand, for a path. Add puts it into the batch.
func (b *builder) Seal(path link.Path, ecn wire.ECN, fields *wire.BaseFields) *link.TxPacket {
	if !b.referred {
		b.closeFrame()
	}
	p := b.pkt
	p.Path, p.ECN, p.Len = path, ecn, b.used
	first := p.Frags[0].Data
	wire.PutBaseHeader(first, fields)
	crc := wire.SumFirst(fields.Number, fields.Message, first)
	for i := 1; i < p.N; i++ {
		crc = wire.Sum(crc, p.Frags[i].Data)
	}
	wire.PutCRC(first, crc)
	return p
}

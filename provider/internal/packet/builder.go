package packet

import (
	"github.com/ndxdp/ndxdp/provider/internal/link"
	"github.com/ndxdp/ndxdp/provider/internal/secure"
	"github.com/ndxdp/ndxdp/wire"
)

const (
	// minSplit is the least size of a first segment that follows other operations in a packet. A smaller segment would not be worth
	// another operation header, so the message starts in the next packet.
	minSplit = 256
	// pieceAlign aligns segments of long messages to cache lines.
	pieceAlign = 64
	// alignedFrom is the message length from which segments in a GSO batch are aligned to cache lines. The first segment of a shorter
	// message fills its packet. All packets then have the same length, and the message needs one batch less.
	alignedFrom = 256 << 10
	// referMin is the shortest payload that is sent by reference. The kernel allocates a page for each further descriptor, so below
	// a few kilobytes a copy is cheaper.
	referMin = 4096
	// lendMin is the shortest payload that is sent from the caller's memory (lent). For shorter payloads a copy is cheaper than another
	// fragment for the kernel.
	lendMin = 1024
)

// RunSize returns the size of a packet that holds one whole segment and no blocks, if packets have at most limit bytes. The length of
// the tag behind the segment is wire.TagLen for a sealed packet, else zero.
func RunSize(limit, tag int) int {
	return wire.BaseHeaderLen + (limit-wire.BaseHeaderLen-tag)&^(pieceAlign-1) + tag
}

// builder writes one packet into frames. A packet is begun, filled, and then sealed or abandoned before the next one begins.
type builder struct {
	pkt    *link.TxPacket
	buf    []byte // the whole current frame
	start  int    // offset of the packet's bytes in buf
	pos    int    // offset of the next byte to write
	used   int    // bytes of the ND packet so far, in all frames, without a tag
	base   int    // length of header and blocks, where the contents begin
	limit  int    // largest size of the ND packet, without a tag
	tag    int    // length of the tag behind the packet: wire.TagLen if it is sealed, else zero
	keys   *secure.Sealer
	ops    int                      // number of operations, or 1 for a whole segment without operation header
	flags  wire.Flags               // flags of its blocks, and of a whole segment
	told   int                      // number of ranges in its ACK block
	piece  bool                     // it holds one whole segment without an operation header
	inRun  bool                     // it leaves in a GSO batch if it becomes full
	lends  bool                     // the link has read the payload when Transmit returns
	long   bool                     // it may be a long packet, so operations may follow lent payload
	lent   bool                     // its newest fragments are payload sent by reference, and the current frame goes on in another fragment
	frames [link.MaxFrags]link.Frag // the untrimmed frames, to return them if the packet is abandoned
	taken  int                      // number of frames
}

// Begin starts a packet of at most limit bytes. It fails if the link has no free frames.
func (o *Out) Begin(limit int) bool {
	if !o.start(limit, 0) {
		return false
	}
	b := &o.builder
	b.keys = nil
	o.nextFrame(link.Headroom)
	b.pos = link.Headroom + wire.BaseHeaderLen
	return true
}

// start prepares a packet of at most limit bytes, of which the last tag bytes are its tag, and enough frames for it.
func (o *Out) start(limit, tag int) bool {
	if !o.stock(limit) {
		return false
	}
	b := &o.builder
	b.pkt = &o.batch[o.n]
	b.pkt.N, b.pkt.Joins, b.pkt.Bulk, b.pkt.Segment = 0, false, false, 0
	b.limit, b.tag, b.ops, b.piece = limit-tag, tag, 0, false
	b.inRun, b.lends, b.long, b.lent, b.taken = false, false, false, false, 0
	b.flags, b.told, b.base, b.used = 0, 0, wire.BaseHeaderLen, wire.BaseHeaderLen
	return true
}

// Holds reports whether the link has frames for a packet of n bytes now.
func (o *Out) Holds(n int) bool {
	need := n/link.FrameSize + 2
	if have := len(o.cache); have < need {
		o.cache = o.cache[:have+o.link.Frames(o.cache[have:cap(o.cache)])]
	}
	return len(o.cache) >= need
}

// stock is Holds for a packet that must wait without frames.
func (o *Out) stock(n int) bool {
	yes := o.Holds(n)
	if !yes {
		o.counts.NoFrames++
	}
	return yes
}

// nextFrame closes the current frame and opens the next one.
func (o *Out) nextFrame(start int) {
	b := &o.builder
	switch {
	case b.pkt.N == 0:
	case b.start > 0 && b.pos == b.start: // the frame was reopened, and has no room: no fragment is empty
		b.pkt.N--
	default:
		b.closeFrame()
	}
	last := len(o.cache) - 1
	f := o.cache[last]
	o.cache = o.cache[:last]
	b.pkt.Frags[b.pkt.N], b.frames[b.taken] = f, f
	b.buf, b.start, b.pos = f.Data, start, start
	b.pkt.N++
	b.taken++
}

// closeFrame ends the newest fragment, unless it is payload sent by reference.
func (b *builder) closeFrame() {
	if !b.lent {
		b.pkt.Frags[b.pkt.N-1].Data = b.buf[b.start:b.pos]
	}
}

// reopen continues the current frame behind lent payload.
func (b *builder) reopen() {
	if b.lent {
		b.pkt.Frags[b.pkt.N] = link.Frag{ID: link.Lent} // the frame returns with its first fragment
		b.pkt.N++
		b.start, b.lent = b.pos, false
	}
}

// padding returns the number of padding bytes in front of the next operation header (PROTOCOL §4).
func (b *builder) padding() int {
	return -(b.used - b.base) & (wire.OpAlign - 1)
}

// room returns how many bytes of payload fit behind another operation header of this length. It is negative if the header does not
// fit.
func (b *builder) room(header int) int {
	left := b.limit - b.used
	if b.long {
		left = min(left, b.capacity())
	}
	return left - b.padding() - header
}

// capacity returns how many bytes can be copied into a packet whose fragments may be lent.
func (b *builder) capacity() int {
	further := link.MaxFrags - b.pkt.N
	if b.lent {
		further--
	}
	if further < 0 {
		return 0
	}
	return len(b.buf) - b.pos + further*link.FrameSize - wire.MaxOpHeader // a header does not cross frames
}

// Used returns the size of the current packet so far, including header, blocks and tag. After Seal, it is the final size.
func (b *builder) Used() int { return b.used + b.tag }

// Flags returns the flags of the blocks in the current packet, and of its whole segment.
func (b *builder) Flags() wire.Flags { return b.flags }

// Told returns the number of ranges in the ACK block of the current packet.
func (b *builder) Told() int { return b.told }

// Piece reports whether the current packet is one whole segment without an operation header. No other operation fits.
func (b *builder) Piece() bool { return b.piece }

// Fits reports whether an operation without payload fits into the current packet.
func (b *builder) Fits(op *wire.Op) bool { return b.room(wire.OpLen(op.Opcode, op.Flags)) >= 0 }

// Fit decides how many of the length bytes left of op's message go into this packet. ends means that the message may end in this
// packet. Fit sets op.Length and the flag OpLast. It returns false if the operation must wait for the next packet.
func (b *builder) Fit(op *wire.Op, length uint32, ends bool) bool {
	more := op.Opcode == wire.OpMore
	if full := b.limit - b.used; more && b.ops == 0 && int(length) >= full&^(pieceAlign-1) {
		b.piece = true // no header needed, because the segment fills the packet
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

// PutAck writes an ACK block into a packet that was just begun (PROTOCOL §3.5).
func (b *builder) PutAck(a *wire.Ack) {
	b.blockPut(wire.FlagAck, len(a.Append(b.buf[b.pos:b.pos])))
	b.told = a.N
}

// PutReport writes a REPORT block into a packet that has at most an ACK block (PROTOCOL §3.6).
func (b *builder) PutReport(r *wire.Report) {
	r.Append(b.buf[b.pos:b.pos])
	b.blockPut(wire.FlagReport, wire.ReportLen)
}

// blockPut accounts for a block of n bytes.
func (b *builder) blockPut(f wire.Flags, n int) {
	b.flags |= f
	b.pos += n
	b.used += n
	b.base = b.used
}

// Put writes an operation header. Fit or Fits must have returned true for it.
func (o *Out) Put(op *wire.Op) {
	b := &o.builder
	if b.piece {
		b.ops = 1
		if op.Flags&wire.OpLast != 0 {
			b.flags |= wire.FlagEnd
		}
		return
	}
	b.reopen()
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

// PutWrite writes a complete WRITE of src, header and payload. It returns false if there is no room, if src is long, or if the
// WRITE would cross a frame. The caller then uses Fit, Put and Payload.
func (o *Out) PutWrite(address uint64, token uint32, src []byte) bool {
	b := &o.builder
	pad := b.padding()
	n := pad + wire.WriteLen + len(src)
	if len(src) >= lendMin || b.piece || n > b.limit-b.used || n > len(b.buf)-b.pos || b.lent && b.pkt.N == link.MaxFrags {
		return false
	}
	b.reopen()
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

// Refer appends src to the operation just written without a copy. id is the link's name for the first byte of src. The packet takes
// no further operation. The fragments must not cross frame boundaries of the link's memory.
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
	b.lent = true
}

// Referable reports whether n bytes may be sent by reference. They must be the packet's only payload, fill most of it, and need few
// enough fragments.
func (b *builder) Referable(n uint32, id uint64) bool {
	if n < referMin || b.ops != 1 || b.pkt.N != 1 || int(n) < b.limit*3/4 {
		return false
	}
	pieces := (id%link.FrameSize + uint64(n) + link.FrameSize - 1) / link.FrameSize
	return pieces < link.MaxFrags
}

// Leaves says how the current packet will leave if it becomes full. inRun: it joins a GSO batch. lends: the link has read it when
// Transmit returns, so that its payload may be lent. long: it may be a long packet, so that operations may follow lent payload.
func (b *builder) Leaves(inRun, lends, long bool) { b.inRun, b.lends, b.long = inRun, lends, long }

// Lendable reports whether n bytes of payload may be sent from the caller's memory, without a copy. They must be the packet's only
// payload and fill it, or the packet is long.
func (b *builder) Lendable(n uint32) bool {
	if b.long {
		return n >= lendMin && b.keys == nil && b.pkt.N < link.MaxFrags
	}
	return b.lends && n >= lendMin && b.ops == 1 && b.pkt.N == 1 && b.used+int(n)+minSplit > b.limit
}

// Filled reports whether the current packet is nearly full, as a packet with lent payload is. It then leaves as Leaves announced.
func (b *builder) Filled() bool { return b.used+minSplit > b.limit }

// Lend appends src to the operation just written, without a copy and without a frame. Only a long packet takes further operations.
func (b *builder) Lend(src []byte) {
	b.closeFrame()
	b.used += len(src)
	b.pkt.Frags[b.pkt.N] = link.Frag{Data: src[:len(src):len(src)], ID: link.Lent}
	b.pkt.N++
	b.lent = true
	if !b.long {
		b.limit = b.used
	}
}

// PutControl writes a control message with a body of n bytes into the current packet, and pads the packet with zeros to total
// bytes, not counting a tag. All of it is in the first frame. PutControl returns the zeroed body.
func (b *builder) PutControl(op wire.Opcode, flags uint8, n, total int) (body []byte) {
	message := b.buf[b.pos:][:max(total-b.used, wire.ControlHeaderLen+n)]
	clear(message)
	wire.PutControl(message, op, flags, n)
	b.pos += len(message)
	b.used += len(message)
	return message[wire.ControlHeaderLen:][:n:n]
}

// zeros is padding.
var zeros [link.FrameSize]byte

// Pad appends zeros up to a packet size of total bytes, with its tag.
func (o *Out) Pad(total int) {
	for left := total - o.Used(); left > 0; left = total - o.Used() {
		o.Payload(zeros[:min(left, len(zeros))])
	}
}

// Join lets the current packet leave in one GSO batch with the packets before it.
func (b *builder) Join() { b.pkt.Joins = true }

// TakeBulk makes the current packet leave by the bulk path, in a GSO batch if possible.
func (b *builder) TakeBulk() { b.pkt.Joins, b.pkt.Bulk = true, true }

// TakeLong makes the current packet a long packet with segments of segment bytes (PROTOCOL §11.2).
func (b *builder) TakeLong(segment int) {
	b.pkt.Joins, b.pkt.Segment = false, segment
	b.flags |= wire.FlagLong
}

// Seal completes the current packet: it adds the checksum, or encrypts the packet. Add then puts it into the batch.
func (o *Out) Seal(path link.Path, ecn wire.ECN, fields *wire.BaseFields) *link.TxPacket {
	b := &o.builder
	if b.keys != nil {
		return o.encrypt(path, ecn, fields)
	}
	b.closeFrame()
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

package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/wire"
)

// frameCache is how many free transmit frames the engine keeps at hand: enough for the largest packet several times over.
const frameCache = 128

// builder writes one packet into frames. There is one, inside the engine; a packet is begun, filled and then sealed or
// abandoned before the next one begins.
type builder struct {
	pkt   *TxPacket
	buf   []byte     // current frame, whole
	start int        // where the packet's bytes begin in it
	pos   int        // next byte to write in it
	used  int        // ND packet bytes so far, over all frames
	base  int        // of those, header and blocks: what the packet carries begins there
	limit int        // most ND packet bytes
	ops   int        // operations, or one piece without a header
	flags wire.Flags // of the blocks that are in it, and of a piece
	told  int        // ranges in its ACK block
	piece bool       // it carries one piece of a message without an operation header
	// referred: all pieces but the first are memory of the link and not frames.
	referred bool
	whole    [MaxFrags][]byte // the frames untrimmed, to give them back when the packet is abandoned
}

// begin starts a packet of at most limit bytes. It fails when the link has no frames left.
func (e *Engine) begin(limit int) bool {
	need := limit/FrameSize + 2
	if len(e.frames) < need {
		have := len(e.frames)
		got := e.link.Frames(e.frames[have:cap(e.frames)])
		e.frames = e.frames[:have+got]
		if len(e.frames) < need {
			e.stats.NoFrames++
			return false
		}
	}
	b := &e.build
	b.pkt = &e.tx[e.ntx]
	b.pkt.N = 0
	b.limit, b.ops, b.referred, b.piece = limit, 0, false, false
	b.flags, b.told, b.base = 0, 0, wire.BaseHeaderLen
	e.nextFrame(Headroom)
	b.pos = Headroom + wire.BaseHeaderLen
	b.used = wire.BaseHeaderLen
	return true
}

// nextFrame closes the current frame and opens another one.
func (e *Engine) nextFrame(start int) {
	b := &e.build
	if b.pkt.N > 0 {
		b.closeFrame()
	}
	last := len(e.frames) - 1
	b.pkt.Frags[b.pkt.N] = e.frames[last]
	e.frames = e.frames[:last]
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

// fit decides how many of the bytes of a message that op is about go into the packet now: length of them are left to send, of which whole
// packets may end the message. It sets the operation's length and whether it is the last. False means that it has to wait for the next packet.
func (b *builder) fit(op *wire.Op, length uint32, ends bool) bool {
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
	op.Length = uint16(room &^ (pieceAlign - 1))
	return true
}

// op writes an operation header, for which fit has found room.
func (e *Engine) op(op *wire.Op) {
	b := &e.build
	if b.piece {
		b.ops = 1
		if op.Flags&wire.OpLast != 0 {
			b.flags |= wire.FlagEnd
		}
		return
	}
	for pad := b.padding(); pad > 0; pad-- {
		if b.pos == len(b.buf) {
			e.nextFrame(0)
		}
		b.buf[b.pos] = 0
		b.pos++
		b.used++
	}
	n := wire.OpLen(op.Opcode, op.Flags)
	if b.pos+n > len(b.buf) {
		e.nextFrame(0)
	}
	wire.PutOp(b.buf[b.pos:], op)
	b.pos += n
	b.used += n
	b.ops++
}

// payload appends src to the operation just written.
func (e *Engine) payload(src []byte) {
	b := &e.build
	b.used += len(src)
	for {
		n := copy(b.buf[b.pos:], src)
		b.pos += n
		if n == len(src) {
			return
		}
		src = src[n:]
		e.nextFrame(0)
	}
}

// referMin is the shortest payload that leaves by reference: the kernel allocates a page for every further descriptor, and
// below a few kilobytes a copy is cheaper.
const referMin = 4096

// refer appends src to the operation just written without copying it: id is the link's name for src's first byte. The
// packet takes no further operation. The pieces must not cross frame boundaries of the link's memory.
func (e *Engine) refer(src []byte, id uint64) {
	b := &e.build
	b.closeFrame()
	b.used += len(src)
	b.limit = b.used
	for len(src) > 0 {
		n := min(len(src), FrameSize-int(id%FrameSize))
		b.pkt.Frags[b.pkt.N] = Frag{Data: src[:n:n], ID: id}
		b.pkt.N++
		src = src[n:]
		id += uint64(n)
	}
	b.referred = true
}

// referable says whether n bytes may be referred to: when they fill most of the packet, as its only payload, and the pieces
// are few enough.
func (b *builder) referable(n uint32, id uint64) bool {
	if n < referMin || b.ops != 1 || b.pkt.N != 1 || int(n) < b.limit*3/4 {
		return false
	}
	pieces := (id%FrameSize + uint64(n) + FrameSize - 1) / FrameSize
	return pieces < MaxFrags
}

// abandon gives the frames of an unfinished packet back to the cache.
func (e *Engine) abandon() {
	b := &e.build
	n := b.pkt.N
	if b.referred {
		n = 1
	}
	for i := range n {
		e.frames = append(e.frames, Frag{Data: b.whole[i], ID: b.pkt.Frags[i].ID})
	}
	b.pkt.N = 0
}

// beginOperations starts a packet of operations of at most limit bytes, with the blocks that are due. It fails when the link has no frames
// left.
func (c *conn) beginOperations(limit int) bool {
	c.makeRoom()
	if !c.engine.begin(limit) {
		c.engine.starved = true
		return false
	}
	c.putBlocks(besideRanges, false, false)
	return true
}

// beginAgain starts a packet for what is sent again. It has no blocks: what filled a packet fills one again.
func (c *conn) beginAgain() bool {
	c.makeRoom()
	if !c.engine.begin(int(c.mtu.Packet)) {
		c.engine.starved = true
		return false
	}
	return true
}

// beginControl starts a control packet of at most limit bytes, with an ACK block.
func (c *conn) beginControl(limit int, report bool) bool {
	c.leaveIdle()
	c.makeRoom()
	if !c.engine.begin(limit) {
		return false
	}
	c.putBlocks(wire.MaxAckRanges, true, report)
	return true
}

// sealControl completes a control packet.
func (c *conn) sealControl() {
	c.seal(recovery.Packet{Kind: recovery.Nothing}, wire.BaseFields{}, wire.NotECT)
}

// seal numbers the packet that was built, remembers it as p and puts it into the batch. f says what kind of packet it is, and its place.
func (c *conn) seal(p recovery.Packet, f wire.BaseFields, ecn wire.ECN) {
	e := c.engine
	b := &e.build
	p.At, p.Size = e.now, uint16(b.used)
	number := c.sent.Add(p)
	c.blocksLeft(number)
	c.bytesOut += uint64(b.used)
	f.Flags |= b.flags
	f.Number, f.ConnID = uint32(number), c.peerID
	e.sealTo(c.path, ecn, &f)
	if e.tap.on() {
		e.tapSent(c, c.local, c.remote)
	}
	e.enqueue()
}

// sealTo completes the packet that was built; enqueue puts it into the batch.
func (e *Engine) sealTo(path Path, ecn wire.ECN, fields *wire.BaseFields) {
	b := &e.build
	if !b.referred {
		b.closeFrame()
	}
	p := b.pkt
	p.Path, p.ECN, p.Len = path, ecn, b.used
	first := p.Frags[0].Data
	wire.PutBaseHeader(first, fields)
	crc := wire.SumFirst(first)
	for i := 1; i < p.N; i++ {
		crc = wire.Sum(crc, p.Frags[i].Data)
	}
	wire.PutCRC(first, crc)
	e.stats.PacketsOut++
	e.stats.BytesOut += uint64(b.used)
	e.turnBytes += b.used
}

func (e *Engine) enqueue() {
	e.ntx++
	if e.ntx == len(e.tx) {
		e.flush()
	}
}

// flush hands the batch to the link.
func (e *Engine) flush() {
	if e.ntx > 0 {
		e.link.Transmit(e.tx[:e.ntx])
		e.ntx = 0
		e.turns.Send()
		e.backlog.note(0, e.now)
	}
}

// forget frees a path, once what was built for it has left: a connection may say its last word and be gone in the same turn.
func (e *Engine) forget(p Path) {
	e.flush()
	e.link.Forget(p)
}

// control starts a control packet outside any connection and returns the place of its body of exactly n bytes (contiguous, zeroed).
func (e *Engine) control(op wire.Opcode, n int) ([]byte, bool) {
	if !e.begin(wire.ControlOffset + wire.ControlHeaderLen + n) {
		return nil, false
	}
	return e.putControl(op, 0, n, 0), true
}

// control starts a control packet of the connection like Engine.control.
func (c *conn) control(op wire.Opcode, flags uint8, n int) ([]byte, bool) {
	total := 0
	switch op {
	case wire.CtlPing, wire.CtlRTU, wire.CtlDREQ:
		total = wire.RSTPacketLen // so that a peer that knows nothing of us may say so (PROTOCOL §7.4)
	default:
	}
	return c.paddedControl(op, flags, n, total)
}

// paddedControl is control for a packet zero-padded to at least total bytes, which must fit into one frame.
func (c *conn) paddedControl(op wire.Opcode, flags uint8, n, total int) ([]byte, bool) {
	if !c.beginControl(max(total, wire.BaseHeaderLen+wire.MaxBlocksLen+wire.ControlHeaderLen+n), false) {
		return nil, false
	}
	return c.engine.putControl(op, flags, n, total), true
}

// putControl writes a control message into the packet begun, and zeros up to total bytes of packet.
func (e *Engine) putControl(op wire.Opcode, flags uint8, n, total int) []byte {
	b := &e.build
	message := b.buf[b.pos:][:max(total-b.used, wire.ControlHeaderLen+n)]
	clear(message)
	wire.PutControl(message, op, flags, n)
	b.pos += len(message)
	b.used += len(message)
	return message[wire.ControlHeaderLen:][:n:n]
}

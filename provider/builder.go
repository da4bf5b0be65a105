package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/wire"
)

// This file begins and completes the packets of a connection; package packet writes them.

// beginOperations starts a packet of operations of at most limit bytes, with the blocks that are due. It fails when the link has no frames
// left.
func (c *conn) beginOperations(limit int) bool {
	c.makeRoom()
	if !c.engine.out.Begin(limit) {
		c.engine.out.Starve()
		return false
	}
	c.putBlocks(besideRanges, false, false)
	return true
}

// beginAgain starts a packet for what is sent again. It has no blocks: what filled a packet fills one again.
func (c *conn) beginAgain() bool {
	c.makeRoom()
	if !c.engine.out.Begin(int(c.mtu.Packet)) {
		c.engine.out.Starve()
		return false
	}
	return true
}

// beginControl starts a control packet of at most limit bytes, with an ACK block.
func (c *conn) beginControl(limit int, report bool) bool {
	c.leaveIdle()
	c.makeRoom()
	if !c.engine.out.Begin(limit) {
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
	out := &e.out
	used := out.Used()
	p.At, p.Size = e.now, uint16(used)
	number := c.sent.Add(p)
	c.blocksLeft(number)
	c.bytesOut += uint64(used)
	f.Flags |= out.Flags()
	f.Number, f.ConnID = uint32(number), c.peerID
	if sealed := out.Seal(c.path, ecn, &f); e.tap.on() {
		to := c.destination()
		e.tap.sent(sealed, e, c, &c.local, &to)
	}
	e.add()
}

// add puts the packet that was sealed into the batch.
func (e *Engine) add() {
	if e.out.Add() {
		e.flush()
	}
}

// flush hands the batch to the link.
func (e *Engine) flush() {
	if e.out.Flush() {
		e.turns.Send()
		e.backlog.note(0, e.now)
	}
}

// forget frees a path, once what was built for it has left: a connection may say its last word and be gone in the same turn.
func (e *Engine) forget(p Path) {
	e.flush()
	e.link.Forget(p)
}

// control starts a control packet and returns the place of its body of exactly n bytes (contiguous, zeroed).
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
	return c.engine.out.PutControl(op, flags, n, total), true
}

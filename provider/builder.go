package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/packet"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/wire"
)

// This file begins and completes the packets of a connection, and hands them to the link; package packet writes them.

// beginContents starts a packet with new contents of a space, and decides by which lane it leaves if it gets full. In a run it is no longer than a whole
// piece of a message is, so that nothing ends the run but what is shorter.
func (t *traffic) beginContents(kind wire.Space) bool {
	limit, long := int(t.conn.mtu.Packet), 0
	if t.fullByBulk = t.conn.bulkPort != 0 && t.mayBulk(kind, limit, true); t.fullByBulk {
		long = t.longRoom()
	}
	inRun, whole := t.fullByBulk || t.joinsRun(), false
	if t.long = long > 0; t.long {
		limit = long
	} else if inRun {
		tag := tagOf(t.conn)
		limit = packet.RunSize(limit, tag)
		whole = t.fills(kind, limit-wire.BaseHeaderLen-tag)
	}
	if !t.beginPacket(limit) {
		return false
	}
	t.engine.out.Leaves(inRun, t.fullByBulk || t.engine.copies, t.long)
	if !whole || t.sent.packets.Next()%blocksEvery == 0 {
		t.received.putBlocks(besideRanges, false, false)
	}
	return true
}

// blocksEvery is how many whole segments leave in GSO batches for each segment that may carry blocks. A packet with a block ends its batch,
// which costs more than a packet of blocks alone. An acknowledgement that is due leaves alone in any case. The remaining purpose of blocks
// is to tell the peer which of its acknowledgements arrived, so that it forgets old ranges.
const blocksEvery = 256

// beginOperations starts a packet of operations, with the blocks that are due. It fails when the link has no frames left.
func (t *traffic) beginOperations() bool {
	t.fullByBulk, t.long = false, false
	if !t.beginPacket(int(t.conn.mtu.Packet)) {
		return false
	}
	t.received.putBlocks(besideRanges, false, false)
	return true
}

// beginPacket starts a packet of at most limit bytes, without blocks: what filled a packet when it was sent fills one again. It fails when the
// link has no frames left.
func (t *traffic) beginPacket(limit int) bool {
	t.sent.makeRoom()
	if t.wornOut() {
		return false
	}
	if !t.startPacket(limit) {
		t.engine.out.Starve()
		return false
	}
	return true
}

// beginControl starts a control packet of at most limit bytes, with an ACK block.
func (t *traffic) beginControl(limit int, report bool) bool {
	t.sent.makeRoom()
	if t.silenced() || !t.startPacket(limit) {
		return false
	}
	t.received.putBlocks(wire.MaxAckRanges, true, report)
	return true
}

// sealControl completes a control packet.
func (t *traffic) sealControl() {
	t.seal(recovery.Packet{Kind: recovery.Nothing}, wire.BaseFields{Message: t.fromPort()}, wire.NotECT)
}

// seal numbers the packet that was built, remembers it as p and puts it into the batch. f says what kind of packet it is, and its place.
func (t *traffic) seal(p recovery.Packet, f wire.BaseFields, ecn wire.ECN) {
	e := t.engine
	out := &e.out
	used := out.Used()
	p.At, p.Size = e.now, uint16(used)
	path := t.conn.identity.path
	if p.Path.Bulk() {
		path = t.sent.bulkPath
		if out.TakeBulk(); p.Path == recovery.PathLong {
			out.TakeLong(int(t.conn.mtu.Packet))
		}
		e.stats.BulkPacketsOut++
		e.stats.BulkBytesOut += uint64(used)
	}
	number := t.sent.packets.Add(p)
	t.received.blocksLeft(number)
	t.conn.counters.bytesOut += uint64(used)
	f.Flags |= out.Flags()
	f.Number, f.ConnID = number, t.conn.identity.peerID
	t.tell(out.Seal(path, ecn, &f))
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
		e.backlog.Sent(e.now)
	}
}

// forget frees a path, once what was built for it has left.
func (e *Engine) forget(p Path) {
	if e.out.Forget(p) {
		e.flush()
	}
}

// tell tells who wants to know of a packet that was sealed.
func (t *traffic) tell(sealed *TxPacket) {
	e := t.engine
	if !e.tap.on() {
		return
	}
	from, to := t.conn.identity.local, t.conn.identity.destination()
	if sealed.Bulk {
		from.Port, to.Port = e.cfg.BulkPort, t.conn.bulkPort
	}
	e.tap.sent(sealed, e, t.conn, &from, &to)
}

// control starts a control packet and returns the place of its body of exactly n bytes (contiguous, zeroed).
func (t *traffic) control(op wire.Opcode, flags uint8, n int) ([]byte, bool) {
	total := 0
	if op == wire.CtlPing || op == wire.CtlRTU || op == wire.CtlDREQ {
		total = wire.RSTPacketLen // so that a peer that knows nothing of us may say so (PROTOCOL §7.4)
	}
	return t.paddedControl(op, flags, n, total)
}

// paddedControl is control for a packet zero-padded to at least total bytes, which must fit into one frame.
func (t *traffic) paddedControl(op wire.Opcode, flags uint8, n, total int) ([]byte, bool) {
	report := op == wire.CtlPong && t.conn.phase == phaseOpen // who asks may have missed our receive limit
	if !t.beginControl(max(total, wire.BaseHeaderLen+wire.MaxBlocksLen+wire.ControlHeaderLen+n)+wire.TagLen, report) {
		return nil, false
	}
	if report {
		t.received.ack.Said()
	}
	return t.engine.out.PutControl(op, flags, n, total), true
}

// say sends a control message.
func (t *traffic) say(op wire.Opcode, flags uint8, body []byte) {
	if at, ok := t.control(op, flags, len(body)); ok {
		copy(at, body)
		t.sealControl()
	}
}

// sendPing asks for a sign of life. It says where an RST finds us, too (PROTOCOL §7.4).
func (t *traffic) sendPing() {
	if body, ok := t.control(wire.CtlPing, 0, wire.PingLen); ok {
		m := wire.Ping{Port: t.engine.cfg.ReceivePort}
		m.Append(body[:0])
		t.sealControl()
	}
}

// sendRTU sends the message that completes a connection. asks requests an answer at once: somebody waits for it, or it is overdue.
func (t *traffic) sendRTU(asks bool) {
	m, f := wire.RTU{ReceiveLimit: t.conn.receives.Promise(t.conn.receiveLimit())}, wire.BaseFields{Message: t.fromPort()}
	if asks {
		f.Flags = wire.FlagAckReq
	}
	if body, ok := t.control(wire.CtlRTU, 0, wire.RTULen); ok {
		m.Append(body[:0])
		t.seal(recovery.Packet{Kind: recovery.Nothing}, f, wire.NotECT)
	}
}

// sendReject sends REJ on an existing connection.
func (t *traffic) sendReject(reason wire.RejectReason, private []byte) {
	m := wire.Reject{Reason: reason, Private: private}
	t.say(wire.CtlREJ, 0, m.Append(nil))
}

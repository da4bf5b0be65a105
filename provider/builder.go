package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/packet"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/wire"
)

// This file begins and completes the packets of a connection, and hands them to the link; package packet writes them.

// beginContents starts a packet with new contents of a space, and decides by which lane it leaves if it gets full. In a run it is no longer than a whole
// piece of a message is, so that nothing ends the run but what is shorter.
func (s *sender) beginContents(kind wire.Space) bool {
	limit := int(s.mtu.Packet)
	s.fullByBulk = s.bulkPort != 0 && s.mayBulk(kind, limit, true)
	inRun, whole := s.fullByBulk || s.joinsRun(), false
	if inRun {
		limit = packet.RunSize(limit)
		whole = s.fills(kind, limit-wire.BaseHeaderLen)
	}
	if !s.beginPacket(limit) {
		return false
	}
	s.out.Leaves(inRun, s.fullByBulk || s.copies)
	if !whole || s.sent.Next()%blocksEvery == 0 {
		s.putBlocks(besideRanges, false, false)
	}
	return true
}

// blocksEvery is how many whole segments leave in GSO batches for each segment that may carry blocks. A packet with a block ends its batch,
// which costs more than a packet of blocks alone. An acknowledgement that is due leaves alone in any case. The remaining purpose of blocks
// is to tell the peer which of its acknowledgements arrived, so that it forgets old ranges.
const blocksEvery = 256

// beginOperations starts a packet of operations, with the blocks that are due. It fails when the link has no frames left.
func (o *outbound) beginOperations() bool {
	if !o.beginPacket(int(o.mtu.Packet)) {
		return false
	}
	o.putBlocks(besideRanges, false, false)
	return true
}

// beginPacket starts a packet of at most limit bytes, without blocks: what filled a packet when it was sent fills one again. It fails when the
// link has no frames left.
func (o *outbound) beginPacket(limit int) bool {
	o.makeRoom()
	if !o.out.Begin(limit) {
		o.out.Starve()
		return false
	}
	return true
}

// beginControl starts a control packet of at most limit bytes, with an ACK block.
func (o *outbound) beginControl(limit int, report bool) bool {
	o.makeRoom()
	if !o.out.Begin(limit) {
		return false
	}
	o.putBlocks(wire.MaxAckRanges, true, report)
	return true
}

// sealControl completes a control packet.
func (o *outbound) sealControl() {
	o.seal(recovery.Packet{Kind: recovery.Nothing}, wire.BaseFields{}, wire.NotECT)
}

// seal numbers the packet that was built, remembers it as p and puts it into the batch. f says what kind of packet it is, and its place.
func (o *outbound) seal(p recovery.Packet, f wire.BaseFields, ecn wire.ECN) {
	e := o.environment
	out := &e.out
	used := out.Used()
	p.At, p.Size = e.now, uint16(used)
	path := o.identity.path
	if p.Bulk {
		path = o.bulkPath
		out.TakeBulk()
		e.stats.BulkPacketsOut++
		e.stats.BulkBytesOut += uint64(used)
	}
	number := o.sent.Add(p)
	o.blocksLeft(number)
	o.counters.bytesOut += uint64(used)
	f.Flags |= out.Flags()
	f.Number, f.ConnID = number, o.identity.peerID
	o.tell(out.Seal(path, ecn, &f))
	e.add()
}

// add puts the packet that was sealed into the batch.
func (v *environment) add() {
	if v.out.Add() {
		v.flush()
	}
}

// flush hands the batch to the link.
func (v *environment) flush() {
	if v.out.Flush() {
		v.turns.Send()
		v.backlog.Sent(v.now)
	}
}

// tell tells who wants to know of a packet that was sealed.
func (o *outbound) tell(sealed *TxPacket) {
	e := o.environment
	if !e.tap.on() {
		return
	}
	from, to := o.identity.local, o.identity.destination()
	if sealed.Bulk {
		from.Port, to.Port = e.cfg.BulkPort, o.bulkPort
	}
	e.tap.sent(sealed, e, o.lasting, &from, &to)
}

// control starts a control packet and returns the place of its body of exactly n bytes (contiguous, zeroed).
func (o *outbound) control(op wire.Opcode, flags uint8, n int) ([]byte, bool) {
	total := 0
	if op == wire.CtlPing || op == wire.CtlRTU || op == wire.CtlDREQ {
		total = wire.RSTPacketLen // so that a peer that knows nothing of us may say so (PROTOCOL §7.4)
	}
	return o.paddedControl(op, flags, n, total)
}

// paddedControl is control for a packet zero-padded to at least total bytes, which must fit into one frame.
func (o *outbound) paddedControl(op wire.Opcode, flags uint8, n, total int) ([]byte, bool) {
	report := op == wire.CtlPong && o.phase == phaseOpen // who asks may have missed our receive limit
	if !o.beginControl(max(total, wire.BaseHeaderLen+wire.MaxBlocksLen+wire.ControlHeaderLen+n), report) {
		return nil, false
	}
	if report {
		o.ack.Said()
	}
	return o.out.PutControl(op, flags, n, total), true
}

// say sends a control message.
func (o *outbound) say(op wire.Opcode, flags uint8, body []byte) {
	if at, ok := o.control(op, flags, len(body)); ok {
		copy(at, body)
		o.sealControl()
	}
}

// sendPing asks for a sign of life. It says where an RST finds us, too (PROTOCOL §7.4).
func (o *outbound) sendPing() {
	if body, ok := o.control(wire.CtlPing, 0, wire.PingLen); ok {
		m := wire.Ping{Port: o.cfg.ReceivePort}
		m.Append(body[:0])
		o.sealControl()
	}
}

func (o *outbound) sendRTU() {
	m := wire.RTU{}
	if o.qp != nil {
		m.ReceiveLimit = o.receives.Promise(o.receiveLimit())
	}
	o.say(wire.CtlRTU, 0, m.Append(nil))
}

// sendReject sends REJ on an existing connection.
func (o *outbound) sendReject(reason wire.RejectReason, private []byte) {
	m := wire.Reject{Reason: reason, Private: private}
	o.say(wire.CtlREJ, 0, m.Append(nil))
}

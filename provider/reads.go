package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/memory"
	"github.com/ndxdp/ndxdp/wire"
)

// This file answers the peer's READs. A READ costs one slot whatever its length: responses are made when the window has
// room for them, from memory that is looked up and checked anew for every packet.

// onReadRequest takes a READ_REQ. READ ids count from zero, so a request is identified by its number, and a repeated
// packet never gets here: its PSN is old.
func (c *conn) onReadRequest(op *wire.Op) bool {
	s := &c.served
	if op.Number != s.tail {
		return c.refuse(op, wire.TermProtocol)
	}
	if s.tail-s.head >= c.ird && !c.answerArrived() {
		return c.refuse(op, wire.TermReadLimit)
	}
	if !c.mayBeRead(op.Token, op.Address, op.Total) {
		return c.refuse(op, wire.TermReadAccess)
	}
	s.slots[s.tail%maxReadLimit] = readSlot{addr: op.Address, token: Token(op.Token), length: op.Total}
	s.tail++
	c.activate()
	return true
}

// answerArrived takes a READ beyond the inbound limit for the acknowledgement of the oldest answer: who asks within its own limit has that
// answer, and the packets that said so may have been lost. It reports false when the answer was not sent whole.
func (c *conn) answerArrived() bool {
	s := &c.served
	if s.head == s.next.seq {
		return false
	}
	head := s.head
	c.acknowledgeBelow(wire.ResponseSpace, s.slots[head%maxReadLimit].lastPSN.Add(1))
	return s.head != head
}

// mayBeRead says whether a READ may be served. Length zero touches nothing and is always allowed.
func (c *conn) mayBeRead(token uint32, addr uint64, n uint32) bool {
	if n == 0 {
		return true
	}
	src, _ := c.engine.mem.Remote(c.qp.user(), Token(token), addr, uint64(n), RightRemoteRead)
	return src != nil
}

// sendResponses builds packets of the response space. It reports whether the connection should be asked again.
func (c *conn) sendResponses(budget int, burst *int) (again bool) {
	e := c.engine
	sp := &c.tx[wire.ResponseSpace]
	s := &c.served
	for s.next.seq != s.tail && !c.termQueued {
		if !c.windowOpen(sp) {
			return false
		}
		if budget <= 0 || *burst == 0 {
			return true
		}
		*burst--
		if !c.beginOperations(int(c.mtu.Packet)) {
			return true
		}
		from := s.next
		to, ok := c.packResponses(from, cursor{s.tail, 0}, true)
		if !ok {
			return false
		}
		s.next = to
		budget -= e.build.used
		c.launch(wire.ResponseSpace, from, to)
	}
	if c.termQueued && !c.termSent && sp.outstanding() < c.peerWindow {
		if !c.beginOperations(int(c.mtu.Packet)) {
			return true
		}
		at := s.next
		c.termSent, c.termPSN = true, sp.next
		e.op(&c.term)
		c.launch(wire.ResponseSpace, at, at)
	}
	return false
}

// memoryGone says that a packet of READ responses cannot be sent again, because the memory behind it is gone, and need not be as far as
// we know: no acknowledgement of a later packet tells that it was lost. Its requester may have ended the access itself, once it had the answer, by a word to
// our application that was faster than the acknowledgement (PROTOCOL §7.6).
func (c *conn) memoryGone(rec *txRecord) bool {
	if c.termQueued || rec.state&recLost != 0 || c.sent.Passed() > rec.number && c.recovery.ackedAt.Sub(rec.at) > c.rtt.smoothed+4*c.rtt.variance {
		return false
	}
	at := rec.from
	for at != rec.to {
		slot := &c.served.slots[at.seq%maxReadLimit]
		end := cursor{at.seq + 1, 0}
		n := slot.length - at.off
		if at.seq == rec.to.seq {
			end, n = rec.to, rec.to.off-at.off
		}
		if n > 0 {
			if src, _ := c.engine.mem.Remote(c.qp.user(), slot.token, slot.addr+uint64(at.off), uint64(n), RightRemoteRead); src == nil {
				return true
			}
		}
		at = end
	}
	return false
}

// packResponses fills the packet begun with READ responses from at up to stop. Like packRequests it gives the same packet
// for the same range, until the connection is terminated: then the memory of a lost response may be gone, so whatever is
// sent again is the TERM, and the first gap the peer has gets it.
func (c *conn) packResponses(at, stop cursor, fresh bool) (to cursor, ok bool) {
	e := c.engine
	b := &e.build
	if c.termQueued {
		e.op(&c.term)
		return at, true
	}
	for at != stop {
		slot := &c.served.slots[at.seq%maxReadLimit]
		n, fits := b.piece(slot.length-at.off, false)
		if !fits {
			break
		}
		var src []byte
		if n > 0 {
			var g *memory.Grant
			src, g = e.mem.Remote(c.qp.user(), slot.token, slot.addr+uint64(at.off), uint64(n), RightRemoteRead)
			if src == nil {
				// Deregistered, or the window invalidated, while the answer was under way.
				e.abandon()
				c.refuse(&wire.Op{Opcode: wire.OpReadReq, Number: at.seq}, wire.TermReadAccess)
				return at, false
			}
			g.CountRead()
		}
		op := &e.op1
		*op = wire.Op{Opcode: wire.OpReadResp, Length: uint16(n), Number: at.seq, Offset: at.off, Total: slot.length}
		if at.off == 0 {
			op.Flags |= wire.OpFirst
		}
		last := at.off+n == slot.length
		if last {
			op.Flags |= wire.OpLast
		}
		e.op(op)
		e.payload(src)
		if !last {
			at.off += n
			break
		}
		if fresh {
			slot.lastPSN = c.tx[wire.ResponseSpace].next
		}
		at = cursor{at.seq + 1, 0}
	}
	return at, true
}

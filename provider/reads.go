package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/memory"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/provider/internal/space"
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
	s.slots[s.tail%maxReadLimit] = readSlot{addr: op.Address, token: Token(op.Token), length: op.Total, message: op.Message}
	s.tail++
	c.activate()
	return true
}

// answerArrived takes a READ beyond the inbound limit for the acknowledgement of the oldest answer: who asks within its own limit has that
// answer, and the packets that said so may have been lost. It reports false when the answer was not sent whole.
func (c *conn) answerArrived() bool {
	s := &c.served
	if s.head == c.tx[wire.ResponseSpace].Next().Message() {
		return false
	}
	head := s.head
	c.acknowledgeBelow(wire.ResponseSpace, space.At(head+1, 0))
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
	for c.unanswered() {
		if !c.windowOpen(sp, 0) {
			return false
		}
		if budget <= 0 || *burst == 0 {
			return true
		}
		*burst--
		if !c.beginOperations(int(c.mtu.Packet)) {
			return true
		}
		from := sp.Next()
		to, ok := c.packResponses(from, space.At(s.tail, 0))
		if !ok {
			return false
		}
		budget -= e.out.Used()
		c.launch(wire.ResponseSpace, from, to)
	}
	if c.termQueued && !c.termSent {
		if !c.beginOperations(int(c.mtu.Packet)) {
			return true
		}
		c.termSent = true
		e.out.Put(&c.term)
		c.launch(wire.ResponseSpace, sp.Next(), space.At(s.tail+1, 0)) // nothing comes behind it
	}
	return false
}

// unanswered says whether something of the answers to the peer's READs was never sent, and still may be.
func (t *traffic) unanswered() bool {
	return t.tx[wire.ResponseSpace].Next().Message() != t.served.tail && !t.termQueued
}

// mayHaveArrived says that a piece of READ responses cannot be sent again, because the memory behind it is gone, and need not be as far as
// we know: the peer has not acknowledged anything that left a good round trip later. Its requester may have ended the access itself, once it had
// the answer, by a word to our application that was faster than the acknowledgement (PROTOCOL §7.6).
func (c *conn) mayHaveArrived(p space.Piece) bool {
	if c.termQueued || !c.memoryGone(p) {
		return false
	}
	for n := c.sent.Next(); n > c.sent.Floor(); {
		n--
		if t := c.sent.Packet(n); t.Kind == recovery.Responses && t.From.Before(p.To) && p.From.Before(t.To) {
			passed := c.sent.Passed()
			return passed <= n || c.sent.Packet(passed).At.Sub(t.At) <= c.rtt.smoothed+4*c.rtt.variance
		}
	}
	return false
}

// memoryGone says that the memory behind a piece of READ responses may not be read any more.
func (c *conn) memoryGone(p space.Piece) bool {
	for at := p.From; at.Before(p.To); at = at.NextMessage() {
		slot := &c.served.slots[at.Message()%maxReadLimit]
		n := slot.length - at.Offset()
		if at.Message() == p.To.Message() {
			n = p.To.Offset() - at.Offset()
		}
		if n > 0 {
			if src, _ := c.engine.mem.Remote(c.qp.user(), slot.token, slot.addr+uint64(at.Offset()), uint64(n), RightRemoteRead); src == nil {
				return true
			}
		}
	}
	return false
}

// packResponses fills the packet begun with READ responses from at up to stop, until the connection is terminated: then the memory of a
// lost response may be gone, so whatever is sent again is the TERM, and the first gap the peer has gets it.
func (c *conn) packResponses(at, stop space.Place) (to space.Place, ok bool) {
	e := c.engine
	if c.termQueued {
		e.out.Put(&c.term)
		return stop, true
	}
	for at != stop {
		slot := &c.served.slots[at.Message()%maxReadLimit]
		off := at.Offset()
		length, ends := slot.length-off, true
		if at.Message() == stop.Message() {
			length, ends = stop.Offset()-off, stop.Offset() == slot.length
		}
		op := &e.op1
		*op = wire.Op{Opcode: wire.OpReadResp, Total: slot.length}
		if off > 0 {
			op.Opcode = wire.OpMore
		}
		if !e.out.Fit(op, length, ends) {
			break
		}
		var src []byte
		if op.Length > 0 {
			var g *memory.Grant
			src, g = e.mem.Remote(c.qp.user(), slot.token, slot.addr+uint64(off), uint64(op.Length), RightRemoteRead)
			if src == nil {
				// Deregistered, or the window invalidated, while the answer was under way.
				e.out.Abandon()
				c.refuse(&wire.Op{Opcode: wire.OpReadReq, Message: slot.message}, wire.TermReadAccess)
				return at, false
			}
			g.CountRead()
		}
		e.out.Put(op)
		e.out.Payload(src)
		last := op.Flags&wire.OpLast != 0
		at = at.After(uint32(op.Length), last)
		if !last || e.out.Piece() {
			break
		}
	}
	return at, true
}

package provider

import (
	"github.com/ndxdp/ndxdp/wire"
)

// drop counts a packet that is not used, by reason.
func (e *Engine) drop(d wire.DropReason) { e.stats.Drops[d]++ }

// receive takes one packet from the link to the connection it belongs to, to connection management, or to a counter. It
// gives the frames back unless the packet waits behind a gap.
func (e *Engine) receive(p *RxPacket) {
	if p.origin == nil {
		e.stats.PacketsIn++
		e.stats.BytesIn += uint64(p.Len)
	}
	d, held := e.dispatch(p)
	if d != wire.DropNone {
		e.drop(d)
		e.note(FlightDrop, p.connID(), uint32(d), 0)
	}
	if e.tap.on() {
		e.tapReceived(p, d, held)
	}
	if !held {
		e.release(p)
	}
}

// dispatch verifies the packet before anything in it is used: version and reserved bits, connection id, addresses,
// checksum, in this order (I3; PROTOCOL §3, §6).
func (e *Engine) dispatch(p *RxPacket) (d wire.DropReason, held bool) {
	h, d := wire.ParseBaseHeader(p.Frags[0].Data)
	if d != wire.DropNone {
		return d, false
	}
	id := h.ConnID()
	if id == 0 {
		if e != e.lead {
			e.relay(p, e.lead)
			return wire.DropNone, true
		}
		return e.receiveStranger(p, h), false
	}
	c := e.group.conns.lookup(id)
	if c == nil {
		if e != e.lead {
			e.relay(p, e.lead)
			return wire.DropNone, true
		}
		return e.reply(p, e.guard.unknown(p, h, e.now)), false
	}
	if c.home.Load() != e {
		return e.receiveForeign(c, p, h)
	}
	return e.deliver(c, p, h)
}

// deliver verifies a packet of one of our connections.
func (e *Engine) deliver(c *conn, p *RxPacket, h wire.BaseHeader) (d wire.DropReason, held bool) {
	if c.peerID == 0 {
		// Active, and the peer's id is not known before REP: it must come from the peer's address.
		if p.From.IP != c.remote.IP || p.To.IP != c.local.IP {
			return wire.DropAddress, false
		}
		return c.receiveFirst(p, h), false
	}
	if c.remote.IP != p.From.IP || p.To.IP != c.local.IP {
		return wire.DropAddress, false
	}
	if !p.intact(h) {
		return wire.DropCRC, false
	}
	if p.From.Port != c.remote.Port && !c.fromElsewhere(p, h) {
		return wire.DropPath, false
	}
	if p.origin != nil || c.misrouted.from != 0 {
		c.follow(p.origin)
	}
	return c.receive(p, h)
}

// intact verifies the CRC32C over all pieces (PROTOCOL §3.4).
func (p *RxPacket) intact(h wire.BaseHeader) bool {
	crc := wire.SumFirst(p.Frags[0].Data)
	for i := 1; i < p.N; i++ {
		crc = wire.Sum(crc, p.Frags[i].Data)
	}
	return crc == h.CRC()
}

// receive takes an authentic, intact packet of a known connection.
func (c *conn) receive(p *RxPacket, h wire.BaseHeader) (d wire.DropReason, held bool) {
	c.leaveIdle()
	c.bytesIn += uint64(p.Len)
	c.heard(h)
	if d := c.engine.readBlocks(p, h); d != wire.DropNone {
		return d, false
	}
	if h.OpCount() == 0 {
		return c.receiveControl(p, h), false
	}
	if !c.readyForData() {
		if c.phase == phaseLingering {
			if h.PSN().Sub(c.rx[h.Space()].next) < 0 {
				c.keep()
			}
			c.repeatEnding()
		}
		return wire.DropState, false
	}
	if !c.takeBlocks(h.Flags()) {
		return wire.DropAckRange, false
	}
	// The acknowledgement may have been of our last word. While that is under way the peer's requests are not for us any
	// more: the packet that failed comes again, and what it did before it failed must not be done twice.
	if c.phase != phaseOpen || c.termQueued && h.Space() == wire.RequestSpace {
		return wire.DropState, false
	}
	if h.Flags()&wire.FlagExt != 0 {
		return c.receivePart(p, h), false
	}
	return c.receiveSequenced(p, h)
}

// heard notes a sign of life, and the number of the packet.
func (c *conn) heard(h wire.BaseHeader) {
	c.alive.Heard(c.engine.now)
	c.noteNumber(h)
}

// receiveSequenced puts a packet where its PSN says: next, behind a gap, or nowhere (I4).
func (c *conn) receiveSequenced(p *RxPacket, h wire.BaseHeader) (d wire.DropReason, held bool) {
	rs := &c.rx[h.Space()]
	switch ahead := h.PSN().Sub(rs.next); {
	case ahead < 0:
		c.keep()
		c.ackNow()
		return wire.DropDuplicate, false
	case ahead >= Window:
		return wire.DropWindow, false
	case ahead > 0:
		return c.receiveAhead(p, h, rs, uint32(ahead-1))
	}
	c.noteMark(p.CE)
	filled := rs.holes
	c.accept(p, h, rs)
	for c.phase == phaseOpen && (rs.held != nil && c.acceptHeld(rs) || c.assembling > 0 && c.acceptAssembled(h.Space(), rs)) {
	}
	if c.phase != phaseOpen {
		return wire.DropNone, false
	}
	c.noteAccepted(h.Flags()&wire.FlagAckReq != 0, filled)
	return wire.DropNone, false
}

// acceptHeld executes the packet that is next in its space if it waits behind a gap that has closed. It reports whether there
// was one.
func (c *conn) acceptHeld(rs *recvSpace) bool {
	slot := &rs.held[rs.next&(Window-1)]
	if *slot == 0 {
		return false
	}
	held := *slot
	*slot = 0 // it is ours now: a TERM inside gives all others back
	if held == heldNothing {
		rs.advance()
		return true
	}
	if q := &c.engine.received.held[held-1]; q.N > 0 {
		h, _ := wire.ParseBaseHeader(q.Frags[0].Data)
		c.accept(q, h, rs)
	} else if c.acceptPlaced(&c.engine.received.placed[held-1]) {
		rs.advance()
	}
	c.engine.releaseHeld(held)
	return true
}

// accept executes the packet that is next in its space.
func (c *conn) accept(p *RxPacket, h wire.BaseHeader, rs *recvSpace) {
	if c.execute(p, h) {
		c.keep()
		rs.advance()
	}
}

// receiveAhead keeps a packet that arrived before one sent earlier, in its frames: memory is written in order, so that a
// program that polls the last byte of a message finds the others in place. With Config.ImmediatePlacement it places what it can.
func (c *conn) receiveAhead(p *RxPacket, h wire.BaseHeader, rs *recvSpace, i uint32) (d wire.DropReason, held bool) {
	if rs.has(i) {
		c.keep()
		c.ackNow()
		return wire.DropDuplicate, false
	}
	if c.wait.state == waitStarved && rs == &c.rx[wire.RequestSpace] {
		c.ackNow()
		return wire.DropNoReceive, false
	}
	if rs.held == nil {
		rs.held = c.engine.pools.gaps.get()
	}
	mark, placed := heldPacket(0), false
	if c.engine.cfg.ImmediatePlacement {
		mark, placed = c.placeAhead(p, h)
	}
	if !placed {
		ok := false
		if mark, ok = c.engine.received.hold(p); !ok {
			return wire.DropHoldFull, false
		}
	}
	c.noteMark(p.CE)
	rs.held[h.PSN()&(Window-1)] = mark
	rs.set(i)
	c.keep()
	c.ackNow()
	return wire.DropNone, !placed
}

package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/lifetime"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// kept says what of a packet outlives its handling.
type kept uint8

const (
	keptNothing kept = iota
	keptCopy         // it waits behind a gap
	keptFrames       // it goes on to another engine
)

// receive takes one packet from the link to the connection it belongs to, to connection management, or to a counter. It
// gives the frames back unless they go on to another engine.
func (e *Engine) receive(p *RxPacket) {
	e.in.came, e.in.known = p.Came(e.now)
	d, keeps := e.dispatch(p)
	if d != wire.DropNone {
		e.stats.Drop(d)
		e.flight.Drop(e.now, p.ConnID(), d)
	}
	if e.tap.on() {
		e.tap.received(p, e, d, keeps)
	}
	if keeps != keptFrames {
		e.release(p)
	}
}

// dispatch verifies the packet before anything in it is used: version and reserved bits, connection id, addresses,
// checksum, in this order (I3; PROTOCOL §3, §6).
func (e *Engine) dispatch(p *RxPacket) (d wire.DropReason, keeps kept) {
	h, d := wire.ParseBaseHeader(p.Frags[0].Data)
	if d != wire.DropNone {
		return d, keptNothing
	}
	id := h.ConnID()
	if id == 0 {
		if p.Bulk {
			return wire.DropPath, keptNothing
		}
		if e != e.lead {
			passOn(e, e.lead, p)
			return wire.DropNone, keptFrames
		}
		return e.receiveStranger(p, h), keptNothing
	}
	c := e.group.conns.lookup(id)
	if c == nil {
		if p.Bulk { // nobody is answered there: there is no way back
			return wire.DropPath, keptNothing
		}
		if e != e.lead {
			passOn(e, e.lead, p)
			return wire.DropNone, keptFrames
		}
		return e.reply(p, e.guard.unknown(p, h, e.now)), keptNothing
	}
	if c.home.Load() != e {
		return e.receiveForeign(c, p, h)
	}
	return e.deliver(c, p, h)
}

// deliver verifies a packet of one of our connections.
func (e *Engine) deliver(c *conn, p *RxPacket, h wire.BaseHeader) (d wire.DropReason, keeps kept) {
	if p.Bulk && c.bulkPort == 0 {
		return wire.DropPath, keptNothing
	}
	if c.identity.remote.IP != p.From.IP || p.To.IP != c.identity.local.IP {
		return wire.DropAddress, keptNothing
	}
	if c.identity.peerID == 0 { // active, and the peer's id is not known before REP
		if h.Secure() {
			return wire.DropSealed, keptNothing
		}
		if !p.Intact(h, uint64(h.Number()), 0) { // the first packet of a peer: its number is not truncated
			return wire.DropCRC, keptNothing
		}
		c.withTraffic(func(*traffic) { d = c.receiveFirst(p, h) })
		return d, keptNothing
	}
	number, message := numbers(c, h)
	if (h.Flags()|c.identity.sealed)&wire.FlagSecure != 0 {
		if p, h, d = openPacket(e, c, p, h, number, message); p == nil {
			return d, keptNothing
		}
	} else if !p.Intact(h, number, message) {
		return wire.DropCRC, keptNothing
	}
	if h.Flags()&wire.FlagLong != 0 && !c.long {
		return wire.DropReserved, keptNothing
	}
	if c.bulkPort != 0 && p.From.Port == c.bulkPort && e.cfg.BulkPort == e.cfg.ReceivePort {
		p.Bulk = true
		e.stats.ArriveInBulk(p.Len)
	}
	switch {
	case p.Bulk && p.From.Port != c.bulkPort && !near(c, number), !p.Bulk && p.From.Port != c.identity.remote.Port && !c.fromElsewhere(p, h, number):
		return wire.DropPath, keptNothing
	case p.Bulk: // it says nothing of the queue that others come to
	case p.Origin != 0 || c.misrouted.from != 0:
		c.follow(p.Origin)
	}
	if number+wire.MaxNumbers <= heard(c) {
		return wire.DropOld, keptNothing // what it carried was acknowledged, or goes again under another number
	}
	c.withTraffic(func(t *traffic) { d, keeps = c.receive(t, p, h, number) })
	return d, keeps
}

// heard is the largest packet number that was heard of a connection's peer, zero when none was.
func heard(c *conn) uint64 {
	if c.traffic == nil {
		return c.idle.heard
	}
	return c.traffic.received.numbers.Largest()
}

// numbers returns the full packet number of a packet and its full message number, which is zero in a control packet (PROTOCOL §3.1). They are right
// if the checksum is, which covers them: a packet that is older than its truncated numbers can say counts as damaged (§3.4).
func numbers(c *conn, h wire.BaseHeader) (number uint64, message uint32) {
	number = space.Expand(h.Number(), heard(c)+1)
	switch {
	case h.Control():
		return number, 0
	case c.traffic == nil:
		return number, wire.ExpandMessage(h.Message(), c.idle.rx[h.Space()])
	}
	return number, c.traffic.received.spaces[h.Space()].place(h).Message()
}

// receive takes an authentic, intact packet of a known connection.
func (c *conn) receive(t *traffic, p *RxPacket, h wire.BaseHeader, number uint64) (d wire.DropReason, keeps kept) {
	c.counters.bytesIn += uint64(p.Len)
	t.received.heard(number)
	c.handshake.Heard(c.phase, c.engine.now)
	if d := p.ReadBlocks(h, &c.engine.in.ack, &c.engine.in.report); d != wire.DropNone {
		return d, keptNothing
	}
	if h.Control() {
		return c.receiveControl(p, h), keptNothing
	}
	if !c.readyForData() {
		if c.phase == phaseLingering {
			t.received.receiveAfterEnd(p, h, c.end.Word == lifetime.SayAck)
			c.repeatEnding()
		}
		return wire.DropState, keptNothing
	}
	if !t.takeBlocks(h.Flags()) {
		return wire.DropAckRange, keptNothing
	}
	if c.faulted != faultNone {
		c.conclude()
	}
	// The acknowledgement may have been of this side's final message. While it is in flight, requests of the peer are ignored. The packet
	// that failed arrives again, and its effects before the failure must not happen twice.
	if c.phase != phaseOpen || t.served.Terminated() && h.Space() == wire.RequestSpace {
		return wire.DropState, keptNothing
	}
	return t.receiveContents(p, h)
}

// heard notes a sign of life, and the number of the packet.
func (r *receivedState) heard(number uint64) {
	r.conn.alive.Heard(r.engine.now)
	r.engine.in.number, r.engine.in.overtaken = number, r.numbers.Heard(number)
}

// receiveAfterEnd acknowledges contents that were there before the end, and all behind a TERM, if one ended the connection.
func (r *receivedState) receiveAfterEnd(p *RxPacket, h wire.BaseHeader, byTerm bool) {
	rs := &r.spaces[h.Space()]
	if byTerm && h.Space() == wire.ResponseSpace {
		r.keep()
	} else if to, d := rs.extent(&r.engine.walk, p, h); d == wire.DropNone && !rs.next.Before(to) {
		r.keep()
	}
}

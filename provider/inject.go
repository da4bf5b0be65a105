package provider

import (
	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/ndports"
	"github.com/ndxdp/ndxdp/wire"
)

// This file serves other adapters of the machine that have the same address (PROTOCOL §7.8).

// Inject handles a packet that did not come by the links of the group: a REQ that another adapter handed over, or a packet that arrived at
// the well-known port while the links receive elsewhere. The packet is in one piece and belongs to the caller. The owner of the leading
// engine calls it.
func Inject(e *Engine, p *RxPacket) {
	e.stats.Arrive(p.Len, p.Bulk)
	e.in.came, e.in.known = p.Came(e.now)
	d := wire.DropUnknownConn
	switch h, short := wire.ParseBaseHeader(p.Frags[0].Data); {
	case short != wire.DropNone:
		d = short
	case h.ConnID() == 0:
		d = e.receiveStranger(p, h)
	case !p.Handed && e.group.conns.lookup(h.ConnID()) == nil:
		d = e.reply(p, e.guard.unknown(p, h, e.now))
	}
	if d != wire.DropNone {
		e.stats.Drop(d)
	}
	if e.tap.on() {
		e.tap.received(p, e, d, keptNothing)
	}
}

// nobodyHere decides about a REQ for a port that nobody listens on here: it is for another adapter of the machine, or for nobody.
func (s *strangers) nobodyHere(p *RxPacket, hello *wire.Hello, now clock.Time) verdict {
	to := ndports.Nobody
	if !p.Handed && p.To.Port == s.port {
		to = s.others.HandOver(p, hello.DstPort)
	}
	switch to {
	case ndports.Done:
		s.stats.HandedOver++
		return verdict{}
	case ndports.Dropped:
		return verdict{drop: wire.DropBacklog}
	case ndports.Refused:
		return s.reject(p, hello, wire.RejectBacklog, now)
	case ndports.Nobody:
	}
	return s.reject(p, hello, wire.RejectNoListener, now)
}

package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/bulk"
	"github.com/ndxdp/ndxdp/provider/internal/link"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// This file is where connections use the bulk lane (PROTOCOL §11.1): package bulk decides, and the link carries.

// mayBulk says whether a packet of size bytes leaves by the bulk path. It does if it is one of many full packets and the bulk path is
// faster. It also does if it would otherwise overtake contents that are in flight on the bulk path.
func (t *traffic) mayBulk(kind wire.Space, size int, full bool) bool {
	p := bulk.Packet{Size: size, Room: int(t.conn.mtu.Packet) - size, Full: full, Alone: t.sent.packets.PacketsInFlight() == 0, Behind: t.sent.spaces[kind].Una().Before(t.sent.bulkTo[kind])}
	if !p.Behind {
		t.sent.bulkTo[kind] = t.sent.spaces[kind].Una() // places go round
	}
	if full {
		p.Waits = t.waits(kind)
	}
	return t.sent.bulk.Takes(p) && t.findBulk()
}

// findBulk finds the way to the peer by the engine's lane. A connection that comes from another engine has none, and may have proven the lane there.
func (t *traffic) findBulk() bool {
	if t.sent.bulkPath == 0 && link.BulkOpen(t.engine.link) {
		t.sent.bulkPath, _ = t.engine.link.(link.Laned).BulkPath(wire.Endpoint{IP: t.conn.identity.remote.IP, Port: t.conn.bulkPort})
	}
	return t.sent.bulkPath != 0
}

// takesBulk says whether the packet that was just packed, with contents of a space up to to, leaves by the bulk lane.
func (t *traffic) takesBulk(kind wire.Space, to space.Place, full bool) bool {
	if full && !t.fullByBulk || !full && !t.mayBulk(kind, t.engine.out.Used(), false) {
		return false
	}
	t.sent.bulkTo[kind] = to
	if t.sent.bulk.Left(t.engine.now) {
		t.sent.cc.Elsewhere()
	}
	return true
}

// probeBulk sends the probe that is due, beside data that fill packets.
func (t *traffic) probeBulk() {
	e, size := t.engine, int(t.conn.mtu.Packet)
	// While the size is searched for none leaves.
	if t.sent.search.Size != 0 || !t.sent.bulk.ProbeDue(size, e.now) || !link.BulkOpen(e.link) || !t.findBulk() {
		return
	}
	nonce, ok := t.sent.bulk.Probe(size, e.now, t.conn.rtt.Timeout(minRTO), e.rng.Uint32())
	if !ok {
		t.sent.noteBulkLeft()
		return
	}
	if !t.beginControl(size, false) {
		return
	}
	m := wire.Probe{Nonce: nonce, Size: uint16(size)}
	m.Append(e.out.PutControl(wire.CtlProbe, 0, wire.ProbeLen, 0)[:0])
	e.out.Pad(size)
	e.stats.BulkProbes++
	t.seal(recovery.Packet{Kind: recovery.Nothing, Bulk: true}, wire.BaseFields{Message: t.fromPort()}, wire.NotECT)
}

// leaveBulk handles packets of the bulk path that are overdue. Their contents are sent again by the ND port, because no acknowledgement of
// packets there says anything about them. The connection may have left the bulk path already, because probes were not answered.
func (s *sentState) leaveBulk() {
	if s.bulk.TimedOut(s.engine.now) {
		s.noteBulkLeft()
	}
	for n := s.packets.Oldest(); n < s.packets.Next(); n++ {
		if p := s.packets.Packet(n); p.Bulk && p.InFlight() {
			s.packets.Mark(p, recovery.Again)
			s.spaces[p.Kind].Missing(space.Piece{From: p.From, To: p.To, Losses: p.Losses})
		}
	}
}

// noteBulkLeft notes that the connection sends nothing by the lane any more, until it is proven again.
func (s *sentState) noteBulkLeft() {
	s.engine.stats.LeaveBulk(s.bulk.Why())
	s.engine.flight.Note(s.engine.now, FlightBulk, s.conn.identity.id, 0, uint32(s.bulk.Why()))
}

// forgetBulk frees the connection's path of the lane, once what was built for it has left.
func forgetBulk(c *conn) {
	if c.traffic == nil || c.traffic.sent.bulkPath == 0 {
		return
	}
	c.engine.flush()
	c.engine.link.(link.Laned).ForgetBulk(c.traffic.sent.bulkPath)
	c.traffic.sent.bulkPath = 0
}

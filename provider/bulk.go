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
func (s *sender) mayBulk(kind wire.Space, size int, full bool) bool {
	p := bulk.Packet{Size: size, Room: int(s.mtu.Packet) - size, Full: full, Alone: s.sent.PacketsInFlight() == 0, Behind: s.tx[kind].Una().Before(s.bulkTo[kind])}
	if !p.Behind {
		s.bulkTo[kind] = s.tx[kind].Una() // places go round
	}
	if full {
		p.Waits = s.waits(kind)
	}
	return s.bulk.Takes(p) && s.findBulk()
}

// findBulk finds the way to the peer by the engine's lane. A connection that comes from another engine has none, and may have proven the lane there.
func (s *sender) findBulk() bool {
	if s.bulkPath == 0 && link.BulkOpen(s.link) {
		s.bulkPath, _ = s.link.(link.Laned).BulkPath(wire.Endpoint{IP: s.identity.remote.IP, Port: s.bulkPort})
	}
	return s.bulkPath != 0
}

// takesBulk says whether the packet that was just packed, with contents of a space up to to, leaves by the bulk lane.
func (s *sender) takesBulk(kind wire.Space, to space.Place, full bool) bool {
	if full && !s.fullByBulk || !full && !s.mayBulk(kind, s.out.Used(), false) {
		return false
	}
	s.bulkTo[kind] = to
	if s.bulk.Left(s.now) {
		s.cc.Elsewhere()
	}
	return true
}

// probeBulk sends the probe that is due, beside data that fill packets.
func (s *sender) probeBulk() {
	e, size := s.environment, int(s.mtu.Packet)
	// While the size is searched for none leaves.
	if s.search.Size != 0 || !s.bulk.ProbeDue(size, e.now) || !link.BulkOpen(e.link) || !s.findBulk() {
		return
	}
	nonce, ok := s.bulk.Probe(size, e.now, s.rtt.Timeout(minRTO), e.rng.Uint32())
	if !ok {
		s.noteBulkLeft()
		return
	}
	if !s.beginControl(size, false) {
		return
	}
	m := wire.Probe{Nonce: nonce, Size: uint16(size)}
	m.Append(e.out.PutControl(wire.CtlProbe, 0, wire.ProbeLen, 0)[:0])
	e.out.Pad(size)
	e.stats.BulkProbes++
	s.seal(recovery.Packet{Kind: recovery.Nothing, Bulk: true}, wire.BaseFields{}, wire.NotECT)
}

// leaveBulk handles packets of the bulk path that are overdue. Their contents are sent again by the ND port, because no acknowledgement of
// packets there says anything about them. The connection may have left the bulk path already, because probes were not answered.
func (t *transmitted) leaveBulk() {
	if t.bulk.TimedOut(t.now) {
		t.noteBulkLeft()
	}
	for n := t.sent.Oldest(); n < t.sent.Next(); n++ {
		if p := t.sent.Packet(n); p.Bulk && p.InFlight() {
			t.sent.Mark(p, recovery.Again)
			t.tx[p.Kind].Missing(space.Piece{From: p.From, To: p.To, Losses: p.Losses})
		}
	}
}

// noteBulkLeft notes that the connection sends nothing by the lane any more, until it is proven again.
func (t *transmitted) noteBulkLeft() {
	t.stats.LeaveBulk(t.bulk.Why())
	t.flight.Note(t.now, FlightBulk, t.identity.id, 0, uint32(t.bulk.Why()))
}

// forgetBulk frees the connection's path of the lane, once what was built for it has left.
func forgetBulk(c *conn) {
	if c.traffic == nil || c.traffic.bulkPath == 0 {
		return
	}
	c.engine.flush()
	c.engine.link.(link.Laned).ForgetBulk(c.traffic.bulkPath)
	c.traffic.bulkPath = 0
}

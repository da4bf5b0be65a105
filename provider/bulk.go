package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/bulk"
	"github.com/ndxdp/ndxdp/provider/internal/link"
	"github.com/ndxdp/ndxdp/provider/internal/packet"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// This file is where connections use the bulk lane (PROTOCOL §11.1, §11.2): package bulk decides, and the link carries.

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

// pathOf returns where the packet leaves that was just packed, with contents of a space up to to.
func (t *traffic) pathOf(kind wire.Space, to space.Place, full bool) recovery.Path {
	used, path := t.engine.out.Used(), recovery.PathBulk
	switch {
	case t.conn.bulkPort == 0:
		return recovery.PathND
	case t.long: // its payload may be lent, which only the bulk lane can send
		if used > int(t.conn.mtu.Packet) {
			path = recovery.PathLong
		}
	case full && !t.fullByBulk || !full && !t.mayBulk(kind, used, false):
		return recovery.PathND
	}
	t.sent.bulkTo[kind] = to
	t.sent.long.Left(used)
	if t.sent.bulk.Left(t.engine.now) {
		t.sent.cc.Elsewhere()
	}
	return path
}

// longLost takes in that a packet on a path was declared lost, or overdue, which the arrival of another long packet revokes.
func (s *sentState) longLost(path recovery.Path) {
	if path == recovery.PathLong && s.long.Lost() {
		s.noteLeft(path)
	}
}

// probeBulk sends the probe that is due, beside data that fill packets.
func (t *traffic) probeBulk() {
	e, size, path := t.engine, int(t.conn.mtu.Packet), recovery.PathBulk
	switch {
	case t.sent.search.Size != 0: // while the size is searched for none leaves
		return
	case t.sent.bulk.ProbeDue(size, e.now):
	case t.conn.long && t.longest() > size && t.sent.bulk.Carries(size) && t.sent.long.ProbeDue(t.longest(), e.cfg.LongAfter, e.now):
		size, path = t.longest(), recovery.PathLong
	default:
		return
	}
	if !link.BulkOpen(e.link) || !t.findBulk() {
		return
	}
	nonce, timeout, ok := e.rng.Uint32(), t.conn.rtt.Timeout(minRTO), false
	if path == recovery.PathLong {
		nonce, ok = t.sent.long.Probe(size, e.now, timeout, nonce)
	} else {
		nonce, ok = t.sent.bulk.Probe(size, e.now, timeout, nonce)
	}
	if !ok {
		t.sent.noteLeft(path)
		return
	}
	e.stats.BulkProbes++
	t.sendProbe(nonce, size, path)
}

// leaveBulk handles packets of the bulk path that are overdue. Their contents are sent again by the ND port, because no acknowledgement of
// packets there says anything about them. The connection may have left the bulk path already, because probes were not answered.
func (s *sentState) leaveBulk() {
	if s.bulk.TimedOut(s.engine.now) {
		s.noteLeft(recovery.PathBulk)
	}
	for n := s.packets.Oldest(); n < s.packets.Next(); n++ {
		if p := s.packets.Packet(n); p.Path.Bulk() && p.InFlight() {
			s.packets.Mark(p, recovery.Again)
			s.spaces[p.Kind].Missing(space.Piece{From: p.From, To: p.To, Losses: p.Losses})
		}
	}
}

// noteLeft notes that the connection sends nothing by the lane, or no long packets, until that is proven again.
func (s *sentState) noteLeft(path recovery.Path) {
	kind, why := FlightLong, uint32(0)
	if path == recovery.PathLong {
		s.engine.stats.LongLeft++
	} else {
		kind, why = FlightBulk, uint32(s.bulk.Why())
		s.engine.stats.LeaveBulk(s.bulk.Why())
		s.long.Forget()
	}
	s.engine.flight.Note(s.engine.now, kind, s.conn.identity.id, 0, why)
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

// longest returns the size of the longest packet: a GSO batch, and what a share holds.
func (t *traffic) longest() int { return min(packet.TxBatch*int(t.conn.mtu.Packet), mostShare) }

// longRoom returns how long the next packet of the bulk lane may be, or zero if it may not be a long packet. A long packet may exceed
// the connection's share. The next shares are smaller then.
func (t *traffic) longRoom() int {
	s := &t.sent
	size := min(t.longest(), s.long.Proven())
	peer := int(t.conn.peerWindow) - s.spaces[0].Beyond() - s.spaces[1].Beyond()
	if size = bulk.LongRoom(int(t.conn.mtu.Packet), size, min(s.cc.Window, peer)-s.packets.InFlight()); t.engine.out.Holds(size) {
		return size
	}
	return 0
}

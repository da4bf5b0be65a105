package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/congestion"
	"github.com/ndxdp/ndxdp/provider/internal/link"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/wire"
)

// This file sends and answers the probes of the search for the largest packet that reaches the peer (PROTOCOL §9.6).

// maxLosses is the number of losses of one packet larger than wire.MinPacket after which the path counts as having a smaller MTU.
const maxLosses = 3

// searching returns the state of the search that is dropped when the connection becomes idle, or nil for an idle connection.
func (t *traffic) searching() *congestion.Search {
	if t == nil {
		return nil
	}
	return &t.sent.search
}

// searchPath sends a probe if one is due. The caller has just sent data that fill at least one packet.
func (t *traffic) searchPath() {
	e := t.engine
	size, known := link.Largest(e.link, t.conn.identity.path)
	if !known {
		t.conn.mtu.Later(&t.sent.search, e.now)
		return
	}
	if t.conn.mtu.Fit(&t.sent.search, e.now, size) {
		t.sent.cc.Resize(int(t.conn.mtu.Packet), t.conn.rtt.Smoothed)
	}
	if e.now >= t.sent.search.At && t.conn.mtu.Next(&t.sent.search, e.now, e.rng) && t.sendProbe(t.sent.search.Nonce, int(t.sent.search.Size), recovery.PathND) {
		e.stats.PathProbes++
		t.conn.mtu.Sent(&t.sent.search, e.now, t.conn.rtt.Timeout(minRTO))
	}
}

// sendProbe sends a PROBE of a packet size. The congestion window does not apply, because at most one is sent per probe timer. Its loss
// loses no data and is not a sign of congestion (RFC 8899 §3). It returns false if there was no frame.
func (t *traffic) sendProbe(nonce uint32, size int, path recovery.Path) bool {
	if !t.beginControl(size, false) {
		return false
	}
	m := wire.Probe{Nonce: nonce, Size: uint16(size)}
	m.Append(t.engine.out.PutControl(wire.CtlProbe, 0, wire.ProbeLen, 0)[:0])
	t.engine.out.Pad(size)
	t.seal(recovery.Packet{Kind: recovery.Nothing, Path: path}, wire.BaseFields{Message: t.fromPort()}, wire.NotECT)
	return true
}

// onProbe answers a PROBE. A long one says nothing of the path's MTU.
func (t *traffic) onProbe(body []byte, long bool) wire.DropReason {
	var m wire.Probe
	if d := wire.ParseProbe(body, &m); d != wire.DropNone {
		return d
	}
	if !long {
		t.conn.mtu.Heard(&t.sent.search, t.engine.now, m.Size)
	}
	if answer, ok := t.control(wire.CtlProbeAck, 0, len(body)); ok {
		m.Append(answer[:0])
		t.sealControl()
	}
	return wire.DropNone
}

// onProbeAck handles the answer to the current probe: packets of its size arrive.
func (s *sentState) onProbeAck(body []byte) wire.DropReason {
	var m wire.Probe
	if d := wire.ParseProbe(body, &m); d != wire.DropNone {
		return d
	}
	if s.bulk.Answered(m.Nonce, m.Size) {
		s.engine.stats.BulkProven++
		s.engine.flight.Note(s.engine.now, FlightBulk, s.conn.identity.id, 1, uint32(m.Size))
		return wire.DropNone
	}
	if s.long.Answered(m.Nonce, m.Size) {
		s.engine.stats.LongProven++
		s.engine.flight.Note(s.engine.now, FlightLong, s.conn.identity.id, 1, uint32(m.Size))
		return wire.DropNone
	}
	before := s.conn.mtu.Packet
	if !s.conn.mtu.Answered(&s.search, s.engine.now, m.Nonce, m.Size) {
		return wire.DropState // answer to an earlier probe
	}
	s.cc.Resize(int(m.Size), s.conn.rtt.Smoothed)
	s.engine.flight.Note(s.engine.now, FlightPath, s.conn.identity.id, uint32(before), uint32(m.Size))
	s.engine.stats.PathRaised++
	return wire.DropNone
}

// countLoss counts a packet that was declared lost.
func (s *sentState) countLoss(p *recovery.Packet) {
	if p.Losses < recovery.MostLosses {
		p.Losses++
		s.conn.ecn.LostAgain(p.Losses, s.packets.Next(), s.engine.now)
		s.noteECN()
	}
	if p.Losses >= maxLosses && p.Size > wire.MinPacket {
		s.pathShrank()
	}
}

// pathShrank handles a packet larger than wire.MinPacket that was lost maxLosses times.
func (s *sentState) pathShrank() {
	before := s.conn.mtu.Packet
	if !s.conn.mtu.Shrink(&s.search, s.engine.now) {
		return
	}
	s.cc.Resize(wire.MinPacket, s.conn.rtt.Smoothed)
	s.engine.flight.Note(s.engine.now, FlightPath, s.conn.identity.id, uint32(before), wire.MinPacket)
	s.engine.stats.BlackHoles++
}

// regainSize handles the arrival of a packet that counted as lost. If the packet was larger than packets are now, the path had not
// shrunk, and its size is used again.
func (s *sentState) regainSize(size int) {
	before := s.conn.mtu.Packet
	if !s.conn.mtu.Regain(&s.search, s.engine.now, size) {
		return
	}
	s.cc.Resize(size, s.conn.rtt.Smoothed)
	s.engine.flight.Note(s.engine.now, FlightPath, s.conn.identity.id, uint32(before), uint32(size))
}

// Resized handles a change of the link's MaxPacket. Connections that send larger packets reduce their size; others probe for larger
// packets. Packet sizes that were announced to peers stay valid. The engine's owner calls it.
func (e *Engine) Resized() {
	for c := range e.group.conns.all {
		if c.home.Load() == e {
			c.fitLink()
		}
	}
}

// fitLink makes the connection follow the size of its engine's link, once the peer's is known.
func (c *conn) fitLink() {
	size, _ := link.Largest(c.engine.link, c.identity.path)
	c.mtu.Fit(c.traffic.searching(), c.engine.now, size)
	if c.traffic != nil && c.mtu.Packet != 0 {
		c.traffic.sent.cc.Resize(int(c.mtu.Packet), c.rtt.Smoothed)
	}
}

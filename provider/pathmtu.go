package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/congestion"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/wire"
)

// This file sends and answers the probes of the search for the largest packet that reaches the peer (PROTOCOL §9.6).

// maxLosses of one packet that is larger than wire.MinPacket mean that its path has become smaller.
const maxLosses = 3

// beginSearch is called when the peer has said what it can receive.
func (c *conn) beginSearch(peer uint32) {
	c.mtu.Begin(int(min(peer, wire.MaxPacket)), c.local.Is4())
	c.fitLink()
}

// searching is what a search does not keep over a rest; nil at rest.
func (t *traffic) searching() *congestion.Search {
	if t == nil {
		return nil
	}
	return &t.search
}

// searchPath sends the probe that is due. The caller has just sent data that fill a packet, or more than fits into one.
func (c *conn) searchPath() {
	e := c.engine
	if c.mtu.Next(&c.search, e.now, e.rng) && c.sendProbe() {
		c.mtu.Sent(&c.search, e.now, c.rtt.Timeout(e.cfg.MinRTO))
	}
}

// sendProbe sends a PROBE of the size under way. It is outside the congestion window, because there is one in a probe timer at
// the most; nothing is lost with it, and its loss says nothing about congestion (RFC 8899 §3). It reports false when there
// was no frame for it.
func (c *conn) sendProbe() bool {
	e := c.engine
	size := int(c.search.Size)
	if !c.beginControl(size, false) {
		return false
	}
	m := wire.Probe{Nonce: c.search.Nonce, Size: c.search.Size}
	m.Append(e.out.PutControl(wire.CtlProbe, 0, wire.ProbeLen, 0)[:0])
	e.out.Pad(size)
	e.stats.PathProbes++
	c.sealControl()
	return true
}

// onProbe answers a PROBE.
func (c *conn) onProbe(body []byte) wire.DropReason {
	var m wire.Probe
	if d := wire.ParseProbe(body, &m); d != wire.DropNone {
		return d
	}
	if answer, ok := c.control(wire.CtlProbeAck, 0, len(body)); ok {
		m.Append(answer[:0])
		c.sealControl()
	}
	return wire.DropNone
}

// onProbeAck takes the answer to the probe under way: packets of its size arrive.
func (c *conn) onProbeAck(body []byte) wire.DropReason {
	var m wire.Probe
	if d := wire.ParseProbe(body, &m); d != wire.DropNone {
		return d
	}
	before := c.mtu.Packet
	if !c.mtu.Answered(&c.search, c.engine.now, m.Nonce, m.Size) {
		return wire.DropState // of an earlier probe
	}
	c.cc.Resize(int(m.Size), c.rtt.Smoothed)
	c.engine.flight.Note(c.engine.now, FlightPath, c.id, uint32(before), uint32(m.Size))
	c.engine.stats.PathRaised++
	return wire.DropNone
}

// countLoss counts that a packet was taken for lost.
func (c *conn) countLoss(p *recovery.Packet) {
	if p.Losses < maxLosses {
		p.Losses++
	}
	if p.Losses == maxLosses && p.Size > wire.MinPacket {
		c.pathShrank()
	}
}

// pathShrank is called when a packet that is larger than wire.MinPacket was lost maxLosses times.
func (c *conn) pathShrank() {
	before := c.mtu.Packet
	if !c.mtu.Shrink(c.searching(), c.engine.now) {
		return
	}
	c.cc.Resize(wire.MinPacket, c.rtt.Smoothed)
	c.engine.flight.Note(c.engine.now, FlightPath, c.id, uint32(before), wire.MinPacket)
	c.engine.stats.BlackHoles++
}

// Resized tells the engine that its link's MaxPacket is another one. Connections that send larger packets send smaller ones
// from now on; others look whether larger ones pass. What the peers were told that they may send stands. The owner calls it.
func (e *Engine) Resized() {
	for c := range e.group.conns.all {
		if c.home.Load() == e {
			c.fitLink()
		}
	}
}

// fitLink makes the connection follow the size of its engine's link, once the peer's is known.
func (c *conn) fitLink() {
	c.mtu.Fit(c.searching(), c.engine.now, c.engine.link.MaxPacket())
	if c.traffic != nil && c.mtu.Packet != 0 {
		c.cc.Resize(int(c.mtu.Packet), c.rtt.Smoothed)
	}
}

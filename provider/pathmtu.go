package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/congestion"
	"github.com/ndxdp/ndxdp/provider/internal/link"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/wire"
)

// This file sends and answers the probes of the search for the largest packet that reaches the peer (PROTOCOL §9.6).

// maxLosses of one packet that is larger than wire.MinPacket mean that its path has become smaller.
const maxLosses = 3

// searching returns what a search does not keep over a rest; nil at rest.
func (t *traffic) searching() *congestion.Search {
	if t == nil {
		return nil
	}
	return &t.search
}

// searchPath sends the probe that is due. The caller has just sent data that fill a packet, or more than fits into one.
func (o *outbound) searchPath() {
	e := o.environment
	size, known := link.Largest(e.link, o.path)
	if !known {
		o.mtu.Later(&o.search, e.now)
		return
	}
	if o.mtu.Fit(&o.search, e.now, size) {
		o.cc.Resize(int(o.mtu.Packet), o.rtt.Smoothed)
	}
	if e.now >= o.search.At && o.mtu.Next(&o.search, e.now, e.rng) && o.sendProbe() {
		o.mtu.Sent(&o.search, e.now, o.rtt.Timeout(e.cfg.MinRTO))
	}
}

// sendProbe sends a PROBE of the current probe size. It is not subject to the congestion window, because at most one is sent
// per probe timer. Its loss loses no data and is no sign of congestion (RFC 8899 §3). It returns false if there was no frame
// for it.
func (o *outbound) sendProbe() bool {
	e := o.environment
	size := int(o.search.Size)
	if !o.beginControl(size, false) {
		return false
	}
	m := wire.Probe{Nonce: o.search.Nonce, Size: o.search.Size}
	m.Append(e.out.PutControl(wire.CtlProbe, 0, wire.ProbeLen, 0)[:0])
	e.out.Pad(size)
	e.stats.PathProbes++
	o.sealControl()
	return true
}

// onProbe answers a PROBE.
func (o *outbound) onProbe(body []byte) wire.DropReason {
	var m wire.Probe
	if d := wire.ParseProbe(body, &m); d != wire.DropNone {
		return d
	}
	o.mtu.Heard(&o.search, o.now, m.Size)
	if answer, ok := o.control(wire.CtlProbeAck, 0, len(body)); ok {
		m.Append(answer[:0])
		o.sealControl()
	}
	return wire.DropNone
}

// onProbeAck takes the answer to the probe under way: packets of its size arrive.
func (t *transmitted) onProbeAck(body []byte) wire.DropReason {
	var m wire.Probe
	if d := wire.ParseProbe(body, &m); d != wire.DropNone {
		return d
	}
	if t.bulk.Answered(m.Nonce, m.Size) {
		t.stats.BulkProven++
		t.flight.Note(t.now, FlightBulk, t.id, 1, uint32(m.Size))
		return wire.DropNone
	}
	before := t.mtu.Packet
	if !t.mtu.Answered(&t.search, t.now, m.Nonce, m.Size) {
		return wire.DropState // of an earlier probe
	}
	t.cc.Resize(int(m.Size), t.rtt.Smoothed)
	t.flight.Note(t.now, FlightPath, t.id, uint32(before), uint32(m.Size))
	t.stats.PathRaised++
	return wire.DropNone
}

// countLoss counts that a packet was taken for lost.
func (t *transmitted) countLoss(p *recovery.Packet) {
	if p.Losses < recovery.MostLosses {
		p.Losses++
		t.ecn.LostAgain(p.Losses, t.sent.Next(), t.now)
		t.noteECN()
	}
	if p.Losses >= maxLosses && p.Size > wire.MinPacket {
		t.pathShrank()
	}
}

// pathShrank is called when a packet that is larger than wire.MinPacket was lost maxLosses times.
func (t *transmitted) pathShrank() {
	before := t.mtu.Packet
	if !t.mtu.Shrink(&t.search, t.now) {
		return
	}
	t.cc.Resize(wire.MinPacket, t.rtt.Smoothed)
	t.flight.Note(t.now, FlightPath, t.id, uint32(before), wire.MinPacket)
	t.stats.BlackHoles++
}

// Resized tells the engine that its link's MaxPacket has changed. Connections that send larger packets reduce their size;
// others probe for larger packets. The packet sizes that peers were promised stay valid. The owner calls it.
func (e *Engine) Resized() {
	for c := range e.group.conns.all {
		if c.home.Load() == e {
			c.fitLink()
		}
	}
}

// fitLink makes the connection follow the size of its engine's link, once the peer's is known.
func (c *conn) fitLink() {
	size, _ := link.Largest(c.engine.link, c.path)
	c.mtu.Fit(c.searching(), c.engine.now, size)
	if c.traffic != nil && c.mtu.Packet != 0 {
		c.cc.Resize(int(c.mtu.Packet), c.rtt.Smoothed)
	}
}

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
	return &t.search
}

// searchPath sends a probe if one is due. The caller has just sent data that fill at least one packet.
func (o *outbound) searchPath() {
	e := o.environment
	size, known := link.Largest(e.link, o.identity.path)
	if !known {
		o.mtu.Later(&o.search, e.now)
		return
	}
	if o.mtu.Fit(&o.search, e.now, size) {
		o.cc.Resize(int(o.mtu.Packet), o.rtt.Smoothed)
	}
	if e.now >= o.search.At && o.mtu.Next(&o.search, e.now, e.rng) && o.sendProbe() {
		o.mtu.Sent(&o.search, e.now, o.rtt.Timeout(minRTO))
	}
}

// sendProbe sends a PROBE of the current probe size. The congestion window does not apply, because at most one is sent per probe
// timer. Its loss loses no data and is not a sign of congestion (RFC 8899 §3). It returns false if there was no frame.
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

// onProbeAck handles the answer to the current probe: packets of its size arrive.
func (t *transmitted) onProbeAck(body []byte) wire.DropReason {
	var m wire.Probe
	if d := wire.ParseProbe(body, &m); d != wire.DropNone {
		return d
	}
	if t.bulk.Answered(m.Nonce, m.Size) {
		t.stats.BulkProven++
		t.flight.Note(t.now, FlightBulk, t.identity.id, 1, uint32(m.Size))
		return wire.DropNone
	}
	before := t.mtu.Packet
	if !t.mtu.Answered(&t.search, t.now, m.Nonce, m.Size) {
		return wire.DropState // answer to an earlier probe
	}
	t.cc.Resize(int(m.Size), t.rtt.Smoothed)
	t.flight.Note(t.now, FlightPath, t.identity.id, uint32(before), uint32(m.Size))
	t.stats.PathRaised++
	return wire.DropNone
}

// countLoss counts a packet that was declared lost.
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

// pathShrank handles a packet larger than wire.MinPacket that was lost maxLosses times.
func (t *transmitted) pathShrank() {
	before := t.mtu.Packet
	if !t.mtu.Shrink(&t.search, t.now) {
		return
	}
	t.cc.Resize(wire.MinPacket, t.rtt.Smoothed)
	t.flight.Note(t.now, FlightPath, t.identity.id, uint32(before), wire.MinPacket)
	t.stats.BlackHoles++
}

// regainSize handles the arrival of a packet that counted as lost. If the packet was larger than packets are now, the path had not
// shrunk, and its size is used again.
func (t *transmitted) regainSize(size int) {
	before := t.mtu.Packet
	if !t.mtu.Regain(&t.search, t.now, size) {
		return
	}
	t.cc.Resize(size, t.rtt.Smoothed)
	t.flight.Note(t.now, FlightPath, t.identity.id, uint32(before), uint32(size))
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
		c.traffic.cc.Resize(int(c.mtu.Packet), c.rtt.Smoothed)
	}
}

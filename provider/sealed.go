package provider

import (
	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/lifetime"
	"github.com/ndxdp/ndxdp/provider/internal/secure"
	"github.com/ndxdp/ndxdp/wire"
)

// This file seals and opens the packets of encrypted connections (PROTOCOL §10). Package secure has their keys.

// KeyLimits say how long the keys of encrypted connections are used.
type KeyLimits = secure.Limits

// wakeKeys makes the keys usable for a connection that moves data. It fails only if the process lost the right to use the cipher, and
// then nothing opens.
func wakeKeys(c *conn) {
	if k := c.end.keys; k != nil {
		w := c.engine.pools.getWindow()
		if k.Wake(w) != nil {
			c.engine.pools.windows.Put(w)
		}
	}
}

// restKeys forgets what an idle connection does not need of its keys, and all of them when the connection is over.
func restKeys(c *conn) {
	k := c.end.keys
	if k == nil {
		return
	}
	if w := k.Sleep(); w != nil {
		c.engine.pools.windows.Put(w)
	}
	if c.phase == phaseFree {
		k.Erase()
	}
}

// startPacket starts a packet of at most limit bytes, sealed if the connection's packets are. It fails if the link has no free frames, or if
// no packet may be sealed any more.
func (t *traffic) startPacket(limit int) bool {
	k := t.conn.end.keys
	if k == nil {
		return t.engine.out.Begin(limit)
	}
	if k.Out.Due(k.Limits, t.engine.now) && k.Out.Update(t.engine.now) == nil {
		t.engine.stats.KeyUpdates++
		t.engine.flight.Note(t.engine.now, FlightKeys, t.conn.identity.id, 0, k.Out.Generation())
	}
	return k.Out.Ready() && !k.Out.Spent(k.Limits) && t.engine.out.BeginSealed(limit, &k.Out)
}

// wornOut ends the connection if its peer let a key be used up, and reports whether it did. The last packets of the key are for TERM.
func (t *traffic) wornOut() bool {
	k := t.conn.end.keys
	if k == nil || !k.Out.Worn(k.Limits) || t.served.Terminated() {
		return false
	}
	t.conn.blame(lifetime.CauseOf(wire.TermLocal))
	t.terminate(wire.TermLocal, 0, 0)
	return true
}

// silenced reports that no control packet may leave because the key is used up. It ends an open connection by TERM, which the last packets
// of the key are for. When the connection is over, they also carry its last word.
func (t *traffic) silenced() bool {
	k := t.conn.end.keys
	if k == nil || !k.Out.Worn(k.Limits) {
		return false
	}
	t.wornOut()
	return t.conn.phase == phaseOpen || k.Out.Spent(k.Limits)
}

// mustLookAtKeys reports whether the next packet needs another key, or may be the last of its key.
func (t *traffic) mustLookAtKeys() bool {
	k := t.conn.end.keys
	return k.Out.Due(k.Limits, t.engine.now) || k.Out.Worn(k.Limits)
}

// tagOf returns the length of the tag behind the packets that leave.
func tagOf(c *conn) int {
	if c.end.keys != nil {
		return wire.TagLen
	}
	return 0
}

// opened is the packet at hand after it was opened, and memory for it. It never lies in a frame, because the cipher writes before it
// verifies, and because frames may be shared with others.
type opened struct {
	packet RxPacket
	memory *openedMemory // nil before the first sealed packet
	window secure.Window // for a packet of an idle connection
}

type openedMemory struct {
	plain  [wire.MaxPacket]byte // base header, contents
	sealed [wire.MaxPacket]byte // a packet that came in several fragments
}

// openPacket verifies and opens a packet of one of our connections. It returns the opened packet: one fragment, without a tag. It returns
// none if the packet is dropped, or was of the TLS handshake.
func openPacket(e *Engine, c *conn, p *RxPacket, h wire.BaseHeader, number uint64, message uint32) (*RxPacket, wire.BaseHeader, wire.DropReason) {
	k, sh := c.end.keys, c.end.shaking
	switch {
	case c.identity.sealed == 0:
		return nil, nil, wire.DropSealed
	case !h.Secure():
		return nil, nil, receiveInPlain(c, p, h, number)
	case p.Len < wire.BaseHeaderLen+wire.TagLen || p.Len > wire.MaxPacket:
		return nil, nil, wire.DropShort
	case sh != nil && h.Generation() == 0:
		return nil, nil, receiveEarly(c, p, h, number)
	case sh != nil && !sh.done:
		return nil, nil, sh.keep(p, h)
	case k == nil:
		return nil, nil, wire.DropGeneration
	}
	idle := c.traffic == nil
	if idle && k.In.Wake(&e.in.opened.window) != nil {
		return nil, nil, wire.DropGeneration
	}
	before := k.In.Generation()
	o, d := e.in.opened.open(&k.In, p, h, number, message, k.Limits, e.now)
	if d != wire.DropNone {
		if idle {
			k.In.Sleep()
		}
		watchForgers(c, d)
		return nil, nil, d
	}
	if sh != nil && c.identity.active {
		endShaking(c) // the peer has the keys of generation 1
	}
	if now := k.In.Generation(); now != before {
		e.flight.Note(e.now, FlightKeys, c.identity.id, 1, now)
	}
	c.counters.bytesIn += wire.TagLen
	if idle || k.In.Flooded() { // the window is the engine's while the connection is idle
		c.withTraffic(func(t *traffic) {
			if k.In.Flooded() {
				t.terminate(wire.TermProtocol, 0, 0)
			}
		})
	}
	return o, wire.BaseHeader(o.Frags[0].Data[:wire.BaseHeaderLen]), wire.DropNone
}

// watchForgers ends a connection after as many forged packets as its cipher allows.
func watchForgers(c *conn, d wire.DropReason) {
	if k := c.end.keys; d == wire.DropTag && k.In.Exhausted(k.Limits) {
		c.withTraffic(func(t *traffic) { t.terminate(wire.TermLocal, 0, 0) })
	}
}

// open opens a packet with the keys of its connection.
func (o *opened) open(in *secure.Opener, p *RxPacket, h wire.BaseHeader, number uint64, message uint32, l *secure.Limits, now clock.Time) (*RxPacket, wire.DropReason) {
	if o.memory == nil {
		o.memory = new(openedMemory)
	}
	bytes := p.Frags[0].Data
	if p.N > 1 {
		bytes = o.memory.sealed[:0]
		for i := range p.N {
			bytes = append(bytes, p.Frags[i].Data...)
		}
	}
	plain := o.memory.plain[:wire.BaseHeaderLen]
	copy(plain, h) // who shares the frame may change it afterwards: the tag covers this copy
	plain, d := in.Open(plain, bytes[wire.BaseHeaderLen:], wire.BaseHeader(plain), number, message, l, now)
	if d != wire.DropNone {
		return nil, d
	}
	q := &o.packet
	q.From, q.To, q.CE, q.Merged, q.Bulk, q.Arrived, q.Origin = p.From, p.To, p.CE, p.Merged, p.Bulk, p.Arrived, p.Origin
	q.N, q.Len, q.At, q.Frags[0].Data = 1, len(plain), 0, plain
	return q, wire.DropNone
}

// fromPort returns the message number field of a control packet. In a sealed packet it is the UDP port that this side receives on, because
// a peer without the connection cannot read a PING (PROTOCOL §10.1). In other packets it is zero.
func (t *traffic) fromPort() uint32 {
	if tagOf(t.conn) == 0 {
		return 0
	}
	return uint32(t.engine.cfg.ReceivePort)
}

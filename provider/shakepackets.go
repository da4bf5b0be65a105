package provider

import (
	"bytes"

	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/provider/internal/shake"
	"github.com/ndxdp/ndxdp/wire"
)

// This file sends and receives the packets of TLS handshakes: REQ with parts of a ClientHello, SHAKE, and packets that wait for a key.

// give gives the handshake the bytes that arrived in order. Bytes that it refuses because it is busy are given again later.
func (sh *shaking) give() { sh.bytes.Give(sh.handshake.Give) }

// send sends the bytes that have not left, as far as the peer's address is proven. It reports whether anything left.
func (sh *shaking) send(t *traffic) (some bool) {
	if t.conn.identity.unanswered() {
		return sh.sendREQs(t)
	}
	for i := range shake.NumLevels {
		for sh.bytes.Unsent(i) && (i == shake.Initial || sh.early != nil) {
			n, ok := sh.sendShake(t, i)
			if !ok {
				return some
			}
			sh.bytes.Sent(i, n)
			some = true
		}
	}
	return some
}

// sendREQs sends the ClientHello, as long as the peer's id is not known.
func (sh *shaking) sendREQs(t *traffic) (some bool) {
	for sh.bytes.Unsent(shake.Initial) {
		h := offer(t.conn, wire.CtlREQ)
		h.MaxPacket = sh.mine.MaxPacket // the link's may have changed
		h.Fragment = sh.bytes.Hello()
		n := len(h.Fragment.Bytes)
		if !sendREQ(t, h) {
			return some
		}
		sh.bytes.Sent(shake.Initial, n)
		some = true
	}
	return some
}

// repeat sends again what the peer does not have. If the peer has everything, a SHAKE without bytes shows that this side is alive.
func (sh *shaking) repeat(t *traffic) {
	sh.give()
	sh.bytes.Again()
	if !sh.send(t) && !t.conn.identity.unanswered() && (sh.early != nil || !sh.done) {
		sh.report(t)
	}
}

// report tells the peer which bytes arrived. The message is sealed if the peer can have the keys. It is called when no bytes of its level
// wait, or when the peer's address is not proven enough for them.
func (sh *shaking) report(t *traffic) {
	i := shake.Initial
	if sh.early != nil && sh.bytes.Told() {
		i = shake.Handshake
	}
	if n, ok := sh.sendShake(t, i); ok {
		sh.bytes.Sent(i, n)
	}
}

// sendShake sends a SHAKE of a level, with the bytes that have not left. It returns how many bytes it took.
func (sh *shaking) sendShake(t *traffic, i int) (n int, ok bool) {
	c, out := t.conn, &t.engine.out
	m := wire.Shake{ConnID: c.identity.id, Nonce: c.identity.nonce, UDPPort: t.engine.cfg.ReceivePort}
	sh.bytes.Fill(&m, i)
	f, size := wire.BaseFields{}, wire.ControlOffset+wire.ControlHeaderLen+m.EncodedLen()
	if i == shake.Handshake {
		f.Message = uint32(t.engine.cfg.ReceivePort)
		size += wire.TagLen
	}
	if !c.handshake.MayRepeat(size) {
		return 0, false
	}
	t.sent.makeRoom()
	if i == shake.Handshake && !out.BeginSealed(size, &sh.early.Out) || i == shake.Initial && !out.Begin(size) {
		return 0, false
	}
	m.Append(out.PutControl(wire.CtlSHAKE, 0, m.EncodedLen(), 0)[:0])
	t.seal(recovery.Packet{Kind: recovery.Nothing}, f, wire.NotECT)
	return len(m.Bytes), true
}

// takeHello takes a part of the ClientHello from a REQ. A repeated first part says that the peer has no answer.
func takeHello(c *conn, hello *wire.Hello) wire.DropReason {
	sh := c.end.shaking
	f := &hello.Fragment
	if sh.opened || sh.done {
		return wire.DropState // of before the answer
	}
	if shake.ParamsOf(hello) != sh.peers {
		return wire.DropShake
	}
	fresh, d := sh.bytes.TakeHello(f)
	if d != wire.DropNone {
		return d
	}
	c.handshake.HeardAt = c.engine.now
	c.handshake.Credit()
	sh.give()
	c.withTraffic(func(t *traffic) {
		if !fresh && f.Offset == 0 {
			sh.repeat(t)
		} else {
			sh.send(t) // what had no credit before
		}
	})
	c.touch()
	return wire.DropNone
}

// takeShake takes a SHAKE.
func (sh *shaking) takeShake(c *conn, m *wire.Shake, sealed bool) wire.DropReason {
	if m.Nonce != c.identity.nonce || m.ConnID != c.identity.peerID {
		return wire.DropAddress
	}
	taken, d := sh.bytes.Take(m, sealed)
	if d != wire.DropNone {
		return d
	}
	sh.give()
	sent := false
	c.withTraffic(func(t *traffic) {
		sent = sh.send(t) // bytes may have waited for the proof of the peer's address
		if !sent && taken.Asks && !sh.done {
			sh.report(t)
		}
	})
	if sent || taken.Fresh || taken.Heard && sh.bytes.Arrived() {
		c.handshake.Begin(c.engine.now) // the next bytes may be lost, too
	}
	switch {
	case sent || !taken.Fresh:
	case taken.Part:
		c.handshake.AliveAt = c.engine.now.Add(ackDelay) // the rest is probably behind it
	default:
		c.handshake.Think(c.engine.now)
	}
	return wire.DropNone
}

// receiveInPlain takes a packet of an encrypted connection that is not sealed. Only SHAKE and REJ may come in plain, and only before the
// first packet of generation 0 opened. Their numbers are not noted, because nothing shows that they are right.
func receiveInPlain(c *conn, p *RxPacket, h wire.BaseHeader, number uint64) wire.DropReason {
	sh := c.end.shaking
	ended := c.phase == phaseLingering && (c.end.keys == nil || c.end.untold)
	if sh != nil && (sh.opened || sh.done) || sh == nil && !ended {
		return wire.DropPlain
	}
	if !p.Intact(h, number, 0) {
		return wire.DropCRC
	}
	msg, d := p.Control(h)
	switch {
	case d != wire.DropNone:
		return d
	case ended:
		return c.receiveLate(msg.Opcode)
	}
	return receiveShaking(c, &msg, false)
}

// receiveEarly takes a packet of generation 0.
func receiveEarly(c *conn, p *RxPacket, h wire.BaseHeader, number uint64) (d wire.DropReason) {
	e, sh := c.engine, c.end.shaking
	if sh.early == nil && !sh.done {
		return sh.keep(p, h)
	}
	if sh.early == nil {
		return wire.DropGeneration
	}
	p, d = e.in.opened.open(&sh.early.In, p, h, number, 0, sh.early.Limits, e.now)
	if d != wire.DropNone {
		return d
	}
	sh.opened = true
	c.identity.remote.Port = p.From.Port
	c.withTraffic(func(t *traffic) { t.received.heard(number) })
	h = wire.BaseHeader(p.Frags[0].Data[:wire.BaseHeaderLen])
	msg, d := p.Control(h)
	if d != wire.DropNone {
		return d
	}
	return receiveShaking(c, &msg, true)
}

// receiveShaking takes a message of the handshake from a peer whose id is known.
func receiveShaking(c *conn, msg *wire.Control, sealed bool) wire.DropReason {
	c.handshake.Heard(c.phase, c.engine.now)
	c.touch()
	switch msg.Opcode {
	case wire.CtlSHAKE:
		var m wire.Shake
		if d := wire.ParseShake(msg.Body, &m); d != wire.DropNone {
			return d
		}
		return c.end.shaking.takeShake(c, &m, sealed)
	case wire.CtlREJ:
		var m wire.Reject
		if d := wire.ParseReject(msg.Body, &m); d != wire.DropNone {
			return d
		}
		return c.onREJ(&m)
	default:
		return wire.DropState
	}
}

// firstShake takes the first SHAKE of the passive end, which says its id.
func firstShake(c *conn, p *RxPacket, body []byte) wire.DropReason {
	var m wire.Shake
	if d := wire.ParseShake(body, &m); d != wire.DropNone {
		return d
	}
	sh := c.end.shaking
	if sh == nil || !sh.bytes.Begun() || m.Nonce != c.identity.nonce || !redirect(c, m.UDPPort) {
		return wire.DropState
	}
	e := c.engine
	e.directory.answered(c)
	c.handshake.ForgetLeft(e.forget)
	c.bind(m.ConnID, p.From.Port)
	sh.peers.ConnID, sh.peers.UDPPort = m.ConnID, m.UDPPort
	c.handshake.Heard(c.phase, e.now)
	return sh.takeShake(c, &m, false)
}

// rejectInPlain sends the REJ of an ended handshake without a seal, for a peer that may lack the keys. An attacker gains nothing: without
// keys, the peer takes any REJ in plain.
func rejectInPlain(t *traffic) {
	end, out := t.conn.end, &t.engine.out
	m := wire.Reject{Reason: end.Reason, Private: end.Private}
	body := m.Append(nil)
	t.sent.makeRoom()
	if out.Begin(wire.ControlOffset + wire.ControlHeaderLen + len(body)) {
		copy(out.PutControl(wire.CtlREJ, 0, len(body), 0), body)
		t.seal(recovery.Packet{Kind: recovery.Nothing}, wire.BaseFields{}, wire.NotECT)
	}
}

// waiting returns how many packets of a generation wait for their key.
func (sh *shaking) waiting(generation uint32) (n int) {
	for i := range sh.kept {
		if wire.BaseHeader(sh.kept[i].Frags[0].Data[:wire.BaseHeaderLen]).Generation() == generation {
			n++
		}
	}
	return n
}

// keep keeps a packet whose key is not there yet.
func (sh *shaking) keep(p *RxPacket, h wire.BaseHeader) wire.DropReason {
	if h.Generation() > 1 || sh.waiting(h.Generation()) == [2]int{maxKeptEarly, maxKept}[h.Generation()] || p.N != 1 || p.Len > wire.MinPacket || p.Len < wire.BaseHeaderLen+wire.TagLen {
		return wire.DropGeneration
	}
	q := RxPacket{From: p.From, To: p.To, MAC: p.MAC, CE: p.CE, Arrived: p.Arrived, N: 1, Len: p.Len}
	q.Frags[0].Data = bytes.Clone(p.Frags[0].Data)
	sh.kept = append(sh.kept, q)
	return wire.DropNone
}

package provider

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/credit"
	"github.com/ndxdp/ndxdp/provider/internal/lifetime"
	"github.com/ndxdp/ndxdp/provider/internal/trace"
	"github.com/ndxdp/ndxdp/wire"
)

// This file handles the messages of connection establishment (PROTOCOL §7): REQ, PEND, REP, REPACK, RTU, REJ. Package lifetime
// decides when they are repeated.

// hello is the REQ or REP at hand.
type hello struct {
	wire.Hello
	grease [wire.MaxGrease]byte
}

// takeOffer stores the peer's parameters from REQ or REP.
func (c *conn) takeOffer(h *wire.Hello) {
	c.handshake.IRD, c.handshake.ORD = uint8(min(h.IRD, maxReadLimit)), uint8(min(h.ORD, maxReadLimit))
	c.identity.peerToken = h.ResetToken
	c.requestNumbers.sendLimit = credit.Raise(0, 0, h.ReceiveLimit)
	c.mtu.Begin(int(min(h.MaxPacket, wire.MaxPacket)), c.identity.local.Is4())
	c.fitLink()
	if h.Features&wire.FeatureECT != 0 && !c.engine.cfg.NoECN {
		c.ecn.Agree()
	}
	c.joins = c.engine.cfg.Runs && h.Features&wire.FeatureRuns != 0
	if c.engine.cfg.BulkPort != 0 && !c.joins && h.Features&wire.FeatureBulk != 0 {
		c.bulkPort = h.BulkPort
		c.long = c.engine.cfg.LongAfter > 0 && h.Features&wire.FeatureLong != 0
	}
	c.peerWindow = max(h.Window, minWindow)
}

// minWindow is the window that is assumed if a peer announces less: one packet, which the peer may drop.
const minWindow = wire.MaxPacket

// usable reports whether the parameters of a REQ or REP are valid.
func usable(h *wire.Hello) bool {
	return h.ConnID != 0 && h.MaxPacket >= wire.MinPacket && h.UDPPort != 0
}

// offer returns what this side says of itself in REQ or REP. Before the keys of an encrypted connection are there, it says nothing that
// others must not know.
func offer(c *conn, op wire.Opcode) *wire.Hello {
	e := c.engine
	h := &e.hello.Hello
	*h = wire.Hello{
		ConnID: c.identity.id, Nonce: c.identity.nonce, SrcPort: c.identity.localND, DstPort: c.identity.peerN,
		MinVersion: wire.Version, MaxVersion: wire.Version, UDPPort: e.cfg.ReceivePort,
		Window: uint32(e.cfg.HeldBytes / 2), MaxPacket: uint32(e.link.MaxPacket()), Grease: grease(c.identity.id, &e.hello.grease),
	}
	if op == wire.CtlREQ && !e.cfg.NoECN || c.ecn.Agreed() {
		h.Features = wire.FeatureECT
	}
	if op == wire.CtlREQ && e.cfg.Runs || c.joins {
		h.Features |= wire.FeatureRuns
	}
	if op == wire.CtlREQ && e.cfg.BulkPort != 0 || c.bulkPort != 0 {
		h.Features |= wire.FeatureBulk
		h.BulkPort = e.cfg.BulkPort
	}
	if op == wire.CtlREQ && e.cfg.LongAfter > 0 || c.long {
		h.Features |= wire.FeatureLong
	}
	if c.identity.sealed != 0 {
		h.Features |= wire.FeatureSecure
	}
	if c.end.keys == nil && op == wire.CtlREQ && c.handshake.Retries > 0 {
		h.Cookie = c.handshake.Cookie[:]
	}
	if c.identity.sealed != 0 && c.end.keys == nil {
		return h
	}
	h.IRD, h.ORD, h.Private = uint16(c.ird), uint16(c.requestNumbers.ord), c.handshake.Private
	h.ResetToken = e.guard.tokenOf(&c.identity, e.cfg.ReceivePort)
	h.ReceiveLimit = c.receives.Promise(c.receiveLimit())
	return h
}

// sendHello sends REQ or REP.
func (c *conn) sendHello(op wire.Opcode) {
	h := offer(c, op)
	if op == wire.CtlREQ {
		c.withTraffic(func(t *traffic) { sendREQ(t, h) })
		return
	}
	if !c.handshake.MayRepeat(wire.ControlOffset + wire.MaxBlocksLen + wire.ControlHeaderLen + h.EncodedLen()) {
		return
	}
	c.withTraffic(func(t *traffic) {
		if body, ok := t.control(op, 0, h.EncodedLen()); ok { // else the timer sends it again
			h.Append(body[:0])
			t.sealControl()
		}
	})
}

// sendREQ sends a REQ, which has no blocks. If it fails, the timer sends it again.
func sendREQ(t *traffic, h *wire.Hello) bool {
	t.sent.makeRoom()
	if !t.startPacket(wire.MinPacket) {
		return false
	}
	h.Append(t.engine.out.PutControl(wire.CtlREQ, 0, h.EncodedLen(), wire.MinPacket-tagOf(t.conn))[:0])
	t.sealControl()
	return true
}

// grease adds an item of a random unknown type. Receivers that fail on unknown items are so found today, and not when a new item is
// introduced (PROTOCOL §7.1). The item is derived from the random id, because a repeated REQ must be identical for its cookie.
// value is memory for the item.
func grease(id uint64, value *[wire.MaxGrease]byte) wire.Item {
	rng := rand.NewPCG(id, 0)
	binary.BigEndian.PutUint64(value[:], rng.Uint64())
	binary.BigEndian.PutUint64(value[8:], rng.Uint64())
	at := rng.Uint64()
	return wire.Item{Type: wire.ItemGrease | wire.ItemType(at>>52), Value: value[:at%(wire.MaxGrease+1)]}
}

// repeatAnswer answers a repeated REQ, depending on the phase (PROTOCOL §7.3).
func (c *conn) repeatAnswer() wire.DropReason {
	e := c.engine
	c.alive.Maybe(e.now)
	answer := c.phase.AnswerToREQ()
	switch {
	case c.phase == phaseShaking:
		return takeHello(c, &e.hello.Hello)
	case answer == wire.CtlPEND:
		c.handshake.Asked(e.now)
		c.withTraffic(func(t *traffic) { t.say(wire.CtlPEND, 0, nil) })
	case answer == wire.CtlREP:
		if c.handshake == nil {
			c.handshake = new(lifetime.Attempt)
		}
		c.handshake.Sent = 0
		c.sendHello(wire.CtlREP)
	case c.phase == phaseLingering:
		c.ending().Stay(e.now, c.identity.active, e.cfg.Linger, e.cfg.DeadPeer)
		c.repeatEnding()
		return wire.DropState
	default:
		return wire.DropState
	}
	return wire.DropNone
}

// readyForData reports whether packets with contents are accepted. The first one may arrive before the handshake's last message,
// and then replaces this message.
func (c *conn) readyForData() bool {
	switch c.phase {
	case phaseOpen:
		c.handshake.Stop() // a peer with contents is established
		return true
	case phaseRepSent, phaseRtuSent:
		c.established()
		return c.phase == phaseOpen
	case phaseFree, phaseReqSent, phaseAccepted, phaseHalfOpen, phaseLingering, phaseShaking:
	}
	return false
}

// established opens the connection for data, on either side.
func (c *conn) established() {
	c.open()
	c.handshake.Stop()
	c.qp.readLimit.Store(c.requestNumbers.ord)
	c.qp.transition(qpEstablish)
	if c.connector != nil {
		c.connector.onEstablished()
	}
	c.want(wantTurn)
	c.traffic.received.checkReceiveLimit()
	if qp := c.qp; qp != nil && (qp.recvCQ.Faulted() || qp.initCQ.Faulted()) {
		c.traffic.terminate(wire.TermLocal, 0, 0)
	}
	c.chooseEngine()
}

// receiveFirst handles the answers to a REQ before the peer's id is known: RETRY, REP, PEND, REJ.
func (c *conn) receiveFirst(p *RxPacket, h wire.BaseHeader) wire.DropReason {
	msg, d := p.Control(h)
	if d != wire.DropNone {
		return d
	}
	if c.phase == phaseLingering {
		// This side gave up before it knew the peer's id. Now it can tell the peer.
		if id, port, ok := answerer(c, &msg); ok && redirect(c, port) {
			c.bind(id, p.From.Port)
		}
		c.repeatEnding()
		return wire.DropState
	}
	if c.connector != nil {
		c.connector.answered = true
	}
	c.touch()
	if c.identity.sealed != 0 && msg.Opcode != wire.CtlRETRY && msg.Opcode != wire.CtlREJ && msg.Opcode != wire.CtlSHAKE {
		return wire.DropPlain // no answer may make the connection one that is not encrypted
	}
	switch msg.Opcode {
	case wire.CtlSHAKE:
		return firstShake(c, p, msg.Body)
	case wire.CtlPing: // another REQ wants the ND endpoints of this attempt; our REQ shows that the attempt is alive
		c.handshake.Sooner(c.engine.now)
	case wire.CtlRETRY:
		return c.onRetry(msg.Body, c.engine.now)
	case wire.CtlPEND:
		c.handshake.Probe(c.engine.now)
	case wire.CtlREP:
		hello := &c.engine.hello.Hello
		if d := wire.ParseHello(msg.Body, hello); d != wire.DropNone {
			return d
		}
		if !c.identity.isAnswer(hello) || !redirect(c, hello.UDPPort) {
			return wire.DropAddress
		}
		if d := p.ReadBlocks(h, &c.engine.in.ack, &c.engine.in.report); d != wire.DropNone {
			return d
		}
		if !c.traffic.takeBlocks(h.Flags() &^ wire.FlagReport) {
			return wire.DropAckRange
		}
		c.bind(hello.ConnID, p.From.Port)
		c.traffic.received.heard(uint64(h.Number()))
		c.traffic.received.keep()
		c.onREP(hello)
	case wire.CtlREJ:
		var m wire.Reject
		if d := wire.ParseReject(msg.Body, &m); d != wire.DropNone {
			return d
		}
		return c.onREJ(&m)
	default:
		return wire.DropState
	}
	return wire.DropNone
}

// answerer returns the id and the UDP port of the peer from its first message with them, if it answers our REQ.
func answerer(c *conn, msg *wire.Control) (id uint64, port uint16, ok bool) {
	hello, shake := &c.engine.hello.Hello, wire.Shake{}
	switch {
	case msg.Opcode == wire.CtlREP && wire.ParseHello(msg.Body, hello) == wire.DropNone:
		return hello.ConnID, hello.UDPPort, c.identity.isAnswer(hello)
	case msg.Opcode == wire.CtlSHAKE && wire.ParseShake(msg.Body, &shake) == wire.DropNone:
		return shake.ConnID, shake.UDPPort, shake.Nonce == c.identity.nonce
	}
	return 0, 0, false
}

// onRetry sends the REQ again with the peer's cookie.
func (c *conn) onRetry(body []byte, now clock.Time) wire.DropReason {
	cookie, d := wire.ParseCookie(body)
	if d != wire.DropNone {
		return d
	}
	if c.phase != phaseReqSent && c.phase != phaseShaking || !c.handshake.Follow(cookie, now, c.engine.cfg.DeadPeer) {
		return wire.DropState
	}
	if c.phase == phaseShaking {
		shakeAgain(c)
	} else {
		c.sendHello(wire.CtlREQ)
	}
	return wire.DropNone
}

// onREP handles the first REP.
func (c *conn) onREP(h *wire.Hello) {
	c.takeOffer(h)
	c.requestNumbers.ord = min(c.requestNumbers.ord, uint32(h.IRD))
	c.ird = min(c.ird, uint32(h.ORD))
	c.enter(phaseAccepted)
	c.handshake.Answered(c.engine.now)
	c.handshake.Think(c.engine.now)
	if c.connector != nil {
		c.connector.onAccepted(h.Private)
	}
}

// onREJ handles the rejection of an attempt. It is invalid for an open connection, which ends by DREQ, TERM and RST (PROTOCOL
// §7.3).
func (c *conn) onREJ(m *wire.Reject) wire.DropReason {
	if c.phase == phaseOpen && c.handshake.Due() != 0 { // completed early, and the peer withdrew before it got RTU
		return c.reset()
	}
	if !c.phase.Attempt() {
		return wire.DropState
	}
	if m.Reason == wire.RejectTLS && len(m.Private) == 1 {
		c.engine.flight.Note(c.engine.now, FlightTLS, c.identity.id, uint32(trace.TLSRefused), uint32(m.Private[0]))
	}
	c.detachQP()
	if ctr := c.connector; ctr != nil {
		ctr.onRejected(m.Reason, m.Private)
	}
	c.linger(lifetime.Nothing, 0, nil)
	return wire.DropNone
}

// detachQP ends an attempt without an effect on its queue pair: posted receives stay posted.
func (c *conn) detachQP() {
	if c.qp == nil {
		return
	}
	c.qp.conn = nil
	c.qp.transition(qpDetach)
	c.qp = nil
}

// receiveControl handles a control packet of a connection whose two ids are known.
func (c *conn) receiveControl(p *RxPacket, h wire.BaseHeader) wire.DropReason {
	msg, d := p.Control(h)
	if d != wire.DropNone {
		return d
	}
	if c.phase == phaseLingering {
		return c.receiveLate(msg.Opcode)
	}
	if c.phase != phaseOpen {
		c.touch()
	}
	if msg.Opcode == 0 && c.phase == phaseRtuSent {
		c.established()
	}
	open := c.phase == phaseOpen
	if msg.Opcode == 0 && open {
		c.handshake.Stop()
	}
	if !c.traffic.takeBlocks(h.Flags()) {
		return wire.DropAckRange
	}
	if c.faulted != faultNone {
		c.conclude()
	}
	c.traffic.received.keep()
	if msg.Opcode == 0 && !open {
		return wire.DropState
	}
	return c.receiveMessage(&msg, h.Flags())
}

// receiveMessage handles the message of a control packet, if it has one in addition to blocks.
func (c *conn) receiveMessage(msg *wire.Control, flags wire.Flags) wire.DropReason {
	switch msg.Opcode {
	case 0, wire.CtlPong:
		if !c.traffic.worked {
			c.touch() // it may be idle again
		}
	case wire.CtlREQ:
		return onSealedREQ(c, msg.Body)
	case wire.CtlPEND:
		if c.phase != phaseReqSent {
			return wire.DropState
		}
		c.handshake.Probe(c.engine.now)
	case wire.CtlREP:
		return onLaterREP(c, msg.Body)
	case wire.CtlREPACK:
		if c.phase != phaseRepSent {
			return wire.DropState
		}
		c.handshake.Probe(c.engine.now)
	case wire.CtlRTU:
		return c.receiveRTU(msg.Body, flags&wire.FlagAckReq != 0)
	case wire.CtlREJ:
		var m wire.Reject
		if d := wire.ParseReject(msg.Body, &m); d != wire.DropNone {
			return d
		}
		return c.onREJ(&m)
	case wire.CtlDREQ:
		c.onNotice(msg.Flags&wire.CtlFlagAbort != 0)
	case wire.CtlDREP:
		c.ending().Noted()
	case wire.CtlPing:
		var m wire.Ping
		if d := wire.ParsePing(msg.Body, &m); d != wire.DropNone {
			return d
		}
		if c.phase == phaseOpen && c.qp != nil && c.qp.srq == nil && c.receives.Left() <= 0 {
			c.receives.Wait.Ask()
		}
		c.traffic.say(wire.CtlPong, 0, msg.Body[:wire.NonceLen])
	case wire.CtlChallenge:
		c.traffic.say(wire.CtlResponse, 0, msg.Body)
	case wire.CtlResponse: // from the known port: a response from any other port was forged or late
		c.end.challenge.Answered(binary.BigEndian.Uint64(msg.Body))
	case wire.CtlProbe:
		return c.traffic.onProbe(msg.Body, flags&wire.FlagLong != 0)
	case wire.CtlProbeAck:
		return c.traffic.sent.onProbeAck(msg.Body)
	default:
		return wire.DropControl
	}
	return wire.DropNone
}

// onLaterREP handles a REP from a peer whose id is known: a repeated one, or the first one of an encrypted connection.
func onLaterREP(c *conn, body []byte) wire.DropReason {
	hello := &c.engine.hello.Hello
	switch {
	case c.phase == phaseAccepted:
		c.traffic.say(wire.CtlREPACK, 0, nil)
	case c.phase != phaseReqSent:
		return wire.DropState
	default:
		if d := wire.ParseHello(body, hello); d != wire.DropNone {
			return d
		}
		if !c.identity.isAnswer(hello) || hello.ConnID != c.identity.peerID {
			return wire.DropAddress
		}
		c.onREP(hello)
	}
	return wire.DropNone
}

// receiveRTU takes the message that completes a connection. If the peer waits for the answer (asked), it leaves at once. Otherwise data may
// carry it.
func (c *conn) receiveRTU(body []byte, asked bool) wire.DropReason {
	var m wire.RTU
	if d := wire.ParseRTU(body, &m); d != wire.DropNone {
		return d
	}
	switch c.phase {
	case phaseRepSent:
		c.requestNumbers.sendLimit = credit.Raise(c.requestNumbers.sendLimit, c.requestNumbers.nextSend, m.ReceiveLimit)
		c.established()
	case phaseOpen:
	case phaseFree, phaseReqSent, phaseAccepted, phaseRtuSent, phaseHalfOpen, phaseLingering, phaseShaking:
		return wire.DropState
	}
	if r := &c.traffic.received; asked {
		r.ackNow()
	} else {
		r.woke = true
		r.noteAccepted(false, false)
	}
	return wire.DropNone
}

// retryHandshake repeats the unanswered message, sends a probe, or gives up.
func (c *conn) retryHandshake() {
	now, dead := c.engine.now, c.engine.cfg.DeadPeer
	if c.handshake.Silent(now, dead) {
		switch c.phase {
		case phaseOpen:
			c.lose()
		case phaseShaking:
			shakeTimedOut(c)
		default:
			c.attemptFailed(OutcomeIOTimeout)
		}
		return
	}
	c.handshake.Repeat(c.phase, now, dead, uint8(c.identity.nonce))
	op := c.phase.Repeated()
	if op != 0 {
		changePort(c, int(c.handshake.Repeats))
	}
	switch op {
	case wire.CtlREQ, wire.CtlREP:
		c.sendHello(op)
	case wire.CtlRTU:
		c.traffic.sendRTU(true)
	default:
	}
	shakeAgain(c) // behind the REQ, which alone shows that the peer has the rest
}

// sayAlive tells the peer that this side is alive, because the answer to its message takes time.
func sayAlive(c *conn, t *traffic) {
	c.handshake.AliveAt = 0
	switch {
	case c.phase == phaseHalfOpen:
		t.say(wire.CtlPEND, 0, nil)
	case c.phase == phaseAccepted:
		t.say(wire.CtlREPACK, 0, nil)
	case c.phase == phaseShaking && !c.end.shaking.done:
		c.end.shaking.report(t)
	}
}

package provider

import (
	"crypto/subtle"
	"math/rand/v2"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/guard"
	"github.com/ndxdp/ndxdp/provider/internal/ndports"
	"github.com/ndxdp/ndxdp/wire"
)

// strangers decides about packets without a connection (PROTOCOL §7.4, §7.5). It finds the listener or the adapter that a packet is for.
// Package guard bounds the memory and the packets that unknown hosts can cause. The engine sends answers and makes connections.
type strangers struct {
	guard.Guard
	tokens    guard.ResetTokens
	directory *directory
	stats     *Stats
	port      uint16 // the well-known port
	others    ndports.PortSpace
	body      []byte // memory for the body of an answer
}

// verdict is what to do with a packet without a connection. At most one of answer, known, rival and listener is set.
type verdict struct {
	drop   wire.DropReason // why the packet is dropped; DropNone if it was used
	answer wire.Opcode     // message to send back to its source,
	port   uint16          // to this UDP port,
	id     uint64          // with this connection id,
	body   []byte          // and this body, which is valid until the next verdict

	known *conn                       // the connection that the packet refers to,
	do    func(*conn) wire.DropReason // and what to call for it

	rival *conn // of a REQ: the connection that has the requested ND endpoints

	listener *Listener // of a REQ: the listener for it
	proven   bool      // its sender has proven its address
}

func newStrangers(rng *rand.Rand, tokens guard.ResetTokens, d *directory, stats *Stats, port uint16, others ndports.PortSpace) strangers {
	return strangers{Guard: guard.New(rng), tokens: tokens, directory: d, stats: stats, port: port, others: others, body: make([]byte, 0, resetLen)}
}

// receiveStranger handles a packet without a connection id.
func (e *Engine) receiveStranger(p *RxPacket, h wire.BaseHeader) wire.DropReason {
	if h.Secure() {
		return wire.DropSealed
	}
	if !p.Intact(h, uint64(h.Number()), uint32(h.Message())) {
		return wire.DropCRC
	}
	msg, d := p.Control(h)
	if d != wire.DropNone {
		return d
	}
	v := e.guard.judge(p, &msg, &e.hello.Hello, e.now)
	switch {
	case v.known != nil:
		return e.onHomeOf(v.known, v.do)
	case v.rival != nil:
		return e.contest(v.rival, p, msg.Body, &e.hello.Hello)
	case v.listener != nil:
		return e.request(v.listener, p, h, &e.hello.Hello, v.proven)
	}
	return e.reply(p, v)
}

// judge decides about a packet without a connection id: a REQ, which it parses into hello, or an RST from a peer that lost its
// state.
func (s *strangers) judge(p *RxPacket, msg *wire.Control, hello *wire.Hello, now clock.Time) verdict {
	switch msg.Opcode {
	case wire.CtlRST:
		return s.reset(p, msg.Body)
	case wire.CtlREQ:
	default:
		return verdict{drop: wire.DropControl}
	}
	if d := wire.ParseHello(msg.Body, hello); d != wire.DropNone {
		return verdict{drop: d}
	}
	if !usable(hello) {
		return verdict{drop: wire.DropAddress}
	}
	if c := s.directory.peers.Find(peerKey{p.From.IP, hello.ConnID}); c != nil {
		return verdict{known: c, do: (*conn).repeatAnswer} // even if the connection has ended, because one REQ makes only one connection
	}
	at := tuple{addrPort{IP: p.To.IP, Port: hello.DstPort}, addrPort{IP: p.From.IP, Port: hello.SrcPort}}
	secure := hello.Features&wire.FeatureSecure != 0
	if c := s.directory.tuples.Find(at); c != nil && !secure { // else the peer shows first who it is
		return verdict{rival: c}
	}
	l := s.directory.listener(at.local)
	switch {
	case l == nil || l.paused:
		return s.nobodyHere(p, hello, now)
	case hello.MinVersion > wire.Version || hello.MaxVersion < wire.Version:
		return s.reject(p, hello, wire.RejectVersion, now)
	case secure && l.shaker == nil, !secure && l.shaker != nil && !l.allowPlain:
		return s.reject(p, hello, wire.RejectPolicy, now)
	case secure && len(hello.Fragment.Bytes) == 0:
		return verdict{drop: wire.DropItem}
	}
	return s.admit(l, p, msg.Body, hello, now)
}

// admit decides about a REQ for a new connection to a listener. A peer that has proven its address may use more resources, but not
// all. If only pending requests exceed a limit, the REQ is dropped rather than refused, and its sender repeats it.
func (s *strangers) admit(l *Listener, p *RxPacket, body []byte, hello *wire.Hello, now clock.Time) verdict {
	u := s.Sources.Usage(guard.SourceOf(p.From.IP))
	proven, secure := s.proves(p, body, hello, now), hello.Features&wire.FeatureSecure != 0
	if !proven && (p.Unproven || s.Challenge(u, l.backed(), l.backlog, secure)) {
		return s.challenge(p, body, hello, now)
	}
	if len(l.waiting) == 0 && l.backed() >= l.backlog {
		if l.backlog == guard.MaxBacklog {
			return verdict{drop: wire.DropBacklog} // the application did not set this bound
		}
		return s.reject(p, hello, wire.RejectBacklog, now)
	}
	if u.Crowded() {
		s.stats.SourceLimited++
		return verdict{drop: wire.DropBacklog}
	}
	if u.Full() {
		s.stats.SourceLimited++
		return s.reject(p, hello, wire.RejectBacklog, now)
	}
	if secure && !s.TakeShake(guard.SourceOf(p.From.IP), now) {
		return verdict{drop: wire.DropRate}
	}
	return verdict{listener: l, proven: proven}
}

// proves reports whether a REQ has a cookie that this side sent to its source address in the present or the previous period.
func (s *strangers) proves(p *RxPacket, body []byte, hello *wire.Hello, now clock.Time) bool {
	if len(hello.Cookie) == 0 {
		return false
	}
	good := s.Cookies.Proves(&p.From, &p.To, body, hello.Cookie, now)
	if !good {
		s.stats.CookiesRefused++
	}
	return good
}

// challenge makes an unknown peer prove its address while the engine is under load, without using memory. It answers the REQ with
// RETRY and forgets it. The REQ is accepted when it arrives again with the cookie of the RETRY. A ClientHello in several REQs gets one RETRY,
// for its first part, because all parts have the same cookie.
func (s *strangers) challenge(p *RxPacket, body []byte, hello *wire.Hello, now clock.Time) verdict {
	if hello.Fragment.Offset > 0 || !s.TakeRetry(guard.SourceOf(p.From.IP), now) {
		return verdict{drop: wire.DropRate}
	}
	cookie := s.Cookies.Make(&p.From, &p.To, body, now)
	s.stats.CookiesSent++
	s.body = wire.AppendCookie(s.body[:0], cookie)
	return verdict{answer: wire.CtlRETRY, port: hello.UDPPort, id: hello.ConnID, body: s.body}
}

// reject answers a REQ that cannot become a connection. The answer is smaller than the REQ, and its rate is limited.
func (s *strangers) reject(p *RxPacket, hello *wire.Hello, reason wire.RejectReason, now clock.Time) verdict {
	s.stats.Refused++
	var d wire.DropReason
	switch reason {
	case wire.RejectNoListener:
		d = wire.DropNoListener
	case wire.RejectVersion:
		d = wire.DropVersion
	case wire.RejectExists, wire.RejectPolicy:
		d = wire.DropState // of the existing connection, or of the listener
	default:
		d = wire.DropBacklog
	}
	if !s.TakeReject(guard.SourceOf(p.From.IP), now) {
		return verdict{drop: wire.DropRate}
	}
	m := wire.Reject{Reason: reason}
	s.body = m.Append(s.body[:0])
	return verdict{drop: d, answer: wire.CtlREJ, port: hello.UDPPort, id: hello.ConnID, body: s.body}
}

// reset handles an RST: the peer lost its state. An RST is valid with the token learnt in the handshake, or as the answer to a
// demand (denied).
func (s *strangers) reset(p *RxPacket, body []byte) verdict {
	var m wire.Reset
	if d := wire.ParseReset(body, &m); d != wire.DropNone {
		return verdict{drop: d}
	}
	c := s.directory.peers.Find(peerKey{p.From.IP, m.ConnID})
	if c == nil {
		return verdict{drop: wire.DropUnknownConn}
	}
	if subtle.ConstantTimeCompare(m.Token[:], c.identity.peerToken[:]) != 1 {
		if c.identity.sealed != 0 {
			return verdict{drop: wire.DropRSTToken} // packet numbers are no secret
		}
		return verdict{known: c, do: denied(m.Number)}
	}
	return verdict{known: c, do: (*conn).reset}
}

// resetLen is the length of the body of an RST.
const resetLen = wire.RSTPacketLen - wire.ControlOffset - wire.ControlHeaderLen

// tokenOf returns the token with which an RST ends the connection at the peer. port is the UDP port on which this side receives.
func (s *strangers) tokenOf(i *identity, port uint16) [wire.ResetTokenLen]byte {
	return s.tokens.Of(i.id, wire.Endpoint{IP: i.local.IP, Port: port})
}

// unknown answers a packet for an unknown connection with RST (PROTOCOL §7.4), unless the packet is an RST or is smaller than one.
// Packets with only an ACK are smaller; their sender waits for nothing. The checksum cannot be verified, because the full numbers
// that it covers are unknown. If the id is damaged, the RST names no connection of the peer.
func (s *strangers) unknown(p *RxPacket, h wire.BaseHeader, now clock.Time) verdict {
	if h.Secure() {
		if p.Len < wire.RSTPacketLen+wire.TagLen {
			return verdict{drop: wire.DropUnknownConn} // it may have nothing but blocks
		}
	} else if p.Len < wire.RSTPacketLen || h.Control() && !p.AsksForReset() {
		return verdict{drop: wire.DropUnknownConn}
	}
	port, d := p.ResetPort(h, s.port)
	if d != wire.DropNone {
		return verdict{drop: d}
	}
	if !s.TakeReset(guard.SourceOf(p.From.IP), now) {
		return verdict{drop: wire.DropRate}
	}
	// The peer's id of the lost connection is unknown here, so the peer finds the connection by our id.
	m := wire.Reset{ConnID: h.ConnID(), Number: h.Number(), Token: s.tokens.Of(h.ConnID(), p.To)}
	s.body = m.Append(s.body[:0])
	return verdict{drop: wire.DropUnknownConn, answer: wire.CtlRST, port: port, body: s.body}
}

// onHomeOf calls do for a connection on the connection's engine, now or soon.
func (e *Engine) onHomeOf(c *conn, do func(*conn) wire.DropReason) wire.DropReason {
	home := c.home.Load()
	if home == e {
		return do(c)
	}
	if home == nil || !home.inbox.ask(func(home *Engine) {
		if c.home.Load() != home {
			home.stats.Drop(wire.DropWrongQueue)
		} else if d := do(c); d != wire.DropNone {
			home.stats.Drop(d)
		}
	}) {
		return wire.DropWrongQueue
	}
	return wire.DropNone
}

// reply sends the answer of a verdict, if any, to the source of p.
func (e *Engine) reply(p *RxPacket, v verdict) wire.DropReason {
	if v.answer == 0 {
		return v.drop
	}
	from, to := wire.Endpoint{IP: p.To.IP, Port: wire.SourcePort(0)}, wire.Endpoint{IP: p.From.IP, Port: v.port}
	path, ok := e.link.Reply(p, from.Port, to.Port)
	if !ok {
		return v.drop
	}
	if e.out.Begin(wire.ControlOffset + wire.ControlHeaderLen + len(v.body)) {
		copy(e.out.PutControl(v.answer, 0, len(v.body), 0), v.body)
		if sealed := e.out.Seal(path, wire.NotECT, &wire.BaseFields{ConnID: v.id}); e.tap.on() {
			e.tap.sent(sealed, e, nil, &from, &to)
		}
		e.add()
	}
	e.forget(path)
	return v.drop
}

// The functions below serve other adapters of the machine that have the same address (PROTOCOL §7.8).

// Inject handles a packet that did not come by the links of the group: a REQ that another adapter handed over, or a packet that arrived at
// the well-known port while the links receive elsewhere. The packet is in one piece and belongs to the caller. The owner of the leading
// engine calls it.
func Inject(e *Engine, p *RxPacket) {
	e.stats.Arrive(p.Len, p.Bulk)
	e.in.came, e.in.known = p.Came(e.now)
	d := wire.DropUnknownConn
	switch h, short := wire.ParseBaseHeader(p.Frags[0].Data); {
	case short != wire.DropNone:
		d = short
	case h.ConnID() == 0:
		d = e.receiveStranger(p, h)
	case !p.Handed && e.group.conns.lookup(h.ConnID()) == nil:
		d = e.reply(p, e.guard.unknown(p, h, e.now))
	}
	if d != wire.DropNone {
		e.stats.Drop(d)
	}
	if e.tap.on() {
		e.tap.received(p, e, d, keptNothing)
	}
}

// nobodyHere decides about a REQ for a port that nobody listens on here: it is for another adapter of the machine, or for nobody.
func (s *strangers) nobodyHere(p *RxPacket, hello *wire.Hello, now clock.Time) verdict {
	to := ndports.Nobody
	if !p.Handed && p.To.Port == s.port {
		to = s.others.HandOver(p, hello.DstPort)
	}
	switch to {
	case ndports.Done:
		s.stats.HandedOver++
		return verdict{}
	case ndports.Dropped:
		return verdict{drop: wire.DropBacklog}
	case ndports.Refused:
		return s.reject(p, hello, wire.RejectBacklog, now)
	case ndports.Nobody:
	}
	return s.reject(p, hello, wire.RejectNoListener, now)
}

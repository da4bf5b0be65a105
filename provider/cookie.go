package provider

import (
	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

// This file makes strangers prove their address while the engine is under load, at no cost in memory (PROTOCOL §7.5): a
// REQ is answered with RETRY and forgotten, and taken when it comes again with the cookie of that RETRY.

// proven says whether a REQ carries a cookie that its sender got from us at the address it writes from, in this period or
// the one before.
func (e *Engine) proven(p *RxPacket, body []byte, hello *wire.Hello) bool {
	if len(hello.Cookie) == 0 {
		return false
	}
	good := e.guard.Cookies.Proves(&p.From, &p.To, body, hello.Cookie, e.now)
	if !good {
		e.stats.CookiesRefused++
	}
	return good
}

// challenge answers a REQ with RETRY, and keeps nothing.
func (e *Engine) challenge(p *RxPacket, body []byte, hello *wire.Hello) wire.DropReason {
	if !e.guard.TakeRetry(e.now) {
		return wire.DropRate
	}
	cookie := e.guard.Cookies.Make(&p.From, &p.To, body, len(hello.Cookie) > 0, e.now)
	e.stats.CookiesSent++
	e.answerStranger(p, hello.ConnID, wire.CtlRETRY, wire.CookieLen, func(b []byte) { wire.AppendCookie(b[:0], cookie) })
	return wire.DropNone
}

// onRetry sends the REQ again with the cookie the peer wants to see.
func (c *conn) onRetry(body []byte, now clock.Time) wire.DropReason {
	cookie, d := wire.ParseCookie(body)
	if d != wire.DropNone {
		return d
	}
	if c.phase != phaseReqSent || !c.handshake.Follow(cookie, now, c.engine.cfg.DeadPeer) {
		return wire.DropState
	}
	c.sendHello(wire.CtlREQ)
	c.touch()
	return wire.DropNone
}

package provider

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"hash"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

// This file makes strangers prove their address while the engine is under load, at no cost in memory (PROTOCOL §7.5): a
// REQ is answered with RETRY and forgotten, and taken when it comes again with the cookie of that RETRY.

// What a cookie does not vouch for in the body of a REQ (PROTOCOL §7.1), but for its own item: the receive limit, which may rise before
// the REQ is sent again.
const (
	limitAt  = 40
	limitEnd = 44
)

// cookieMint makes and checks cookies. There are two secrets: that of the current period and that of the one before.
type cookieMint struct {
	period  int64 // number of the current one
	ready   bool
	macs    [2]hash.Hash // by the parity of the period
	scratch [2 + 2*16 + 2*2 + 8]byte
	sum     [sha256.Size]byte
	cookie  [wire.CookieLen]byte
}

// turn makes the secrets those of now. A secret that was in use for two periods is replaced.
func (m *cookieMint) turn(e *Engine) {
	period := int64(e.now) / int64(cookiePeriod)
	if m.ready && period == m.period {
		return
	}
	if !m.ready || period != m.period+1 {
		m.replace(e, period-1)
	}
	m.replace(e, period)
	m.period, m.ready = period, true
}

func (m *cookieMint) replace(e *Engine, period int64) {
	var key [sha256.Size]byte
	for i := 0; i < len(key); i += 8 {
		binary.LittleEndian.PutUint64(key[i:], e.rng.Uint64())
	}
	m.macs[period&1] = hmac.New(sha256.New, key[:])
}

// bake leaves in m.cookie the cookie of a period for the REQ in p: a MAC over the period, both addresses and UDP ports, and
// the body but for the cookie's item and the receive limit.
func (m *cookieMint) bake(period int64, p *RxPacket, body []byte, hello *wire.Hello) {
	b := binary.BigEndian.AppendUint64(m.scratch[:0], uint64(period))
	for _, end := range [2]*wire.Endpoint{&p.From, &p.To} {
		b = append(b, end.IP[:]...)
		b = binary.BigEndian.AppendUint16(b, end.Port)
	}
	mac := m.macs[period&1]
	mac.Reset()
	mac.Write(b)
	mac.Write(body[:limitAt])
	mac.Write(body[limitEnd:wire.HelloLen])
	items := body[wire.HelloLen:]
	if len(hello.Cookie) > 0 {
		items = items[wire.CookieItemLen:] // it is the first one
	}
	mac.Write(items)
	copy(m.cookie[:], mac.Sum(m.sum[:0]))
}

// proven says whether a REQ carries a cookie that its sender got from us at the address it writes from, in this period or
// the one before.
func (e *Engine) proven(p *RxPacket, body []byte, hello *wire.Hello) bool {
	if len(hello.Cookie) == 0 {
		return false
	}
	m := &e.cookies
	m.turn(e)
	good := 0
	for period := m.period - 1; period <= m.period; period++ {
		m.bake(period, p, body, hello)
		good |= subtle.ConstantTimeCompare(m.cookie[:], hello.Cookie)
	}
	if good == 0 {
		e.stats.CookiesRefused++
	}
	return good != 0
}

// challenge answers a REQ with RETRY, and keeps nothing.
func (e *Engine) challenge(p *RxPacket, body []byte, hello *wire.Hello) wire.DropReason {
	if !e.retries.allow(e.now, maxCookies) {
		return wire.DropRate
	}
	m := &e.cookies
	m.turn(e)
	m.bake(m.period, p, body, hello)
	e.stats.CookiesSent++
	e.answerStranger(p, hello.ConnID, wire.CtlRETRY, wire.CookieLen, func(b []byte) { wire.AppendCookie(b[:0], &m.cookie) })
	return wire.DropNone
}

// onRetry sends the REQ again with the cookie the peer wants to see. It is no sign that the request was noted.
func (c *conn) onRetry(body []byte, now clock.Time) wire.DropReason {
	cookie, d := wire.ParseCookie(body)
	if d != wire.DropNone {
		return d
	}
	hs := &c.handshake
	if c.phase != phaseReqSent || hs.retries == maxRetries || hs.retries > 0 && [wire.CookieLen]byte(cookie) == hs.cookie {
		return wire.DropState // a copy, or a peer that is never content
	}
	hs.retries++
	hs.cookie = [wire.CookieLen]byte(cookie)
	hs.gap = firstRetry
	hs.retryAt = min(now.Add(hs.gap), hs.heardAt.Add(c.engine.cfg.DeadPeer))
	c.sendHello(wire.CtlREQ)
	c.touch()
	return wire.DropNone
}

package guard

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"hash"
	"math/rand/v2"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

// The receive limit in a REQ's body. A cookie does not cover it, because it may rise before the REQ is sent again (PROTOCOL §7.1).
// A cookie does not cover its own item either. It does not cover the part of a ClientHello, so that all parts have one cookie (PROTOCOL §10.2).
const (
	limitAt  = 40
	limitEnd = 44
)

// Mint makes and checks cookies (PROTOCOL §7.5), with which unknown peers prove their addresses without using memory. It has two
// secrets, one of the current period and one of the previous.
type Mint struct {
	rng     *rand.Rand
	period  int64 // number of the current period
	ready   bool
	macs    [2]hash.Hash // indexed by the parity of the period
	scratch [2 + 2*16 + 2*2 + 8]byte
	sum     [sha256.Size]byte
	cookie  [wire.CookieLen]byte
}

// Make returns the cookie for a REQ with this body between these endpoints. It is valid until the next call. The items of the body are
// valid.
func (m *Mint) Make(from, to *wire.Endpoint, body []byte, now clock.Time) *[wire.CookieLen]byte {
	m.turn(now)
	m.sign(m.period, from, to, body)
	return &m.cookie
}

// Proves reports whether the cookie, which is an item of body, was made for this REQ and its sender in the present or the
// previous period.
func (m *Mint) Proves(from, to *wire.Endpoint, body, cookie []byte, now clock.Time) bool {
	m.turn(now)
	good := 0
	for period := m.period - 1; period <= m.period; period++ {
		m.sign(period, from, to, body)
		good |= subtle.ConstantTimeCompare(m.cookie[:], cookie)
	}
	return good != 0
}

// turn replaces secrets that have been in use for two periods.
func (m *Mint) turn(now clock.Time) {
	period := int64(now) / int64(CookiePeriod)
	if m.ready && period == m.period {
		return
	}
	if !m.ready || period != m.period+1 {
		m.replace(period - 1)
	}
	m.replace(period)
	m.period, m.ready = period, true
}

func (m *Mint) replace(period int64) {
	var key [sha256.Size]byte
	for i := 0; i < len(key); i += 8 {
		binary.LittleEndian.PutUint64(key[i:], m.rng.Uint64())
	}
	m.macs[period&1] = hmac.New(sha256.New, key[:])
}

// sign stores the cookie of a period in m.cookie: a MAC over the period, both addresses and UDP ports, and the body. The body's
// receive limit, and the items that a cookie does not cover, are left out.
func (m *Mint) sign(period int64, from, to *wire.Endpoint, body []byte) {
	b := binary.BigEndian.AppendUint64(m.scratch[:0], uint64(period))
	for _, end := range [2]*wire.Endpoint{from, to} {
		b = append(b, end.IP[:]...)
		b = binary.BigEndian.AppendUint16(b, end.Port)
	}
	mac := m.macs[period&1]
	mac.Reset()
	mac.Write(b)
	mac.Write(body[:limitAt])
	mac.Write(body[limitEnd:wire.HelloLen])
	for items := body[wire.HelloLen:]; len(items) > 0; {
		it, rest, d := wire.ParseItem(items, 0)
		if d != wire.DropNone {
			break // the body was parsed before
		}
		if it.Type != wire.ItemCookie && it.Type != wire.ItemHello {
			mac.Write(items[:len(items)-len(rest)])
		}
		items = rest
	}
	copy(m.cookie[:], mac.Sum(m.sum[:0]))
}

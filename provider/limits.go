package provider

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

// This file bounds what others can make the engine keep and send (PROTOCOL §7.5): half-open and established connections
// per source, connections that are over, and answers to strangers.

// source is who a REQ comes from, for budgets: an IPv4 address, or the 64-bit prefix of an IPv6 address, because the rest
// is its owner's to choose.
type source [16]byte

func sourceOf(ip [16]byte) (s source) {
	if (wire.Endpoint{IP: ip}).Is4() {
		return ip
	}
	copy(s[:8], ip[:8])
	return s
}

// usage is what one source has. It exists while it has something.
type usage struct{ halfOpen, established uint32 }

// share is the part of its source's budget that a connection takes.
type share uint8

const (
	shareNone share = iota
	shareHalfOpen
	shareEstablished
)

// take moves the connection to another part of its source's budget. Connections that we asked for are nobody's share.
func (c *conn) take(s share) {
	if c.active || c.share == s {
		return
	}
	e := c.engine
	from := sourceOf(c.remote.IP)
	u := e.sources[from]
	count := func(s share, by uint32) {
		switch s {
		case shareHalfOpen:
			u.halfOpen += by
			e.halfOpen += int(int32(by))
		case shareEstablished:
			u.established += by
		case shareNone:
		}
	}
	count(c.share, ^uint32(0))
	count(s, 1)
	c.share = s
	if u == (usage{}) {
		delete(e.sources, from)
	} else {
		e.sources[from] = u
	}
}

// admit decides about a REQ that asks for a new connection: true makes one, false means that it was answered or dropped for
// the reason returned. A peer that has proven its address gets more, but not everything.
func (e *Engine) admit(l *Listener, p *RxPacket, body []byte, hello *wire.Hello) (admitted, proven bool, d wire.DropReason) {
	u := e.sources[sourceOf(p.From.IP)]
	proven = e.proven(p, body, hello)
	if !proven && e.loaded(l, u) {
		return false, false, e.challenge(p, body, hello)
	}
	if len(l.waiting) == 0 && l.backed() >= l.backlog {
		return false, proven, e.rejectStranger(p, hello.ConnID, wire.RejectBacklog)
	}
	if u.halfOpen >= maxSourceHalfOpen || u.established >= maxSourceConns {
		e.stats.SourceLimited++
		return false, proven, e.rejectStranger(p, hello.ConnID, wire.RejectBacklog)
	}
	return true, proven, wire.DropNone
}

// loaded says whether a REQ without a cookie must get one first. It counts the REQ.
func (e *Engine) loaded(l *Listener, u usage) bool {
	return 2*l.backed() > l.backlog || 2*e.halfOpen > maxBacklog || u.halfOpen >= trustedHalfOpen ||
		u.established >= maxSourceConns || !e.unproven.allow(e.now, maxUnproven)
}

// mayRepeat says whether a message of n bytes may go out on the timer. A source that has not proven its address, by a
// cookie or by an answer to what was sent there, gets no more than three times what it sent (RFC 9000 §8.1).
func (c *conn) mayRepeat(n int) bool {
	hs := &c.handshake
	if c.active || hs.proven {
		return true
	}
	if int(hs.sent)+n > 3*wire.MinPacket {
		return false
	}
	hs.sent += int32(n)
	return true
}

// graves are the ids of lingering connections, by when they ended.
type graves struct {
	ids  []uint64 // ring
	head int
	n    int
}

// bury notes a connection that lingers from now on. Beyond maxLingering the oldest is forgotten at once.
func (e *Engine) bury(c *conn) {
	g := &e.graves
	for g.n > 0 {
		oldest := e.lookup(g.ids[g.head])
		if oldest != nil && oldest != c && g.n < maxLingering {
			break
		}
		g.head = (g.head + 1) % len(g.ids)
		g.n--
		if oldest != nil && oldest != c {
			e.stats.Forgotten++
			oldest.free()
		}
	}
	if g.n == len(g.ids) {
		ids := make([]uint64, max(64, 2*g.n))
		for i := range g.n {
			ids[i] = g.ids[(g.head+i)%len(g.ids)]
		}
		g.ids, g.head = ids, 0
	}
	g.ids[(g.head+g.n)%len(g.ids)] = c.id
	g.n++
}

// exhume frees the oldest lingering connection, because its slot is needed.
func (e *Engine) exhume() {
	g := &e.graves
	for g.n > 0 {
		oldest := e.lookup(g.ids[g.head])
		g.head = (g.head + 1) % len(g.ids)
		g.n--
		if oldest != nil {
			e.stats.Forgotten++
			oldest.free()
			return
		}
	}
}

// bucket is a token bucket that holds one second's worth.
type bucket struct {
	used int // tokens taken and not yet given back
	at   clock.Time
}

// allow takes a token if there is one, at perSecond of them a second.
func (b *bucket) allow(now clock.Time, perSecond int) bool {
	if b.used == 0 {
		b.at = now
	} else if back := int(min(now.Sub(b.at), time.Second) * time.Duration(perSecond) / time.Second); back > 0 {
		b.used -= min(back, b.used)
		b.at = now
	}
	if b.used == perSecond {
		return false
	}
	b.used++
	return true
}

// sourceBuckets limit answers per source in fixed memory. Sources that share a bucket share what it gives; which ones do
// is a secret.
type sourceBuckets struct {
	key     uint64
	buckets [sourceSlots]bucket
}

const sourceSlots = 256

func (s *sourceBuckets) allow(from source, now clock.Time, perSecond int) bool {
	h := s.key
	for i := 0; i < len(from); i += 4 {
		h ^= uint64(from[i]) | uint64(from[i+1])<<8 | uint64(from[i+2])<<16 | uint64(from[i+3])<<24
		h *= 0xff51afd7ed558ccd // MurmurHash3
		h ^= h >> 32
	}
	return s.buckets[h%sourceSlots].allow(now, perSecond)
}

package provider

import (
	"cmp"
	"encoding/binary"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

// This file keeps the UDP source port of a connection's peer (PROTOCOL §6.1), which may change and is then proven before anything from it is
// used.

// minChallengeGap is the least time between two CHALLENGEs while the round trip is not known.
const minChallengeGap = initialRTO

// challenge is the CHALLENGE that was sent last. There is one at a time.
type challenge struct {
	nonce     uint64
	at        clock.Time
	respondAt clock.Time // when another one of the peer's may be answered, if it comes from elsewhere
	out       bool       // not answered
}

// due says whether another one may go out: one in a round trip.
func (ch *challenge) due(now clock.Time, roundTrip time.Duration) bool {
	return ch.at == 0 || now.Sub(ch.at) >= cmp.Or(roundTrip, minChallengeGap)
}

// send notes what is sent and returns the nonce to send: a fresh one, or the one that was not answered yet, because its answer may be under way
// for longer than the round trip was before.
func (ch *challenge) send(now clock.Time, fresh uint64) uint64 {
	if !ch.out {
		ch.nonce, ch.out = fresh, true
	}
	ch.at = now
	return ch.nonce
}

// mayRespond says whether to answer a CHALLENGE from a port that is not known to be the peer's, and notes that it is answered: one in a round
// trip. The answer goes where the peer receives. Without it, two ends that change their ports at the same time would wait for each other.
func (ch *challenge) mayRespond(now clock.Time, roundTrip time.Duration) bool {
	if now < ch.respondAt {
		return false
	}
	ch.respondAt = now.Add(cmp.Or(roundTrip, minChallengeGap))
	return true
}

// answered says whether a nonce is the one that was sent, once.
func (ch *challenge) answered(nonce uint64) bool {
	if !ch.out || nonce != ch.nonce {
		return false
	}
	ch.out = false
	return true
}

// receiveElsewhere takes a packet of the connection from a source port that is not known to be the peer's. It is not executed: the peer is asked
// for a sign that it is its own, at the port that it receives on, and what the answer comes from is its port from then on.
func (c *conn) receiveElsewhere(p *RxPacket, h wire.BaseHeader) wire.DropReason {
	if !p.intact(h) {
		return wire.DropCRC
	}
	switch c.phase {
	case phaseFree, phaseReqSent, phaseLingering:
		return wire.DropPath
	case phaseAccepted, phaseRtuSent, phaseHalfOpen, phaseRepSent, phaseOpen:
	}
	e := c.engine
	c.leaveIdle()
	c.touch()
	if h.OpCount() == 0 {
		msg, d := p.control(h)
		switch {
		case d != wire.DropNone:
			return d
		case msg.Opcode == wire.CtlResponse && c.ending().challenge.answered(binary.BigEndian.Uint64(msg.Body)):
			c.remote.Port = p.From.Port
			e.stats.PathsChanged++
			d, _ = c.receive(p, h)
			return d
		case msg.Opcode == wire.CtlChallenge && c.ending().challenge.mayRespond(e.now, c.rtt.smoothed):
			c.say(wire.CtlResponse, 0, msg.Body)
		}
	}
	if c.ending().challenge.due(e.now, c.rtt.smoothed) {
		if body, ok := c.control(wire.CtlChallenge, 0, wire.ChallengeLen); ok {
			binary.BigEndian.PutUint64(body, c.ending().challenge.send(e.now, e.rng.Uint64()))
			c.seal(0, 0, 0)
			e.stats.Challenges++
		}
	}
	return wire.DropPath
}

package provider

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"github.com/ndxdp/ndxdp/provider/internal/lifetime"
	"github.com/ndxdp/ndxdp/wire"
)

// This file is about the proof that a peer lost its state (PROTOCOL §7.4).

// resetTokens makes the tokens that prove RSTs. Their key is that of the host (Config.ResetKey), so that a process can answer for the
// connections of the one before it.
type resetTokens struct {
	mac hash.Hash
	buf [8 + 16 + 2]byte
	sum [sha256.Size]byte
}

func newResetTokens(key *[sha256.Size]byte) resetTokens {
	return resetTokens{mac: hmac.New(sha256.New, key[:])}
}

// of is the token of a connection id at an address and UDP port of ours. Others who have the key receive elsewhere, so that what they answer
// for an id that they are asked about does not end a connection of ours.
func (r *resetTokens) of(id uint64, at wire.Endpoint) (t [wire.ResetTokenLen]byte) {
	b := binary.BigEndian.AppendUint64(r.buf[:0], id)
	b = append(b, at.IP[:]...)
	r.mac.Reset()
	r.mac.Write(binary.BigEndian.AppendUint16(b, at.Port))
	copy(t[:], r.mac.Sum(r.sum[:0]))
	return t
}

const resetLen = wire.RSTPacketLen - wire.ControlOffset - wire.ControlHeaderLen

// resetToken is what ends this connection at the peer when an RST has it.
func (c *conn) resetToken() [wire.ResetTokenLen]byte {
	return c.engine.guard.tokens.of(c.id, wire.Endpoint{IP: c.local.IP, Port: c.engine.cfg.UDPPort})
}

// reset ends a connection whose peer does not know it any more.
func (c *conn) reset() wire.DropReason {
	switch c.phase {
	case phaseOpen:
		c.lost(OutcomeCanceled)
		c.linger(lifetime.Nothing, 0, nil)
	case phaseAccepted, phaseRtuSent, phaseRepSent, phaseHalfOpen:
		c.attemptFailed(OutcomeAborted)
	case phaseFree, phaseReqSent, phaseLingering:
	}
	return wire.DropNone
}

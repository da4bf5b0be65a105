package provider

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"hash"

	"github.com/ndxdp/ndxdp/provider/internal/guard"
	"github.com/ndxdp/ndxdp/provider/internal/lifetime"
	"github.com/ndxdp/ndxdp/wire"
)

// This file answers packets of connections that are not here, and takes such answers (PROTOCOL §7.4).

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
	return c.engine.resetTokens.of(c.id, wire.Endpoint{IP: c.local.IP, Port: c.engine.cfg.UDPPort})
}

// receiveUnknown answers a packet for a connection that is not here with RST (PROTOCOL §7.4), except an RST, and what is
// smaller than one. Bare acknowledgements are among those: their sender waits for nothing.
func (e *Engine) receiveUnknown(p *RxPacket, h wire.BaseHeader) wire.DropReason {
	if p.Len < wire.RSTPacketLen || h.OpCount() == 0 && !asksForReset(p.Frags[0].Data) {
		return wire.DropUnknownConn
	}
	if !p.intact(h) {
		return wire.DropCRC
	}
	if !e.guard.TakeReset(guard.SourceOf(p.From.IP), e.now) {
		return wire.DropRate
	}
	// The peer's id for the lost connection is not known here: the peer finds it by ours.
	m := wire.Reset{ConnID: h.ConnID(), Number: h.Number(), Token: e.resetTokens.of(h.ConnID(), p.To)}
	e.answerStranger(p, 0, wire.CtlRST, resetLen, func(body []byte) { m.Append(body[:0]) })
	return wire.DropUnknownConn
}

// asksForReset says whether the control packet that begins with first has a message, and not RST.
func asksForReset(first []byte) bool {
	at, d := wire.ContentOffset(first)
	return d == wire.DropNone && len(first) > at && wire.Opcode(first[at]) != wire.CtlRST
}

// receiveReset takes RST: the peer lost its state. It counts only with the token learnt in the handshake.
func (e *Engine) receiveReset(p *RxPacket, body []byte) wire.DropReason {
	var m wire.Reset
	if d := wire.ParseReset(body, &m); d != wire.DropNone {
		return d
	}
	c := e.directory.peers.find(peerKey{p.From.IP, m.ConnID})
	if c == nil {
		return wire.DropUnknownConn
	}
	if subtle.ConstantTimeCompare(m.Token[:], c.peerToken[:]) != 1 {
		return wire.DropRSTToken
	}
	return e.onHomeOf(c, (*conn).reset)
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

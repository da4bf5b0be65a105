package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/lifetime"
	"github.com/ndxdp/ndxdp/wire"
)

// This file is about the proof that a peer lost its state (PROTOCOL §7.4).

const resetLen = wire.RSTPacketLen - wire.ControlOffset - wire.ControlHeaderLen

// resetToken is what ends this connection at the peer when an RST has it.
func (c *conn) resetToken() [wire.ResetTokenLen]byte {
	return c.engine.guard.tokens.Of(c.id, wire.Endpoint{IP: c.local.IP, Port: c.engine.cfg.ReceivePort})
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

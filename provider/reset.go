package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/lifetime"
	"github.com/ndxdp/ndxdp/wire"
)

// This file is about the proof that a peer lost its state (PROTOCOL §7.4).

const resetLen = wire.RSTPacketLen - wire.ControlOffset - wire.ControlHeaderLen

// tokenOf is what ends a connection at the peer when an RST has it; port is the UDP port that we receive on.
func (s *strangers) tokenOf(i *identity, port uint16) [wire.ResetTokenLen]byte {
	return s.tokens.Of(i.id, wire.Endpoint{IP: i.local.IP, Port: port})
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

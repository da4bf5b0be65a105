package lifetime

import (
	"github.com/ndxdp/ndxdp/provider/internal/outcome"
	"github.com/ndxdp/ndxdp/wire"
)

// CauseOf returns the cause of a connection that this side ends with a TERM. An earlier cause takes precedence.
func CauseOf(reason wire.TermReason) outcome.Cause {
	switch reason {
	case wire.TermProtocol:
		return outcome.Protocol
	case wire.TermNoReceive:
		return outcome.NoReceive
	case wire.TermLocal: // a memory fault was recorded earlier
		return outcome.Overrun
	default:
		return outcome.RefusedHere
	}
}

// CauseOfTerm returns the cause of a connection that the peer ended with a TERM.
func CauseOfTerm(op *wire.Op) outcome.Cause {
	switch {
	case op.Reason == wire.TermClosed || op.Reason == wire.TermFlushed:
		return outcome.PeerGone
	case op.FailedOp != 0:
		return outcome.RefusedThere
	default:
		return outcome.PeerFailed
	}
}

package lifetime

import (
	"github.com/ndxdp/ndxdp/provider/internal/outcome"
	"github.com/ndxdp/ndxdp/wire"
)

// CauseOf is why this side ends a connection with a TERM, unless something that came before is known.
func CauseOf(reason wire.TermReason) outcome.Cause {
	switch reason {
	case wire.TermProtocol:
		return outcome.Protocol
	case wire.TermNoReceive:
		return outcome.NoReceive
	case wire.TermLocal: // a fault of memory was noted before
		return outcome.Overrun
	default:
		return outcome.RefusedHere
	}
}

// CauseOfTerm is why the peer ended a connection with a TERM.
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

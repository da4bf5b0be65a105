package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/qpstate"
	"github.com/ndxdp/ndxdp/wire"
)

// QPState is where a queue pair stands (ND specification, queue pair state table).
type QPState = qpstate.State

// The states of a queue pair.
const (
	QPIdle     = qpstate.Idle
	QPAttached = qpstate.Attached
	QPReady    = qpstate.Ready
	QPError    = qpstate.Error
	QPClosed   = qpstate.Closed
)

// State returns the state. Applications read it while the engine writes it.
func (qp *QP) State() QPState { return QPState(qp.state.Load()) }

// transition is the only writer of the state. What cannot happen is counted.
func (qp *QP) transition(ev qpstate.Event) {
	next, legal := qp.State().After(ev)
	if !legal {
		qp.home.Load().stats.IllegalTransitions++
	}
	qp.state.Store(uint32(next))
	if qp.memory.HasWindows() && next != QPReady {
		qp.lead.mem.UnbindAll(&qp.memory) // ND specification section 10
	}
}

// whyGone is the reason for a refused access once our windows are gone because the queue pair has ended: the peer, which cannot
// know yet, did nothing wrong.
func (qp *QP) whyGone(reason wire.TermReason) wire.TermReason {
	switch {
	case qp == nil || qp.State() == QPClosed:
		return wire.TermClosed
	case qp.State() == QPError:
		return wire.TermFlushed
	}
	return reason
}

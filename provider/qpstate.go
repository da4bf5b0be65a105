package provider

import "github.com/ndxdp/ndxdp/wire"

// QPState is where a queue pair stands (ND specification, queue pair state table).
type QPState uint8

// The states of a queue pair.
const (
	QPIdle QPState = iota
	QPAttached
	QPReady
	QPError
	QPClosed
)

const numQPStates = int(QPClosed) + 1

var qpStateNames = [numQPStates]string{"idle", "attached", "ready", "error", "closed"}

// String names the state.
func (s QPState) String() string {
	if int(s) < numQPStates {
		return qpStateNames[s]
	}
	return "unknown"
}

type qpEvent uint8

const (
	qpAttach    qpEvent = iota // Connect or Accept started with it
	qpDetach                   // the attempt failed, was rejected or declined
	qpEstablish                // CompleteConnect or Accept finished
	qpFail                     // a failed result, a terminate, or the connection is lost
	qpFlush                    // the application flushed it
	qpFinish                   // Disconnect finished
	qpRelease                  // the application closed it
)

const numQPEvents = int(qpRelease) + 1

var qpEventNames = [numQPEvents]string{"attach", "detach", "establish", "fail", "flush", "finish", "release"}

// qpIllegal marks a pair that cannot happen; transition counts it and moves to QPError.
const qpIllegal = 0xff

// qpTransitions is the whole table; its golden test prints it.
var qpTransitions = [numQPStates][numQPEvents]QPState{
	QPIdle:     {QPAttached, qpIllegal, qpIllegal, qpIllegal, QPIdle, qpIllegal, QPClosed},
	QPAttached: {qpIllegal, QPIdle, QPReady, qpIllegal, QPAttached, qpIllegal, QPClosed},
	QPReady:    {qpIllegal, qpIllegal, qpIllegal, QPError, QPError, QPClosed, QPClosed},
	QPError:    {qpIllegal, qpIllegal, qpIllegal, QPError, QPError, QPClosed, QPClosed},
	QPClosed:   {qpIllegal, qpIllegal, qpIllegal, QPClosed, QPClosed, QPClosed, QPClosed},
}

// State returns the state. Applications read it while the engine writes it.
func (qp *QP) State() QPState { return QPState(qp.state.Load()) }

// transition is the only writer of the state.
func (qp *QP) transition(ev qpEvent) {
	next := qpTransitions[qp.State()][ev]
	if next == qpIllegal {
		qp.home.Load().stats.IllegalTransitions++
		next = QPError
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

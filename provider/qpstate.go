package provider

// This file defines the states of a queue pair and their transitions (ND specification, queue pair state table).

// QPState is the state of a queue pair.
type QPState uint8

// States of a queue pair.
const (
	QPIdle QPState = iota
	QPAttached
	QPReady
	QPError
	QPClosed
)

const numQPStates = int(QPClosed) + 1

var qpStateNames = [numQPStates]string{"idle", "attached", "ready", "error", "closed"}

// String returns the name of the state.
func (s QPState) String() string {
	if int(s) < numQPStates {
		return qpStateNames[s]
	}
	return "unknown"
}

// qpEvent is an event that may change the state.
type qpEvent uint8

// Events of a queue pair.
const (
	qpAttach    qpEvent = iota // Connect or Accept started
	qpDetach                   // the attempt failed, was rejected or declined
	qpEstablish                // CompleteConnect or Accept finished
	qpFail                     // a request failed, a TERM arrived, or the connection was lost
	qpFlush                    // the application flushed the queue pair
	qpFinish                   // Disconnect finished
	qpRelease                  // the application closed the queue pair
)

const numQPEvents = int(qpRelease) + 1

// illegalState marks an impossible transition.
const illegalState = 0xff

// qpNext is the table of transitions. A golden test prints it.
var qpNext = [numQPStates][numQPEvents]QPState{
	QPIdle:     {QPAttached, illegalState, illegalState, illegalState, QPIdle, illegalState, QPClosed},
	QPAttached: {illegalState, QPIdle, QPReady, illegalState, QPAttached, illegalState, QPClosed},
	QPReady:    {illegalState, illegalState, illegalState, QPError, QPError, QPClosed, QPClosed},
	QPError:    {illegalState, illegalState, illegalState, QPError, QPError, QPClosed, QPClosed},
	QPClosed:   {illegalState, illegalState, illegalState, QPClosed, QPClosed, QPClosed, QPClosed},
}

// After returns the state after an event. An impossible event leads to QPError, and legal is false.
func (s QPState) After(ev qpEvent) (to QPState, legal bool) {
	if to = qpNext[s][ev]; to == illegalState {
		return QPError, false
	}
	return to, true
}

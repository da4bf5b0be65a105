package qpstate

// State is the state of a queue pair.
type State uint8

// States of a queue pair.
const (
	Idle State = iota
	Attached
	Ready
	Error
	Closed
)

const numStates = int(Closed) + 1

var stateNames = [numStates]string{"idle", "attached", "ready", "error", "closed"}

// String returns the name of the state.
func (s State) String() string {
	if int(s) < numStates {
		return stateNames[s]
	}
	return "unknown"
}

// Event is an event that may change the state.
type Event uint8

// Events of a queue pair.
const (
	Attach    Event = iota // Connect or Accept started
	Detach                 // the attempt failed, was rejected or declined
	Establish              // CompleteConnect or Accept finished
	Fail                   // a request failed, a TERM arrived, or the connection was lost
	Flush                  // the application flushed the queue pair
	Finish                 // Disconnect finished
	Release                // the application closed the queue pair
)

const numEvents = int(Release) + 1

// illegal marks an impossible transition.
const illegal = 0xff

// next is the table of transitions. A golden test prints it.
var next = [numStates][numEvents]State{
	Idle:     {Attached, illegal, illegal, illegal, Idle, illegal, Closed},
	Attached: {illegal, Idle, Ready, illegal, Attached, illegal, Closed},
	Ready:    {illegal, illegal, illegal, Error, Error, Closed, Closed},
	Error:    {illegal, illegal, illegal, Error, Error, Closed, Closed},
	Closed:   {illegal, illegal, illegal, Closed, Closed, Closed, Closed},
}

// After returns the state after an event. An impossible event leads to Error, and legal is false.
func (s State) After(ev Event) (to State, legal bool) {
	if to = next[s][ev]; to == illegal {
		return Error, false
	}
	return to, true
}

package qpstate

// State is where a queue pair stands.
type State uint8

// The states.
const (
	Idle State = iota
	Attached
	Ready
	Error
	Closed
)

const numStates = int(Closed) + 1

var stateNames = [numStates]string{"idle", "attached", "ready", "error", "closed"}

// String names the state.
func (s State) String() string {
	if int(s) < numStates {
		return stateNames[s]
	}
	return "unknown"
}

// Event is what may change a state.
type Event uint8

// The events.
const (
	Attach    Event = iota // Connect or Accept started with it
	Detach                 // the attempt failed, was rejected or declined
	Establish              // CompleteConnect or Accept finished
	Fail                   // a failed result, a terminate, or the connection is lost
	Flush                  // the application flushed it
	Finish                 // Disconnect finished
	Release                // the application closed it
)

const numEvents = int(Release) + 1

var eventNames = [numEvents]string{"attach", "detach", "establish", "fail", "flush", "finish", "release"}

// illegal marks a pair that cannot happen.
const illegal = 0xff

// next is the whole table; its golden test prints it.
var next = [numStates][numEvents]State{
	Idle:     {Attached, illegal, illegal, illegal, Idle, illegal, Closed},
	Attached: {illegal, Idle, Ready, illegal, Attached, illegal, Closed},
	Ready:    {illegal, illegal, illegal, Error, Error, Closed, Closed},
	Error:    {illegal, illegal, illegal, Error, Error, Closed, Closed},
	Closed:   {illegal, illegal, illegal, Closed, Closed, Closed, Closed},
}

// After is the state after an event. One that cannot happen leads to Error, and is not legal.
func (s State) After(ev Event) (to State, legal bool) {
	if to = next[s][ev]; to == illegal {
		return Error, false
	}
	return to, true
}

package provider

// setting is where an object of a connection's traffic stands: in an engine, and on a connection that outlives it.
type setting struct {
	*environment
	*lasting
}

// wants is what the objects of a connection want of its engine. They do not know the engine's lines: the connection takes its places there
// when they are done (conn.heed).
type wants uint8

const (
	wantTurn    wants = 1 << iota // to transmit
	wantAck                       // to acknowledge
	wantVerdict                   // of congestion control, about what was heard
	wantLook                      // at the deadline
)

// want notes what is wanted.
func (l *lasting) want(w wants) { l.wanted |= w }

// blame notes why the connection is about to end, for the application.
func (l *lasting) blame(why Cause) { l.why.Note(why) }

// fault is why the traffic of a connection cannot go on. The connection draws the conclusion.
type fault uint8

const (
	faultNone       fault = iota
	faultTerminated       // a request cannot be carried out, and the peer is being told
	faultTold             // the peer knows
	faultNamed            // the peer says which of our requests cannot be carried out
)

package provider

// wants is what the traffic of a connection wants of its engine. Traffic does not use the engine's lines: the connection takes its places
// there when traffic is done (conn.heed).
type wants uint8

const (
	wantTurn    wants = 1 << iota // to transmit
	wantAck                       // to acknowledge
	wantVerdict                   // of congestion control, about what was heard
	wantLook                      // at the deadline
)

// want notes what is wanted.
func (c *conn) want(w wants) { c.wanted |= w }

// blame notes why the connection is about to end, for the application.
func (c *conn) blame(why Cause) { c.why.Note(why) }

// fault is why the traffic of a connection cannot go on. The connection draws the conclusion.
type fault uint8

const (
	faultNone       fault = iota
	faultTerminated       // a request cannot be carried out, and the peer is being told
	faultTold             // the peer knows
	faultNamed            // the peer says which of our requests cannot be carried out
)

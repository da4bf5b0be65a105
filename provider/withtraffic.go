package provider

// This file runs work on the traffic of connections. Traffic does not use the lists of its engine: it says what it wants, and the
// connection takes its places there when the work is over.

// withTraffic runs work on the traffic of a connection that may be idle. It then applies the work's wants to the engine, and ends the
// connection if the work found that it cannot go on. All work on traffic runs in here, so no caller can forget either. Work may contain other
// work on the same connection.
func (c *conn) withTraffic(work func(*traffic)) {
	c.leaveIdle()
	work(c.traffic)
	if c.faulted != faultNone {
		c.conclude()
	}
	if w := c.takeWants(); w != 0 {
		c.apply(w)
	}
}

// wants is what work on the traffic of a connection wants of its engine.
type wants uint8

const (
	wantTurn    wants = 1 << iota // to transmit
	wantAck                       // to acknowledge
	wantVerdict                   // of congestion control, about what was heard
	wantLook                      // at the deadline
)

// want adds to the wants of the work under way.
func (c *conn) want(w wants) { c.wanted |= w }

// takeWants returns the wants of the work that is over.
func (c *conn) takeWants() (w wants) {
	w, c.wanted = c.wanted, 0
	return w
}

// apply gives the connection its places in the lists of its engine.
func (c *conn) apply(w wants) {
	if w&wantTurn != 0 {
		c.engine.round.join(c)
	}
	if w&wantAck != 0 {
		c.engine.acks.join(c)
	}
	if w&wantVerdict != 0 {
		c.engine.heard.join(c)
	}
	if w&(wantTurn|wantLook) != 0 {
		c.touch()
	}
}

// fault is why the traffic of a connection cannot go on. The connection draws the conclusion.
type fault uint8

const (
	faultNone       fault = iota
	faultTerminated       // a request cannot be carried out, and the peer is being told
	faultTold             // the peer knows
	faultNamed            // the peer says which of our requests cannot be carried out
)

// blame notes why the connection is about to end, for the application.
func (c *conn) blame(why Cause) { c.why.Note(why) }

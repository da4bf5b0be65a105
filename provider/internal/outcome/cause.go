package outcome

// Cause is why a connection ended, or is about to. All requests that end with it have the same one; their outcomes tell which of them it was.
type Cause uint8

// The causes.
const (
	NoCause          Cause = iota // the connection lasts, or this side ended it
	PeerDisconnected              // the peer's application called Disconnect
	PeerGone                      // the peer closed its end, forgot the connection, or is silent
	RefusedThere                  // the peer could not carry out a request of this side
	RefusedHere                   // this side could not carry out a request of the peer
	LocalMemory                   // a request of this side names memory that is not registered here
	LocalRight                    // a request of this side names memory that lacks the right for it
	LocalRequest                  // a request of this side was not possible here: a window in the wrong state
	NoReceive                     // the peer posted no receive in time
	PeerFailed                    // a request of the peer failed at the peer
	Overrun                       // a completion queue of this side overran
	Protocol                      // the peer broke the protocol
	NumCauses
)

// Note keeps what is known first, because all else follows from it. That the peer disconnected ends nothing yet.
func (c *Cause) Note(why Cause) {
	if *c == NoCause || *c == PeerDisconnected {
		*c = why
	}
}

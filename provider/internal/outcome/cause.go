package outcome

// Cause is the reason why a connection ended or is about to end. All requests of the connection share it; their outcomes tell which
// of them failed.
type Cause uint8

// Causes of the end of a connection.
const (
	NoCause          Cause = iota // the connection is alive, or this side ended it
	PeerDisconnected              // the peer's application called Disconnect
	PeerGone                      // the peer closed its end, lost the connection, or is silent
	RefusedThere                  // the peer could not execute a request of this side
	RefusedHere                   // this side could not execute a request of the peer
	LocalMemory                   // a request of this side names memory that is not registered
	LocalRight                    // a request of this side names memory without the needed right
	LocalRequest                  // a request of this side was invalid, for example for a window in the wrong state
	NoReceive                     // the peer did not post a receive in time
	PeerFailed                    // a request of the peer failed there
	Overrun                       // a completion queue of this side overran
	Protocol                      // the peer violated the protocol
	PeerHasNoTLS                  // the peer's listener does not encrypt
	PeerWantsTLS                  // the peer's listener refuses connections that are not encrypted
	NumCauses
)

// Note sets the cause unless an earlier one is set, because later failures are consequences. PeerDisconnected is overwritten,
// because it does not end the connection yet.
func (c *Cause) Note(why Cause) {
	if *c == NoCause || *c == PeerDisconnected {
		*c = why
	}
}

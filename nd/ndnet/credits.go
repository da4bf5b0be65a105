package ndnet

import "errors"

// How many receives a side may have posted.
const (
	minReceives = 8
	maxReceives = 1024
)

// kind is what a message is sent for. The fewer receives the peer has left, the fewer kinds may use one: data leaves two, and what
// neither carries data nor says of enough new receives leaves one. So the last receive of either side always goes to a message that gives the other at
// least half of its receives anew, and two sides never wait for each other's.
type kind int32

const (
	kindReceives kind = 0 // says that half of the receives are new
	kindControl  kind = 1
	kindData     kind = 2
)

// credits counts receives and the messages that use them: ours, for the peer's messages, and the peer's, for ours.
type credits struct {
	depth uint16 // receives that we keep posted

	posted uint16 // of ours, ever, modulo 2^16
	told   uint16 // of those, how many the peer knows of

	sent  uint16 // messages, ever
	limit uint16 // how many the peer has posted receives for
}

// newCredits is the state after greetings.
func newCredits(peers uint16) credits {
	return credits{depth: depth, posted: depth, told: depth, limit: peers}
}

// may says whether a message of the kind may be sent now.
func (c *credits) may(k kind) bool { return int32(c.limit-c.sent) > int32(k) }

// due says that so many receives are new that the peer must hear of them.
func (c *credits) due() bool { return c.posted-c.told >= c.depth/2 }

// send counts a message and returns what it says of our receives.
func (c *credits) send() uint16 {
	c.sent++
	c.told = c.posted
	return c.posted
}

var errReceives = errors.New("the peer says that it has posted an impossible number of receives")

// granted takes in what a message says of the peer's receives.
func (c *credits) granted(posted uint16) error {
	if left := posted - c.sent; left > maxReceives || int16(posted-c.limit) < 0 {
		return errReceives
	}
	c.limit = posted
	return nil
}

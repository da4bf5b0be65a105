package ndnet

import "errors"

// Bounds of the number of receives that a side may have posted.
const (
	minReceives = 8
	maxReceives = 1024
)

// kind is the purpose of a message. The fewer receives the peer has left, the fewer kinds may use one. Data leaves two receives. A message
// without data leaves one, unless it announces that half of the sender's receives are new. So each side can always use the peer's last
// receive to announce at least half of its own receives, and two sides never wait for each other.
type kind int32

const (
	kindReceives kind = 0 // announces that half of the receives are new
	kindControl  kind = 1
	kindData     kind = 2
)

// credits counts this side's receives for the peer's messages, and the peer's receives for this side's messages.
type credits struct {
	depth uint16 // receives that this side keeps posted

	posted uint16 // receives posted so far, modulo 2^16
	told   uint16 // number of receives that the peer knows of

	sent  uint16 // messages sent so far
	limit uint16 // receives that the peer has posted so far
}

// newCredits returns the state after the greetings.
func newCredits(peers uint16) credits {
	return credits{depth: depth, posted: depth, told: depth, limit: peers}
}

// may reports whether a message of the kind may be sent now.
func (c *credits) may(k kind) bool { return int32(c.limit-c.sent) > int32(k) }

// due reports whether to tell the peer of new receives.
func (c *credits) due() bool { return c.posted-c.told >= c.depth/2 }

// send counts a message and returns the receive count to put into it.
func (c *credits) send() uint16 {
	c.sent++
	c.told = c.posted
	return c.posted
}

var errReceives = errors.New("the peer announced an impossible number of receives")

// granted handles the receive count of a message of the peer.
func (c *credits) granted(posted uint16) error {
	if left := posted - c.sent; left > maxReceives || int16(posted-c.limit) < 0 {
		return errReceives
	}
	c.limit = posted
	return nil
}

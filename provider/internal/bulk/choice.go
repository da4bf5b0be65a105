package bulk

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

const (
	// firstPause is how long a connection avoids a bulk path that failed. The pause doubles with each failure, up to mostPause.
	firstPause = time.Second
	mostPause  = 128 * time.Second
	// judged is the number of packets in a sample. If more than half of them are lost, the connection leaves the bulk path. One
	// overflow of a queue loses fewer.
	judged = 256
	// rowBytes of successive packets, on average more than half full, count as bulk. Shorter transfers take the ND port, which has
	// the lower latency.
	rowBytes = 8 << 10
	// usedFor is how long after a packet on the bulk path delays of other packets are ignored, because they do not describe the
	// current path.
	usedFor = 10 * time.Millisecond
)

// Cause is the reason why a connection left the bulk path.
type Cause uint8

// Reasons to leave the bulk path.
const (
	Unanswered Cause = iota // probes were not answered
	Silent                  // a time-out: no packet on the bulk path was acknowledged
	Lossy                   // most packets were lost
)

// String names the cause.
func (c Cause) String() string {
	return [...]string{Unanswered: "no answer to probes", Silent: "time-out", Lossy: "most packets were lost"}[c]
}

// Choice decides which packets of a connection leave by the bulk path. The zero Choice has no proven bulk path.
type Choice struct {
	proof
	before uint16        // value of proven before the newest time-out
	why    Cause         // why the connection last left the bulk path
	pause  time.Duration // length of the newest pause
	usedAt clock.Time    // when a packet last left by the bulk path
	row    int           // bytes of successive packets, minus the room left in them
	always bool          // the bulk path takes every packet that it can carry
	lost   int           // lost packets of the current sample
	came   int           // packets of the current sample
}

// Packet describes a packet with contents that is about to leave.
type Packet struct {
	Size   int
	Room   int  // unused bytes; zero if the packet is about to be filled
	Full   bool // nothing more fits
	Waits  int  // if Full: known bytes that can leave now, including this packet
	Alone  bool // no packet is in flight
	Behind bool // earlier contents are in flight on the bulk path
}

// Takes reports whether a packet leaves by the bulk path. A full packet does if it follows enough other full packets. A packet that
// would overtake packets on the bulk path does, too.
func (c *Choice) Takes(p Packet) bool {
	if p.Alone {
		c.row = 0
	}
	isBulk := c.inRow(p)
	return c.Carries(p.Size) && (c.always || isBulk || p.Behind)
}

// inRow reports whether a packet follows enough full packets to count as bulk. A packet that leaves alone starts a new row. A
// packet that is not full does not count, and twice its unused room is subtracted from the row. So a list of small messages that
// fills packets is bulk, although its last packet is not full. Messages that take one packet each are not bulk.
func (c *Choice) inRow(p Packet) bool {
	if !p.Full {
		c.row = max(c.row-2*p.Room, 0)
		return false
	}
	c.row = min(c.row+p.Size, rowBytes)
	return c.row == rowBytes || p.Waits >= rowBytes
}

// State returns the state of the bulk path for statistics. It is empty if the two ends did not agree to use one.
func (c *Choice) State(agreed bool) string {
	switch {
	case !agreed:
		return ""
	case c.proven == 0:
		return "unproven"
	}
	return "proven"
}

// Why returns the reason why the connection last left the bulk path.
func (c *Choice) Why() Cause { return c.why }

// Left records that a packet leaves by the bulk path. It reports whether none left in the last usedFor.
func (c *Choice) Left(now clock.Time) (first bool) {
	first = !c.Used(now)
	c.usedAt = now
	return first
}

// Used reports whether a packet left by the bulk path in the last usedFor.
func (c *Choice) Used(now clock.Time) bool { return c.usedAt != 0 && now.Sub(c.usedAt) <= usedFor }

// ProbeDue reports whether to probe the bulk path for packets of size bytes. The caller has a packet of this size.
func (c *Choice) ProbeDue(size int, now clock.Time) bool { return c.due(size, now) }

// Probe returns the nonce of the probe to send now. A new probe takes random as its nonce. timeout is the retransmission time-out.
// If maxProbes probes were not answered, Probe returns false and the connection leaves the bulk path.
func (c *Choice) Probe(size int, now clock.Time, timeout time.Duration, random uint32) (nonce uint32, ok bool) {
	if nonce, ok = c.probe(size, now, timeout, random); !ok {
		c.leave(now, Unanswered)
	}
	return nonce, ok
}

// Answered handles the answer to a probe. It returns false if the answer is not for the current probe.
func (c *Choice) Answered(nonce uint32, size uint16) bool {
	yes := c.answered(nonce, size)
	if yes {
		c.lost, c.came = 0, 0
	}
	return yes
}

// leave stops the use of the bulk path for a time. It must be proven again afterwards.
func (c *Choice) leave(now clock.Time, why Cause) {
	c.pause = min(max(2*c.pause, firstPause), mostPause)
	*c = Choice{proof: proof{at: now.Add(c.pause)}, pause: c.pause, why: why, always: c.always}
}

// TimedOut handles a retransmission time-out of packets on the bulk path. It reports whether the connection leaves the bulk path.
func (c *Choice) TimedOut(now clock.Time) bool {
	if c.proven == 0 {
		return false
	}
	was := c.proven
	c.leave(now, Silent)
	c.before = was
	return true
}

// InTime handles a spurious time-out: the packets had arrived. The bulk path is proven again.
func (c *Choice) InTime() {
	if c.before != 0 {
		*c = Choice{proof: proof{proven: c.before}, pause: c.pause / 2, always: c.always}
	}
}

// Came counts a packet on the bulk path that arrived. It reports whether the connection leaves the bulk path because most packets
// of the sample were lost.
func (c *Choice) Came(now clock.Time) (left bool) { return c.judge(now) }

// Lost counts a packet on the bulk path that was declared lost. It reports whether the connection leaves the bulk path because most
// packets of the sample were lost.
func (c *Choice) Lost(now clock.Time) (left bool) {
	c.lost++
	return c.judge(now)
}

// judge counts a packet. It leaves the bulk path if most packets of a complete sample were lost.
func (c *Choice) judge(now clock.Time) (left bool) {
	if c.came++; c.came < judged {
		return false
	}
	left = c.proven != 0 && 2*c.lost > c.came
	c.lost, c.came = 0, 0
	if left {
		c.leave(now, Lossy)
	}
	return left
}

package bulk

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

const (
	// maxProbes of one size that stay without an answer mean that the lane does not carry it, as for the packet size (PROTOCOL §9.6).
	maxProbes = 3
	// minProbeTimer is how long the answer to a probe is waited for at the least; four time-outs otherwise.
	minProbeTimer = 10 * time.Millisecond
	// firstPause is how long a lane is left that failed, and mostPause how long at the most: the time doubles with each failure.
	firstPause = time.Second
	mostPause  = 128 * time.Second
	// judged packets are looked at together: when more than half of them are lost, the lane damages what it carries. A queue that overflows once
	// loses fewer.
	judged = 256
	// rowBytes of packets that follow each other, and are more than half full on the average, are bulk: what is shorter is faster by the ND port.
	rowBytes = 8 << 10
	// usedFor is how long after a packet by the lane the delays of others say nothing about the path that counts.
	usedFor = 10 * time.Millisecond
)

// Cause is why a connection left the lane.
type Cause uint8

// The causes.
const (
	Unanswered Cause = iota // probes were not answered
	Silent                  // nothing came back of what was under way there: a time-out
	Lossy                   // most packets were lost
)

// String names the cause.
func (c Cause) String() string {
	return [...]string{Unanswered: "no answer to probes", Silent: "time-out", Lossy: "most packets were lost"}[c]
}

// Choice decides by which lane the contents of a connection leave. Zero has proven none.
type Choice struct {
	proven uint16 // packets of at most so many bytes pass the lane; zero while none are known to
	before uint16 // proven, before the newest time-out
	size   uint16 // of the probe under way; zero when there is none
	tries  uint8
	why    Cause // it was left the last time
	nonce  uint32
	at     clock.Time    // from when on a probe may leave
	pause  time.Duration // the newest one
	usedAt clock.Time    // when a packet last left by the lane
	row    int           // bytes of packets in a row, less what they had room for
	always bool          // whatever the bulk path carries leaves by it
	lost   int           // of the packets that are judged together
	came   int
}

// Packet is one with contents that is about to leave.
type Packet struct {
	Size   int
	Room   int  // bytes that it has left; of one that is about to be filled none
	Full   bool // nothing more fits
	Waits  int  // with Full: bytes that leave at once, this packet's among them, as far as is known
	Alone  bool // nothing is in flight
	Behind bool // it follows on contents that are on their way by the lane
}

// Takes says whether a packet leaves by the bulk path: a full packet behind enough others, or a packet that would overtake them.
func (c *Choice) Takes(p Packet) bool {
	if p.Alone {
		c.row = 0
	}
	isBulk := c.inRow(p)
	return c.Carries(p.Size) && (c.always || isBulk || p.Behind)
}

// inRow says whether a packet belongs to enough full packets in a row to be bulk. A packet that leaves alone begins a new row. A packet
// that was not filled after all does not count, and its room is subtracted from the row. So lists of small messages, which end in a packet
// like this, are bulk; messages with one packet each are not.
func (c *Choice) inRow(p Packet) bool {
	if !p.Full {
		c.row = max(c.row-2*p.Room, 0)
		return false
	}
	c.row = min(c.row+p.Size, rowBytes)
	return c.row == rowBytes || p.Waits >= rowBytes
}

// Carries says whether the lane is known to carry packets of so many bytes.
func (c *Choice) Carries(size int) bool { return size <= int(c.proven) }

// State is what people are told of a lane, where the two ends agreed to one.
func (c *Choice) State(agreed bool) string {
	switch {
	case !agreed:
		return ""
	case c.proven == 0:
		return "unproven"
	}
	return "proven"
}

// Why is the reason for which the lane was left the last time.
func (c *Choice) Why() Cause { return c.why }

// Left notes that a packet leaves by the lane. It reports whether none did lately.
func (c *Choice) Left(now clock.Time) (first bool) {
	first = !c.Used(now)
	c.usedAt = now
	return first
}

// Used says whether packets left by the lane lately.
func (c *Choice) Used(now clock.Time) bool { return c.usedAt != 0 && now.Sub(c.usedAt) <= usedFor }

// ProbeDue says whether a probe for packets of so many bytes is to leave: the caller has some.
func (c *Choice) ProbeDue(size int, now clock.Time) bool { return size > int(c.proven) && now >= c.at }

// Probe returns the nonce of the probe that is to leave now, which random is when it is a new one. timeout is the retransmission time-out. It reports false when none is to
// leave: enough of them stayed without an answer.
func (c *Choice) Probe(size int, now clock.Time, timeout time.Duration, random uint32) (nonce uint32, ok bool) {
	if int(c.size) != size {
		if c.size != 0 { // keep the state that Rest remembers
			c.tries = 0
		}
		c.size, c.nonce = uint16(min(size, wire.MaxPacket)), random
	}
	if c.tries == maxProbes {
		c.leave(now, Unanswered)
		return 0, false
	}
	c.tries++
	c.at = now.Add(max(minProbeTimer, 4*timeout))
	return c.nonce, true
}

// Answered handles the answer to a probe. It returns false if the answer is not for the current probe.
func (c *Choice) Answered(nonce uint32, size uint16) bool {
	if c.size == 0 || nonce != c.nonce || size != c.size {
		return false
	}
	c.proven, c.size, c.tries, c.at = size, 0, 0, 0
	c.lost, c.came = 0, 0
	return true
}

// leave gives the lane up for some time. It has to be proven again then.
func (c *Choice) leave(now clock.Time, why Cause) {
	c.pause = min(max(2*c.pause, firstPause), mostPause)
	*c = Choice{pause: c.pause, at: now.Add(c.pause), why: why, always: c.always}
}

// TimedOut takes in that nothing came back of what left by the lane until now. It reports whether the lane is left because of that.
func (c *Choice) TimedOut(now clock.Time) bool {
	if c.proven == 0 {
		return false
	}
	was := c.proven
	c.leave(now, Silent)
	c.before = was
	return true
}

// InTime takes in that what the newest time-out was for had arrived.
func (c *Choice) InTime() {
	if c.before != 0 {
		*c = Choice{proven: c.before, pause: c.pause / 2, always: c.always}
	}
}

// Came takes in that a packet by the lane arrived. It reports whether the lane is left now, because most packets before it were lost.
func (c *Choice) Came(now clock.Time) (left bool) { return c.judge(now) }

// Lost handles a probe that is declared lost. It returns whether the connection leaves the bulk path because of it.
func (c *Choice) Lost(now clock.Time) (left bool) {
	c.lost++
	return c.judge(now)
}

// judge counts a packet, and leaves the lane when most of the last were lost.
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

package sim

import (
	"math"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

// Cubic is a TCP sender with CUBIC's congestion control (RFC 9438) that always has data, reduced to packets through a bottleneck.
// It stands for other traffic on a shared link. It detects a lost packet when later packets are acknowledged.
type Cubic struct {
	Acked, Lost int // packets

	net       *Network
	through   *Bottleneck
	rtt       time.Duration // round trip without the queue
	left      int           // packets left to send; negative for no limit
	inFlight  int
	window    float64 // packets
	threshold float64 // end of slow start
	before    float64 // window before the last reduction (W_max)
	reno      float64 // what Reno's window would be (W_est)
	reducedAt clock.Time
}

// The constants of RFC 9438: sections 4.1, 4.5 and 4.3.
const (
	cubicC     = 0.4
	cubicBeta  = 0.7
	cubicAlpha = 3 * (1 - cubicBeta) / (1 + cubicBeta)
)

// cubicPacket is the size of a packet without wireOverhead.
const cubicPacket = 1472

// NewCubic starts a flow through a bottleneck. It ends after packets packets, or never if packets is negative.
func (n *Network) NewCubic(through *Bottleneck, rtt time.Duration, packets int) *Cubic {
	c := &Cubic{net: n, through: through, rtt: rtt, left: packets, window: 10, threshold: math.Inf(1)}
	c.send()
	return c
}

// Stop stops the flow.
func (c *Cubic) Stop() { c.left = 0 }

// Forget resets the measurements.
func (c *Cubic) Forget() { c.Acked, c.Lost = 0, 0 }

// send sends until the window is full.
func (c *Cubic) send() {
	for ; c.left != 0 && c.inFlight < int(c.window); c.inFlight++ {
		c.left--
		c.net.Happened[CrossTraffic]++
		sentAt := c.net.now
		if wait, _, ok := c.through.pass(sentAt, cubicPacket, wire.NotECT); ok {
			c.net.After(wait+c.rtt+c.work(), c.acknowledged)
		} else {
			c.net.After(max(c.through.free.Sub(sentAt), 0)+c.rtt, func() { c.lose(sentAt) })
		}
	}
}

// work returns the processing time of a packet at its two hosts, like that of our hosts (bulkConfig). Without it, each packet would
// reach the bottleneck exactly when another one leaves, and would always find room (phase effect: Floyd and Jacobson, 1991).
func (c *Cubic) work() time.Duration { return between(c.net.rng, 0, cubicWork) }

// cubicWork is the upper bound of work.
const cubicWork = 8 * time.Microsecond

// lose handles the loss of a packet. All losses of a round trip count as one.
func (c *Cubic) lose(sentAt clock.Time) {
	c.inFlight--
	c.Lost++
	if sentAt > c.reducedAt {
		c.reducedAt = c.net.now
		c.before = c.window
		c.window = max(c.window*cubicBeta, 2)
		c.threshold, c.reno = c.window, c.window
	}
	c.send()
}

func (c *Cubic) acknowledged() {
	c.inFlight--
	c.Acked++
	if c.window < c.threshold {
		c.window++
		c.send()
		return
	}
	if c.reno < c.before {
		c.reno += cubicAlpha / c.window
	} else {
		c.reno += 1 / c.window
	}
	if target := c.target(); target > c.window {
		c.window += min((target-c.window)/c.window, 0.5)
	}
	c.send()
}

// target returns the window one round trip from now: the larger of the cubic curve and Reno's window. Reno's window grows per
// acknowledgement, and so slows down with the queue.
func (c *Cubic) target() float64 {
	since := c.net.now.Sub(c.reducedAt).Seconds() + c.rtt.Seconds()
	late := since - math.Cbrt(c.before*(1-cubicBeta)/cubicC) // time after the plateau; negative before it
	return max(cubicC*late*late*late+c.before, c.reno)
}

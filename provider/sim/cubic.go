package sim

import (
	"math"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

// Cubic is a TCP sender with CUBIC's congestion control (RFC 9438) that always has data, reduced to packets through a bottleneck:
// what a flow of ours meets on a shared link. A lost packet is noticed when the packets behind it are acknowledged.
type Cubic struct {
	Acked, Lost int // packets

	net       *Network
	through   *Bottleneck
	rtt       time.Duration // without the queue
	left      int           // packets that it still sends; negative for no bound
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

// cubicPacket is the size of its packets, without wireOverhead.
const cubicPacket = 1472

// NewCubic starts a flow through a bottleneck that ends after so many packets, or never when packets is negative.
func (n *Network) NewCubic(through *Bottleneck, rtt time.Duration, packets int) *Cubic {
	c := &Cubic{net: n, through: through, rtt: rtt, left: packets, window: 10, threshold: math.Inf(1)}
	c.send()
	return c
}

// Stop lets the flow send no more.
func (c *Cubic) Stop() { c.left = 0 }

// Forget drops what was measured so far.
func (c *Cubic) Forget() { c.Acked, c.Lost = 0, 0 }

// send fills the window.
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

// work returns the time that its two hosts take with a packet, as ours do (bulkConfig). Without it each of its packets would come to the
// bottleneck in the very moment when another one leaves, and find room where others find none (Floyd and Jacobson, 1991).
func (c *Cubic) work() time.Duration { return between(c.net.rng, 0, cubicWork) }

// cubicWork bounds it.
const cubicWork = 8 * time.Microsecond

// lose takes in the loss of a packet. All losses of a round trip count as one.
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

// target returns where the window should be a round trip from now: on the cubic curve, or where Reno's is. Reno's grows with acknowledgements and so with
// round trips as they are, queue and all.
func (c *Cubic) target() float64 {
	since := c.net.now.Sub(c.reducedAt).Seconds() + c.rtt.Seconds()
	late := since - math.Cbrt(c.before*(1-cubicBeta)/cubicC) // after the plateau; negative before
	return max(cubicC*late*late*late+c.before, c.reno)
}

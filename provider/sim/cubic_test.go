//go:build !race

package sim

import (
	"math"
	"testing"
	"time"
)

// The estimate of Reno's window grows by its additive increase for each window of acknowledgements, however long the queue makes a
// round trip (RFC 9438 section 4.3). Once it has reached the earlier window, it grows by a packet.
func TestCubicGrowsWithAcknowledgements(t *testing.T) {
	n := NewNetwork(1, Conditions{}, nil)
	for _, x := range []struct{ before, grows float64 }{{1000, cubicAlpha}, {50, 1}} {
		c := &Cubic{net: n, rtt: time.Microsecond, window: 100, threshold: 50, before: x.before, reno: 100, reducedAt: n.now}
		for range 100 {
			c.inFlight++
			c.acknowledged()
		}
		if d := c.reno - 100; math.Abs(d-x.grows) > x.grows/5 { // the window grows meanwhile
			t.Errorf("before at %g: a window of acknowledgements adds %g packets", x.before, d)
		}
	}
}

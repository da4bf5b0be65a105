package congestion

import (
	"math"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// The constants of RFC 9438 sections 4.1, 4.5 and 4.3: beta is lossKeep/10.
const (
	cubicC    = 0.4
	renoNum   = 9 // alpha is 3*(1-beta)/(1+beta)
	renoDen   = 17
	cubicBeta = float64(lossKeep) / 10
)

// cubic is how the window grows after loss or marks reduced it. It follows RFC 9438, like most traffic on the Internet, so that neither
// starves the other.
type cubic struct {
	from   int           // W_max in bytes; zero when the delay was what reduced the window last
	reno   int           // W_est in bytes
	credit int           // what W_est is to grow, in bytes times bytes
	begin  clock.Time    // of growth
	turn   time.Duration // K: from then to the plateau
}

// cut takes in that loss or marks reduce a window to what is left of it. Growth begins at begin.
func (c *cubic) cut(window, left, packet int, begin clock.Time) {
	top := window
	if top < c.from {
		top = top * (10 + lossKeep) / 20 // fast convergence
	}
	*c = cubic{from: top, reno: left, begin: begin}
	c.turn = time.Duration(math.Cbrt(float64(max(top-left, 0))/float64(packet)/cubicC) * float64(time.Second))
}

// grow is what a window becomes with so many acknowledged bytes.
func (c *cubic) grow(window, bytes, packet int, now clock.Time, round time.Duration) int {
	c.credit += bytes * packet * renoNum
	whole := window * renoDen
	c.reno += c.credit / whole
	c.credit %= whole
	late := (now.Sub(c.begin) + round - c.turn).Seconds()
	curve := cubicC * late * late * late * float64(packet)
	to := max(c.reno, int(min(float64(c.from)+curve, MaxWindow)))
	to = min(to, window+window/2)
	if to <= window {
		return window
	}
	return window + max((to-window)*bytes/max(window, bytes), 0)
}

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

// cubic is window growth after loss or marks. It follows RFC 9438, because most Internet traffic does, so that neither starves the
// other.
type cubic struct {
	from   int           // W_max in bytes; zero if delay caused the last decrease
	reno   int           // W_est in bytes
	credit int           // pending growth of W_est, in bytes times bytes
	begin  clock.Time    // beginning of growth
	turn   time.Duration // K: time from begin to the plateau
}

// cut records that loss or marks reduce the window to left. Growth begins at begin.
func (c *cubic) cut(window, left, packet int, begin clock.Time) {
	top := window
	if top < c.from {
		top = top * (10 + lossKeep) / 20 // fast convergence
	}
	*c = cubic{from: top, reno: left, begin: begin}
	c.turn = time.Duration(math.Cbrt(float64(max(top-left, 0))/float64(packet)/cubicC) * float64(time.Second))
}

// grow returns the new window after bytes were acknowledged.
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

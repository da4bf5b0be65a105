package bulk

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// Rest is the state of the bulk path that an idle connection keeps: past failures, but not the proven sizes. It takes four bytes,
// because an engine may have very many idle connections. The zero Rest has no failure.
type Rest struct {
	pause  uint8  // length of the newest pause, in seconds
	counts uint8  // unanswered probes, and from triesBits on failures of long packets
	until  uint16 // earliest time of the next probe: the low bits of the clock's seconds, rounded up
}

// triesBits is the number of bits that hold maxProbes.
const triesBits = 2

const (
	_ = uint8(mostPause / time.Second)             // a pause fits into Rest.pause
	_ = uint8(mostFailures<<triesBits | maxProbes) // both counts fit into Rest.counts
)

// RestOf returns the state to keep while the connection is idle.
func RestOf(c *Choice, l *Long) Rest {
	failures := l.failures
	if l.tries > 0 { // they will not be answered any more
		failures = min(failures+1, mostFailures)
	}
	r := Rest{counts: c.tries | failures<<triesBits}
	if c.pause != 0 || c.tries != 0 {
		r.pause, r.until = uint8(c.pause/time.Second), uint16((c.at+clock.Time(time.Second-1))/clock.Time(time.Second))
	}
	return r
}

// Resume restores the state from r. If always is set, the proven bulk path takes packets of every kind. The bits of the seconds wrap
// after 18 hours, so the bulk path may be avoided once more, for at most mostPause.
func (r Rest) Resume(now clock.Time, always bool) (Choice, Long) {
	c := Choice{proof: proof{tries: r.counts & (1<<triesBits - 1)}, pause: time.Duration(r.pause) * time.Second, always: always}
	left := time.Duration(int16(r.until-uint16(now/clock.Time(time.Second)))) * time.Second
	if (c.pause != 0 || c.tries != 0) && left > 0 && left <= mostPause {
		c.at = now.Add(left)
	}
	return c, Long{failures: r.counts >> triesBits}
}

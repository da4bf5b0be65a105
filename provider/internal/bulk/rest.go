package bulk

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// Rest is the state of the bulk path that an idle connection keeps: past failures, but not the proven size. It takes four bytes,
// because an engine may have very many idle connections. The zero Rest has no failure.
type Rest struct {
	pause uint8  // length of the newest pause, in seconds
	tries uint8  // unanswered probes
	until uint16 // earliest time of the next probe: the low bits of the clock's seconds, rounded up
}

const _ = uint8(mostPause / time.Second) // a pause fits into Rest.pause

// Rest returns the state to keep while the connection is idle.
func (c *Choice) Rest() Rest {
	if c.pause == 0 && c.tries == 0 {
		return Rest{}
	}
	return Rest{uint8(c.pause / time.Second), c.tries, uint16((c.at + clock.Time(time.Second-1)) / clock.Time(time.Second))}
}

// Resume restores a Choice from r. If always is set, the proven bulk path takes packets of every kind. The bits of the seconds wrap
// after 18 hours, so the bulk path may be avoided once more, for at most mostPause.
func (r Rest) Resume(now clock.Time, always bool) Choice {
	c := Choice{pause: time.Duration(r.pause) * time.Second, tries: r.tries, always: always}
	left := time.Duration(int16(r.until-uint16(now/clock.Time(time.Second)))) * time.Second
	if r != (Rest{}) && left > 0 && left <= mostPause {
		c.at = now.Add(left)
	}
	return c
}

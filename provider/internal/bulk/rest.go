package bulk

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// Rest is what an idle connection remembers of its bulk path: how the path failed, and not that it was proven. It takes four bytes, because
// there may be very many idle connections. Zero is nothing.
type Rest struct {
	pause uint8  // the newest one, in seconds
	tries uint8  // probes without an answer
	until uint16 // when the next one may leave: the last bits of the clock's seconds, rounded up
}

const _ = uint8(mostPause / time.Second) // Rest.pause has room for it

// Rest returns what is to be remembered.
func (c *Choice) Rest() Rest {
	if c.pause == 0 && c.tries == 0 {
		return Rest{}
	}
	return Rest{uint8(c.pause / time.Second), c.tries, uint16((c.at + clock.Time(time.Second-1)) / clock.Time(time.Second))}
}

// Resume goes on where Rest left off. The bits of the seconds come round after 18 hours: then a path may be left once more, for mostPause at
// the most. With always, packets of every kind leave by the path once it is proven.
func (r Rest) Resume(now clock.Time, always bool) Choice {
	c := Choice{pause: time.Duration(r.pause) * time.Second, tries: r.tries, always: always}
	left := time.Duration(int16(r.until-uint16(now/clock.Time(time.Second)))) * time.Second
	if r != (Rest{}) && left > 0 && left <= mostPause {
		c.at = now.Add(left)
	}
	return c
}

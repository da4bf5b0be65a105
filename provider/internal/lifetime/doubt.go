package lifetime

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// A doubted peer has four round trips to answer one PING, within these bounds. A longer wait would not help: a stopped process
// keeps its UDP port, so a slow but live process is never doubted.
const (
	minDoubt = FirstRetry
	maxDoubt = 600 * time.Millisecond
)

// Doubt is the state of a connection after the peer's kernel reported that no process holds the peer's UDP port.
type Doubt struct{ from, until clock.Time }

// NewDoubt starts to doubt a peer. roundTrip is the round trip of the path.
func NewDoubt(now clock.Time, roundTrip time.Duration) *Doubt {
	return &Doubt{from: now, until: now.Add(min(max(minDoubt, 4*roundTrip), maxDoubt))}
}

// Confirmed reports whether the peer was silent during the doubt. heard is when the peer was last heard. It is called when the
// doubt is due.
func (d *Doubt) Confirmed(heard clock.Time) bool { return heard <= d.from }

// Due returns when the doubt ends, or zero for nil.
func (d *Doubt) Due() clock.Time {
	if d == nil {
		return 0
	}
	return d.until
}

package lifetime

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// When the peer's kernel reports that no process holds the peer's UDP port, the peer has four round trips to answer one PING, within
// these bounds. A longer wait would not help a slow process: a process keeps its UDP port while it is stopped, so the kernel does not
// report it.
const (
	minDoubt = FirstRetry
	maxDoubt = 600 * time.Millisecond
)

// Doubt is the state of a connection after the peer's kernel reported that no process holds the peer's UDP port.
type Doubt struct{ from, until clock.Time }

// NewDoubt starts the wait for a sign of life of the peer. roundTrip is the round trip of the path.
func NewDoubt(now clock.Time, roundTrip time.Duration) *Doubt {
	return &Doubt{from: now, until: now.Add(min(max(minDoubt, 4*roundTrip), maxDoubt))}
}

// Confirmed reports whether the peer was silent during the wait. heard is when the newest packet of the peer arrived. Confirmed is called
// at the time that Due returned.
func (d *Doubt) Confirmed(heard clock.Time) bool { return heard <= d.from }

// Due returns when the wait ends, or zero for nil.
func (d *Doubt) Due() clock.Time {
	if d == nil {
		return 0
	}
	return d.until
}

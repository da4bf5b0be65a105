package lifetime

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// The bounds of the time that a doubted peer has to answer one PING: four round trips. A process that is stopped still holds its UDP port, so
// nobody who lives is doubted because it is slow, and waiting for longer would tell nothing.
const (
	minDoubt = FirstRetry
	maxDoubt = 600 * time.Millisecond
)

// Doubt is that the peer's kernel says that no process holds the peer's UDP port.
type Doubt struct{ from, until clock.Time }

// NewDoubt begins to doubt a peer whose round trip takes so long.
func NewDoubt(now clock.Time, roundTrip time.Duration) *Doubt {
	return &Doubt{from: now, until: now.Add(min(max(minDoubt, 4*roundTrip), maxDoubt))}
}

// Confirmed says that the peer, which was heard last at some time, has not shown itself. It is asked when the doubt is due.
func (d *Doubt) Confirmed(heard clock.Time) bool { return heard <= d.from }

// Due is when the doubt ends; zero for nil.
func (d *Doubt) Due() clock.Time {
	if d == nil {
		return 0
	}
	return d.until
}

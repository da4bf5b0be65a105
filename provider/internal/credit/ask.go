package credit

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// AskInterval is the longest time between two questions of a sender that waits.
const AskInterval = 20 * time.Millisecond

// Ask is the sender's state while a SEND is blocked by the receive limit alone. The zero Ask waits for nothing.
type Ask struct {
	since clock.Time // zero if no SEND waits
	at    clock.Time // time of the next question
	asked uint8      // number of questions, counted only while it lengthens the gap
}

// Waiting reports whether a SEND waits.
func (a *Ask) Waiting() bool { return a.since != 0 }

// Since returns when the wait began, or zero if no SEND waits.
func (a *Ask) Since() clock.Time { return a.since }

// Begin starts a wait. trip is the round trip of the path.
func (a *Ask) Begin(now clock.Time, trip time.Duration) {
	*a = Ask{since: now}
	a.Next(now, trip, false)
}

// Restart sets the beginning of the wait to at.
func (a *Ask) Restart(at clock.Time) { a.since = at }

// End ends the wait.
func (a *Ask) End() { a.since = 0 }

// At returns the time of the next question.
func (a *Ask) At() clock.Time { return a.at }

// Soon moves the next question to now.
func (a *Ask) Soon(now clock.Time) { a.at = now }

// Next sets the time of the next question. The report that raised the limit may be lost. The first question follows after half a
// round trip, so this loss costs one and a half round trips. The time doubles with each question. If the peer is silent, the wait
// is shortened by AskInterval: silence does not mean that the peer has no receive.
func (a *Ask) Next(now clock.Time, trip time.Duration, silent bool) {
	if silent {
		a.since = min(a.since.Add(AskInterval), now)
	}
	gap := max(trip/2, minGap) << a.asked
	if gap < AskInterval {
		a.asked++
	}
	a.at = now.Add(min(gap, AskInterval))
}

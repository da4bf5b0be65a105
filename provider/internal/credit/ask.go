package credit

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// AskInterval is how often a sender asks that has waited for long.
const AskInterval = 20 * time.Millisecond

// Ask is the sending side of a wait: a SEND is held up by the receive limit, and nothing else. Its zero value waits for nothing.
type Ask struct {
	since clock.Time // zero when nothing waits
	at    clock.Time
	asked uint8 // as far as that makes the next time later
}

// Waiting says whether a SEND waits.
func (a *Ask) Waiting() bool { return a.since != 0 }

// Since returns when the wait began; zero when there is none.
func (a *Ask) Since() clock.Time { return a.since }

// Begin starts the wait over a path with this round trip.
func (a *Ask) Begin(now clock.Time, trip time.Duration) {
	*a = Ask{since: now}
	a.Next(now, trip, false)
}

// Restart lets the wait count from now on, or from that time.
func (a *Ask) Restart(at clock.Time) { a.since = at }

// End ends the wait.
func (a *Ask) End() { a.since = 0 }

// At returns when to ask.
func (a *Ask) At() clock.Time { return a.at }

// Soon lets the next look come at once.
func (a *Ask) Soon(now clock.Time) { a.at = now }

// Next plans the next question. The report that raised the limit may be lost. So the first question comes after half a round trip, and the
// loss costs one and a half. Each further question comes after twice the time. silent says that the peer does not answer at all; it has not
// said that it has no receive, and this time does not count.
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

package congestion

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

const (
	// firstApart is how long packets leave one by one after a time-out, and mostApart the maximum. The time doubles with each time-out soon
	// after the previous one, so that a path that loses every GSO batch costs little in the end.
	firstApart = 100 * time.Millisecond
	mostApart  = 100 * time.Second
	// soon is how many times that time a time-out later means that runs do well again.
	soon = 4
)

// Runs decides whether packets may leave in runs that the kernel or a device cuts (PROTOCOL §11). A device or a machine on the way may lose runs that it
// would carry packet by packet: after a time-out they leave one by one for some time.
type Runs struct {
	apart time.Duration // the newest time without
	since clock.Time    // when it ended, or ends
}

// May says whether a packet that leaves now may join a run.
func (r *Runs) May(now clock.Time) bool { return now >= r.since }

// TimedOut handles a time-out of all packets in flight. It returns whether batches are suspended for some time because of it.
func (r *Runs) TimedOut(now clock.Time) bool {
	if !r.May(now) {
		return false
	}
	if r.apart == 0 || now.Sub(r.since) > soon*r.apart {
		r.apart = firstApart
	} else {
		r.apart = min(2*r.apart, mostApart)
	}
	r.since = now.Add(r.apart)
	return true
}

// InTime takes in that what the newest time-out was for had arrived.
func (r *Runs) InTime(now clock.Time) {
	if now < r.since {
		r.since, r.apart = now, r.apart/2
	}
}

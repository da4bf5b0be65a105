package congestion

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

const (
	// firstApart is how long packets leave one by one after a time-out, and mostApart the longest time. The time doubles with each
	// time-out soon after the previous one, so that a path that loses every GSO batch costs little in the end.
	firstApart = 100 * time.Millisecond
	mostApart  = 100 * time.Second
	// soon: a time-out later than soon times this duration means that GSO batches were carried again.
	soon = 4
)

// Runs decides whether packets may leave in GSO batches, which the kernel or a device segments (PROTOCOL §11). A device or host on
// the path may lose a batch although it would carry the single packets. So after a time-out packets leave one by one for a time.
type Runs struct {
	apart time.Duration // length of the newest suspension
	since clock.Time    // end of the newest suspension
}

// May reports whether a packet that leaves now may join a GSO batch.
func (r *Runs) May(now clock.Time) bool { return now >= r.since }

// TimedOut handles a time-out of all packets in flight. It reports whether GSO batches are suspended because of it.
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

// InTime handles a spurious time-out: the packets had arrived.
func (r *Runs) InTime(now clock.Time) {
	if now < r.since {
		r.since, r.apart = now, r.apart/2
	}
}

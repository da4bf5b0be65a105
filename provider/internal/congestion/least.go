package congestion

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// leastSpan is how long the least round trip is remembered for at least; at most twice as long (BBR: 10 s).
const leastSpan = 5 * time.Second

// least is the least round trip of the last seconds: of this span and of the one before. A path that becomes longer is found out when
// what it was is forgotten.
type least struct {
	now, last time.Duration // zero for no sample
	until     clock.Time    // the end of this span
	long      bool          // only long packets count: on slow links others take much less time
	begun     bool          // one of them came
	longAt    clock.Time    // when the newest of them did
}

// lengthen begins anew as soon as packets come that are much longer.
func (l *least) lengthen() { l.long, l.begun, l.longAt = true, false, clock.Never }

func (l *least) sample(now clock.Time, d time.Duration, long bool) {
	switch {
	case !l.long:
	case long && l.begun:
		l.longAt = now
	case long:
		*l = least{long: true, begun: true, longAt: now}
	case now.Sub(l.longAt) <= leastSpan:
		return
	default:
		l.long = false // there are none any more
	}
	if now >= l.until {
		l.last, l.now, l.until = l.now, 0, now.Add(leastSpan)
	}
	if l.now == 0 || d < l.now {
		l.now = d
	}
}

func (l *least) value() time.Duration {
	if l.last == 0 {
		return l.now
	}
	return min(l.now, l.last)
}

// restart forgets all but d.
func (l *least) restart(now clock.Time, d time.Duration) {
	l.now, l.last, l.until = d, 0, now.Add(leastSpan)
}

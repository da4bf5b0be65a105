package congestion

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// leastSpan is how long the least round trip is remembered for at least; at most twice as long (BBR: 10 s).
const leastSpan = 5 * time.Second

// leastRounds is the same in round trips: on long paths a drain comes every 10 s, and what it showed is to last until the next.
const leastRounds = 64

// least is the least round trip of the last seconds: of this span and of the span before. A path that becomes longer is detected when the
// old value expires.
type least struct {
	now, last time.Duration // zero for no sample
	until     clock.Time    // the end of this span
}

func (l *least) sample(now clock.Time, d, span time.Duration) {
	if now >= l.until {
		l.last, l.now, l.until = l.now, 0, now.Add(span)
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

// path is the round trip without a queue, of full packets. Where packets leave slowly, short ones take less time: a flow that took theirs for its
// own would aim at a shorter queue than others, and be left with less.
type path struct {
	all, full least
	fullAt    clock.Time    // when the newest full packet came
	leave     time.Duration // the least time that a full packet took to leave, at the rate the flow had: while the window grows, less than it takes
	base      time.Duration
}

func (p *path) sample(now clock.Time, d, round time.Duration, full bool) {
	span := max(leastSpan, leastRounds*round)
	p.all.sample(now, d, span)
	if full {
		p.full.sample(now, d, span)
		p.fullAt = now
	}
}

// A full packet may always take 1/fullPart of the least round trip longer: such a queue is a small part of the target. Without this
// allowance, a flow that alone saw the empty path, by the short packets of its handshake, assumed a shorter round trip than other flows,
// and was left with a third of its share.
const fullPart = 8

// follow sets the path's round trip. A full packet takes longer than a short one by its transmission time. A delay beyond this is a queue
// that was always there. For packets that are much longer, this time is not known well enough.
func (p *path) follow(now clock.Time, longer bool) {
	p.base = p.all.value()
	full := p.full.value()
	switch {
	case full == 0 || now.Sub(p.fullAt) > leastSpan:
	case longer:
		p.base = full
	default:
		p.base = min(full, p.base+max(p.leave, p.base/fullPart))
	}
}

// left takes in how long a full packet takes to leave at the rate the flow has.
func (p *path) left(d time.Duration) {
	if p.leave == 0 || d < p.leave {
		p.leave = d
	}
}

// lengthen forgets what full packets took: now they are longer.
func (p *path) lengthen() { p.full, p.leave = least{}, 0 }

// restart forgets all but d.
func (p *path) restart(now clock.Time, d time.Duration) {
	p.all.restart(now, d)
	p.full.restart(now, d)
	p.base = d
}

package congestion

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// leastSpan is the least time that the least round trip is kept; it is kept for at most twice as long (BBR: 10 s).
const leastSpan = 5 * time.Second

// leastRounds is the same in round trips. On long paths a drain comes every 10 s, and its result must last until the next.
const leastRounds = 64

// least is the least round trip of the present span and of the previous one. If a path becomes longer, this shows when the old
// value expires.
type least struct {
	now, last time.Duration // of the present and the previous span; zero for no sample
	until     clock.Time    // end of the present span
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

// restart drops all samples and sets d.
func (l *least) restart(now clock.Time, d time.Duration) {
	l.now, l.last, l.until = d, 0, now.Add(leastSpan)
}

// path is the round trip of full packets without a queue. On slow links short packets take less time. A flow that used their round
// trip would aim at a shorter queue than other flows, and get a smaller share.
type path struct {
	all, full least
	fullAt    clock.Time    // when the newest full packet was acknowledged
	leave     time.Duration // least transmission time of a full packet at the flow's rate; too low while the window grows
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

// A full packet may always take longer by 1/fullPart of the least round trip; a queue of this length is a small part of the target.
// Without this allowance, a flow that alone saw the empty path, with its short handshake packets, would assume a shorter round trip
// than other flows and get a third of its share.
const fullPart = 8

// follow updates the path's round trip. A full packet takes longer than a short one by its transmission time. A longer delay is a
// standing queue. If full packets are much longer, the transmission time is not known well enough.
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

// left records the transmission time of a full packet at the flow's rate.
func (p *path) left(d time.Duration) {
	if p.leave == 0 || d < p.leave {
		p.leave = d
	}
}

// lengthen drops the samples of full packets, because full packets are now longer.
func (p *path) lengthen() { p.full, p.leave = least{}, 0 }

// restart drops all samples and sets d.
func (p *path) restart(now clock.Time, d time.Duration) {
	p.all.restart(now, d)
	p.full.restart(now, d)
	p.base = d
}
